//! NodePools and Deployments according to the setting.

use api::{
    NodePool,
    names::{annotation::DO_NOT_DISRUPT, label},
};
use fakes::World;
use model::{
    PodKey, Resources,
    selector::LabelSelector,
    snapshot::PodDisruptionBudget,
    taint::{TaintEffect, Toleration, TolerationOperator},
};

use crate::script::{BudgetSetting, PoolSetting, Setting, TEAM, WINDOW};

/// Key of the taint of NodePool `team`.
const DEDICATED: &str = "dedicated";

/// Sets up one cluster.
pub(super) fn set_up(world: &mut World, setting: &Setting) {
    let api = &mut world.api;
    let class = fakes::node_class("default");
    api.node_classes.insert("default".into(), class);
    for pool in &setting.pools {
        api.node_pools.insert(pool.name.into(), node_pool(pool));
    }
    if setting.disruption_budget {
        api.disruption_budgets.push(PodDisruptionBudget {
            key: PodKey::new("default", "web"),
            selector: Some(LabelSelector {
                match_labels: [("app".to_owned(), "web".to_owned())].into(),
                match_expressions: Vec::new(),
            }),
            disruptions_allowed: 0,
            max_unavailable: None,
            min_available: Some("1".to_owned()),
            always_allow_unhealthy: false,
            is_met: false,
        });
    }
    if setting.do_not_disrupt {
        let held = api.deployments.entry("held".into()).or_default();
        held.requests = requests("held");
        held.annotations
            .insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
    }
    if setting.has_team() {
        let team = api.deployments.entry(TEAM.into()).or_default();
        team.node_selector
            .insert(label::NODE_POOL.to_owned(), TEAM.to_owned());
        team.tolerations.push(Toleration {
            key: DEDICATED.to_owned(),
            operator: TolerationOperator::Equal,
            value: TEAM.to_owned(),
            effect: Some(TaintEffect::NoSchedule),
            toleration_seconds: None,
        });
    }
}

fn node_pool(setting: &PoolSetting) -> NodePool {
    let mut pool = fakes::node_pool(setting.name, setting.consolidate_after);
    pool.spec.weight = setting.weight;
    let template = &mut pool.spec.template.spec;
    if setting.spot {
        for requirement in &mut template.requirements {
            if requirement.key == model::labels::CAPACITY_TYPE {
                requirement.values = vec!["spot".to_owned(), "on-demand".to_owned()];
            }
        }
    }
    if setting.name == TEAM {
        let taint = serde_json::json!([{"key": DEDICATED, "value": TEAM, "effect": "NoSchedule"}]);
        template.taints = serde_json::from_value(taint).ok();
    }
    let json = |text: &str| serde_json::Value::from(text);
    if let Some(period) = setting.termination_grace_period {
        template.termination_grace_period = serde_json::from_value(json(period)).ok();
    }
    if let Some(after) = setting.expire_after
        && let Ok(after) = serde_json::from_value(json(after))
    {
        template.expire_after = after;
    }
    let budgets = serde_json::Value::Array(setting.budgets.iter().map(budget).collect());
    if let Ok(budgets) = serde_json::from_value(budgets) {
        pool.spec.disruption.budgets = budgets;
    }
    if let Some(cores) = setting.limit {
        limit(&mut pool, cores);
    }
    pool
}

fn budget(setting: &BudgetSetting) -> serde_json::Value {
    let nodes = setting.nodes;
    match setting.from {
        None => serde_json::json!({"nodes": nodes}),
        Some(minute) => serde_json::json!({
            "nodes": nodes,
            "schedule": format!("{minute} * * * *"),
            "duration": format!("{WINDOW}m"),
        }),
    }
}

/// Changes the budgets without a schedule.
pub(super) fn edit_budget(pool: &mut NodePool, nodes: &str) {
    for budget in &mut pool.spec.disruption.budgets {
        if budget.schedule.is_none() {
            nodes.clone_into(&mut budget.nodes);
        }
    }
    touch(pool);
}

/// Removes all limits that budgets impose.
pub(super) fn remove_budgets(pool: &mut NodePool) {
    pool.spec
        .disruption
        .budgets
        .retain(|budget| budget.schedule.is_none());
    edit_budget(pool, "100%");
}

pub(super) fn limit(pool: &mut NodePool, cores: i64) {
    let limits = serde_json::json!({"cpu": cores.to_string()});
    pool.spec.limits = serde_json::from_value(limits).ok();
    touch(pool);
}

/// Increments the generation, as an API server does when the spec changes.
pub(super) fn touch(pool: &mut NodePool) {
    pool.metadata.generation = pool.metadata.generation.map(|generation| generation + 1);
}

pub(super) fn requests(deployment: &str) -> Resources {
    let cores = match deployment {
        "web" => 1_500,
        "batch" | TEAM => 700,
        _ => 300,
    };
    Resources::from([("cpu", cores), ("memory", 512 << 20)])
}
