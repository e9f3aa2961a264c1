//! Disruption budgets of NodePools. A command is checked when it is committed, because lowering a budget later does not undo it.

use std::collections::{BTreeMap, BTreeSet};

use api::{conditions::types, karpenter::Budget};
use fakes::World;
use jiff::Timestamp;
use model::{NodeClaimName, NodePoolName, labels, ledger::CommandState, node_claim::NodeClaim};

use super::{
    Laws,
    pauses::SKEW,
    state::{CHECK_INTERVAL, COMMIT_DELAY_MAX},
};
use crate::{rows, script::WINDOW};

impl Laws {
    pub(super) fn budgets(&mut self, world: &World) {
        let now = world.now;
        for (name, pool) in &world.api.node_pools {
            let total = || initialized(world, name);
            let least_at = |at| {
                let budgets = pool.spec.disruption.budgets.iter();
                budgets
                    .filter(|budget| is_in_force(budget, at))
                    .filter_map(|budget| allowed(&budget.nodes, total))
                    .min()
                    .unwrap_or(i64::MAX)
            };
            // On a fast clock, a window may have closed already.
            let least = least_at(now).max(least_at(now + SKEW));
            let past = self.budgets.entry(name.as_str().into()).or_default();
            // The last value held until a second ago.
            if let Some((at, _)) = past.last_mut() {
                *at = now - CHECK_INTERVAL;
            }
            // Keeps each value with the last time at which it held.
            past.retain(|(_, nodes)| *nodes != least);
            past.push((now, least));
            past.retain(|(at, _)| now.duration_since(*at) < COMMIT_DELAY_MAX);
        }
        let disrupted = disrupted(world);
        for (pool, names) in &disrupted {
            let before = self.disrupted.get(pool);
            if before.is_some_and(|before| names.is_subset(before)) {
                continue;
            }
            let past = self.budgets.get(pool).into_iter().flatten();
            let allowed = past.map(|(_, nodes)| *nodes).max().unwrap_or(i64::MAX);
            if names.len() > usize::try_from(allowed).unwrap_or(0) {
                let what =
                    format!("NodePool {pool}: {names:?} are disrupted at once, of {allowed}");
                self.breaks("budgets hold", now, what);
            }
        }
        self.disrupted = disrupted;
    }
}

/// Number of nodes that a budget allows. A percentage is rounded up, as in Karpenter.
fn allowed(nodes: &str, total: impl Fn() -> i64) -> Option<i64> {
    match nodes.strip_suffix('%') {
        None => nodes.parse().ok(),
        Some(share) => {
            let share: i64 = share.parse().ok()?;
            Some((total() * share + 99) / 100)
        }
    }
}

/// Returns whether a budget is active. Schedules of settings consist of a minute of each hour.
fn is_in_force(budget: &Budget, now: Timestamp) -> bool {
    let Some(schedule) = &budget.schedule else {
        return true;
    };
    let from = schedule
        .split(' ')
        .next()
        .and_then(|minute| minute.parse::<i64>().ok());
    from.is_some_and(|from| (now.as_second() / 60 - from).rem_euclid(60) < WINDOW)
}

/// Number of nodes that percentages refer to. As in Karpenter, the node's label counts, because the NodeClaim's condition may be
/// rejected.
fn initialized(world: &World, pool: &str) -> i64 {
    let counts = |claim: &&NodeClaim| {
        let mut nodes = world.api.nodes.values();
        claim.node_pool().is_some_and(|name| name.as_str() == pool)
            && !claim.is_true(types::INSTANCE_TERMINATING)
            && nodes.any(|node| {
                let label = node.labels.get(labels::INITIALIZED);
                node.provider_id == claim.status.provider_id
                    && label.is_some_and(|value| value == "true")
            })
    };
    let count = world.api.node_claims.values().filter(counts).count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Nodes under disruption. As in Karpenter, instances that EC2 is terminating, and NodeClaims without a Node, no longer count
/// (docs/spec/lifecycle.md#budget-counts).
fn disrupted(world: &World) -> BTreeMap<NodePoolName, BTreeSet<NodeClaimName>> {
    let mut disrupted: BTreeMap<NodePoolName, BTreeSet<NodeClaimName>> = BTreeMap::new();
    let in_disruption = in_disruption(world);
    for claim in in_disruption
        .iter()
        .filter_map(|name| world.api.node_claims.get(name))
    {
        let ends = claim.is_true(api::conditions::types::INSTANCE_TERMINATING);
        let mut nodes = world.api.nodes.values();
        // A node that was never in service is not a disruption.
        let stands = nodes.any(|node| {
            node.provider_id == claim.status.provider_id
                && node.labels.contains_key(labels::INITIALIZED)
        });
        if let Some(pool) = claim.node_pool().filter(|_| stands && !ends) {
            disrupted
                .entry(pool)
                .or_default()
                .insert(claim.name.clone());
        }
    }
    disrupted
}

/// NodeClaims that a command disrupts and that still exist.
fn in_disruption(world: &World) -> BTreeSet<NodeClaimName> {
    let claims = &world.api.node_claims;
    let rows = rows(world);
    let mut in_disruption = BTreeSet::new();
    for command in rows.iter().flat_map(|rows| rows.commands.values()) {
        // A proposal ends when it is committed as another command.
        let choice = command.choice.as_ref();
        if choice.is_none_or(|choice| choice.validate_at.is_some()) {
            continue;
        }
        let is_done = command.state == CommandState::Done;
        for target in &command.delete {
            let claim = claims.get(&target.name);
            let Some(claim) = claim.filter(|claim| claim.uid == target.uid) else {
                continue;
            };
            if command.state.is_open() || claim.deleted_at.is_some() && is_done {
                in_disruption.insert(target.name.clone());
            }
        }
    }
    in_disruption
}
