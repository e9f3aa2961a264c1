//! NodePools, and the reasons why they launch no nodes.

use std::collections::BTreeMap;

use model::{
    Plan, Snapshot,
    labels::NODE_POOL,
    ledger::PauseLevel,
    node_pool::NodePool,
    resources::{Resources, amount_text},
};

use super::Pool;

/// Number and total capacity of a NodePool's nodes.
#[derive(Default)]
struct Usage {
    nodes: i64,
    capacity: Resources,
}

/// All NodePools, by name.
pub(crate) fn pools(snapshot: &Snapshot, plan: &Plan) -> Vec<Pool> {
    let mut usages: BTreeMap<&str, Usage> = BTreeMap::new();
    for claim in &snapshot.node_claims {
        if let (Some(pool), None) = (claim.labels.get(NODE_POOL), claim.deleted_at) {
            let usage = usages.entry(pool).or_default();
            usage.nodes += 1;
            usage.capacity.add(&claim.status.capacity);
        }
    }
    let unused = Usage::default();
    let pools = snapshot.node_pools.iter().map(|pool| {
        let usage = usages.get(pool.name.as_str()).unwrap_or(&unused);
        Pool {
            name: pool.name.to_string(),
            problems: problems(pool, usage, snapshot, plan),
        }
    });
    let mut pools: Vec<Pool> = pools.collect();
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    pools
}

fn problems(pool: &NodePool, usage: &Usage, snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut problems = Vec::new();
    if pool.deleted_at.is_some() {
        problems.push("it is being deleted".to_owned());
    }
    problems.extend(pool.not_ready.clone());
    problems.extend(plan.pools_without_types.get(&pool.name).cloned());
    let name = Some(&pool.name);
    let paused = [PauseLevel::All, PauseLevel::Voluntary]
        .into_iter()
        .find_map(|level| snapshot.paused(name, level, snapshot.now));
    problems.extend(paused.map(|paused| format!("paused: {paused}")));
    problems.extend(pool.limits.iter().filter_map(|(resource, limit)| {
        let used = match resource {
            "nodes" => usage.nodes,
            resource => usage.capacity.get(resource),
        };
        let [used_text, limit_text] = [used, limit].map(|amount| amount_text(resource, amount));
        (used >= limit).then(|| format!("limit reached: {used_text} of {limit_text} {resource}"))
    }));
    if let Some(replicas) = pool.replicas.filter(|replicas| usage.nodes < *replicas) {
        problems.push(format!("{} of {replicas} replicas", usage.nodes));
    }
    problems
}
