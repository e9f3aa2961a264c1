//! Laws about node repair: a single failing node is replaced; many nodes with the same failure are not.

use std::collections::{BTreeMap, BTreeSet};

use api::names::label;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    Lane, NodeClaimName, NodePoolName, labels,
    ledger::{CommandState, Method},
    node::{ConditionStatus, Node},
};
use ports::ledger::Commit;

use super::{Laws, TURN_MAX, state::COMMIT_DELAY_MAX};

/// Toleration of unhealthy conditions, except errors of accelerators.
const TOLERATED: SignedDuration = SignedDuration::from_mins(30);
/// Longest time from the end of the toleration until the NodeClaim is deleted: a launch, and another one after a rolled back
/// repair.
const REPAIRED_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// Age from which a condition counts as shared with other nodes; a starting node is not ready for a while.
const STANDS_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// Number and percentage of nodes above which a failure is not a coincidence.
const MANY_NODES: usize = 3;
const MANY_PERCENT: usize = 20;

/// History of when repair was allowed and when it was held back.
#[derive(Default)]
pub(super) struct RepairWatch {
    /// Last time at which few enough nodes of a NodePool were unhealthy.
    open_at: BTreeMap<NodePoolName, Timestamp>,
    /// Last time at which too many were, or many nodes of several NodePools had the same failure.
    held_at: BTreeMap<NodePoolName, Timestamp>,
    /// NodeClaims with a committed repair.
    pub(super) chosen: BTreeSet<NodeClaimName>,
    /// Last time at which no failure was shared by many nodes of several NodePools.
    unshared_at: Option<Timestamp>,
}

impl Laws {
    pub(super) fn watch_repair(&mut self, world: &World) {
        let now = world.now;
        let mut pools: BTreeMap<NodePoolName, (usize, usize)> = BTreeMap::new();
        for (pool, node) in nodes(world) {
            let (all, failing) = pools.entry(pool).or_default();
            *all += 1;
            *failing += usize::from(failures(node).next().is_some());
        }
        let shared = share_failure(world);
        if !shared {
            self.repair.unshared_at = Some(now);
        }
        for (pool, (all, failing)) in pools {
            let most = (all * MANY_PERCENT).div_ceil(100);
            if failing <= most {
                self.repair.open_at.insert(pool.clone(), now);
            }
            if failing > most || shared {
                self.repair.held_at.insert(pool, now);
            }
        }
        self.check_late_repairs(world);
    }

    /// Checks that no repair is committed while many nodes of a NodePool are unhealthy or many of several NodePools share a
    /// failure: replacements would fail as well.
    pub(super) fn check_repairs(&mut self, world: &World, lane: Lane, commit: &Commit) {
        let now = world.now;
        let repairs = commit.commands.iter().filter(|command| {
            let choice = command.choice.as_ref();
            let is_repair = choice.is_some_and(|choice| choice.method == Method::Repair);
            is_repair && command.state == CommandState::Replacing
        });
        for target in repairs.flat_map(|command| &command.delete) {
            self.repair.chosen.insert(target.name.clone());
            let claim = world.api.node_claims.get(&target.name);
            let Some(pool) = claim.and_then(|claim| claim.node_pool()) else {
                continue;
            };
            let long_ago = |at: Option<&Timestamp>| {
                at.is_none_or(|at| now.duration_since(*at) > COMMIT_DELAY_MAX)
            };
            let watch = &self.repair;
            if lane == Lane::Disruption
                && (long_ago(watch.open_at.get(&pool)) || long_ago(watch.unshared_at.as_ref()))
            {
                let what = format!("{} of NodePool {pool}", target.name);
                self.breaks("nodes with a shared failure are not repaired", now, what);
            }
        }
    }

    /// Checks that a single failing node is deleted in time.
    fn check_late_repairs(&mut self, world: &World) {
        let now = world.now;
        let patience = REPAIRED_WITHIN + TURN_MAX;
        let acts = self
            .active_since
            .is_some_and(|since| now.duration_since(since) > patience);
        if self.clear_for <= patience || !acts || !self.pauses.have_resumed(self.has_relay, now) {
            return;
        }
        let late = nodes(world).find(|(pool, node)| {
            let mut claims = world.api.node_claims.values();
            let claim = claims.find(|claim| claim.status.provider_id == node.provider_id);
            let Some(claim) = claim.filter(|claim| claim.deleted_at.is_none()) else {
                return false;
            };
            let held = self.repair.held_at.get(pool);
            let is_open = held.is_none_or(|at| now.duration_since(*at) > patience);
            let mut conditions = node.conditions.iter();
            let is_due = conditions.any(|condition| {
                let since = condition.since.unwrap_or(now);
                condition.status == ConditionStatus::False
                    && now.duration_since(since) > TOLERATED + patience
            });
            is_open
                && is_due
                && !self.rejected.excuses(claim.name.as_str(), now)
                && !self.rejected.excuses(node.name.as_str(), now)
        });
        if let Some((pool, node)) = late {
            let what = format!("{} of NodePool {pool} is not being removed", node.name);
            self.breaks("a single failing node is repaired", now, what);
        }
    }
}

/// Nodes of NodePools, with their NodePool.
fn nodes(world: &World) -> impl Iterator<Item = (NodePoolName, &Node)> {
    let nodes = world.api.nodes.values();
    nodes.filter_map(|node| Some((node.labels.get(labels::NODE_POOL)?.as_str().into(), node)))
}

/// Unhealthy conditions of a node that repair considers, with their start.
fn failures(node: &Node) -> impl Iterator<Item = (&str, Option<Timestamp>)> {
    let is_ready = node.ready.status == ConditionStatus::True;
    let ready = (!is_ready).then_some((node.ready.status.as_str(), node.ready.since));
    let others = node.conditions.iter();
    let others = others.filter(|other| other.status == ConditionStatus::False);
    ready
        .into_iter()
        .chain(others.map(|other| (other.kind.as_str(), other.since)))
}

/// Returns whether many nodes of several NodePools have shared a failure for a while.
fn share_failure(world: &World) -> bool {
    let mut failing: BTreeMap<&str, (usize, BTreeSet<NodePoolName>)> = BTreeMap::new();
    let mut all = 0;
    for (pool, node) in nodes(world) {
        all += 1;
        let starts = !node.labels.contains_key(label::INITIALIZED);
        for (failure, since) in failures(node) {
            let age = since.map(|since| world.now.duration_since(since));
            if !starts && age.is_some_and(|age| age > STANDS_AFTER) {
                let (count, pools) = failing.entry(failure).or_default();
                *count += 1;
                pools.insert(pool.clone());
            }
        }
    }
    failing.values().any(|(count, pools)| {
        *count >= MANY_NODES && pools.len() > 1 && count * 100 > all * MANY_PERCENT
    })
}
