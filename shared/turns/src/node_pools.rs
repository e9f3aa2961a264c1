//! NodePool status: whether it can launch, and what its nodes come to (spec/lifecycle §26.1, §26.3, §26.5).

use api::{
    ConditionSet, ConditionStatus, EC2NodeClass, NodePool, conditions::types,
    karpenter::NodePoolStatus,
};
use jiff::Timestamp;
use model::{
    NodePoolName, Resources,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS, amount_text},
};
use planner::Inventory;

use crate::{TurnError, hashes, lane::Turn, observe::Observed};

/// Writes hash and status of every NodePool where they are out of date.
pub(crate) async fn keep(turn: &Turn<'_>, observed: &mut Observed) -> Result<(), TurnError> {
    hashes::keep_node_pools(turn, &mut observed.snapshot, &mut observed.problems).await;
    let inventory = Inventory::new(&observed.snapshot);
    for pool in &observed.node_pools {
        let name = NodePoolName::from(pool.metadata.name.as_str());
        let usage = inventory.usage(&name);
        let status = status(pool, &observed.node_classes, &usage, turn.now);
        if pool.status.as_ref() == Some(&status) {
            continue;
        }
        if let Err(error) = turn.api.update_node_pool_status(&name, &status).await {
            observed.problems.push(format!("NodePool {name}: {error}"));
        }
    }
    Ok(())
}

fn status(
    pool: &NodePool,
    classes: &[EC2NodeClass],
    usage: &Resources,
    now: Timestamp,
) -> NodePoolStatus {
    let mut status = pool.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let kinds = types::node_pool();
    let mut set = ConditionSet::new(&kinds, &mut conditions, &pool.metadata, now);
    let problems: Vec<String> = api::validation::node_pool(pool)
        .iter()
        .map(ToString::to_string)
        .collect();
    if problems.is_empty() {
        set.set_true(types::VALIDATION_SUCCEEDED);
    } else {
        set.set_false(
            types::VALIDATION_SUCCEEDED,
            "NodePoolValidationFailed",
            &problems.join("; "),
        );
    }
    judge_class(pool, classes, &mut set);
    status.conditions = Some(conditions);
    status.nodes = usage.get(NODES);
    let mut shown = Resources::default();
    for name in [CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES] {
        shown.set(name, 0);
    }
    shown.0.extend(usage.0.clone());
    let text = |(name, amount): (&str, i64)| {
        (
            name.to_owned(),
            serde_json::Value::String(amount_text(name, amount)),
        )
    };
    let list: serde_json::Map<String, serde_json::Value> = shown.iter().map(text).collect();
    status.resources = serde_json::from_value(serde_json::Value::Object(list)).ok();
    status
}

fn judge_class(pool: &NodePool, classes: &[EC2NodeClass], set: &mut ConditionSet<'_>) {
    let kind = types::NODE_CLASS_READY;
    let name = &pool.spec.template.spec.node_class_ref.name;
    let Some(class) = classes.iter().find(|class| class.metadata.name == *name) else {
        set.set_false(kind, "NodeClassNotFound", "NodeClass not found on cluster");
        return;
    };
    if class.metadata.is_deleting() {
        set.set_false(kind, "NodeClassTerminating", "NodeClass is Terminating");
        return;
    }
    let conditions = class
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    match conditions
        .iter()
        .find(|condition| condition.r#type == types::READY)
    {
        Some(ready) if ready.status == ConditionStatus::True => set.set_true(kind),
        Some(ready) if ready.status == ConditionStatus::False => {
            set.set_false(kind, &ready.reason, &ready.message)
        }
        Some(_) | None => {
            set.set_false(
                kind,
                "NodeClassReadinessUnknown",
                "Node Class Readiness Unknown",
            );
        }
    }
}
