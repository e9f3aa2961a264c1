//! Laws about node repair: one node that fails is replaced, and many that fail alike are not.

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

use super::{ACTS_FOR, Laws, state::SETTLED};

/// Time for which conditions are tolerated, errors of accelerators excepted.
const TOLERATED: SignedDuration = SignedDuration::from_mins(30);
/// Longest time from the end of toleration until the NodeClaim is deleted: a launch, and another one after a repair that was taken back.
const REPAIRED_WITHIN: SignedDuration = SignedDuration::from_mins(30);
/// Time for which a condition has stood when it counts as one that other nodes have, too; while a node starts it is not ready.
const STANDS_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// Nodes, and share in percent, above which a failure is no coincidence.
const MANY_NODES: usize = 3;
const MANY_PERCENT: usize = 20;

/// When repair may have gone on, and when something last held it up.
#[derive(Default)]
pub(super) struct RepairWatch {
    /// When a NodePool last had few enough nodes that are unhealthy.
    open_at: BTreeMap<NodePoolName, Timestamp>,
    /// When it last had too many, or many nodes of several NodePools failed alike.
    held_at: BTreeMap<NodePoolName, Timestamp>,
    /// NodeClaims that a repair was committed for.
    pub(super) chosen: BTreeSet<NodeClaimName>,
    /// When no failure was last one of many nodes in several NodePools.
    apart_at: Option<Timestamp>,
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
        let alike = fail_alike(world);
        if !alike {
            self.repair.apart_at = Some(now);
        }
        for (pool, (all, failing)) in pools {
            let most = (all * MANY_PERCENT).div_ceil(100);
            if failing <= most {
                self.repair.open_at.insert(pool.clone(), now);
            }
            if failing > most || alike {
                self.repair.held_at.insert(pool, now);
            }
        }
        self.repairs_late(world);
    }

    /// No stampede: where many nodes of a NodePool are unhealthy, or many of several fail alike, new ones would mend nothing.
    pub(super) fn judge_repairs(&mut self, world: &World, lane: Lane, commit: &Commit) {
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
            let long_ago =
                |at: Option<&Timestamp>| at.is_none_or(|at| now.duration_since(*at) > SETTLED);
            let watch = &self.repair;
            if lane == Lane::Disruption
                && (long_ago(watch.open_at.get(&pool)) || long_ago(watch.apart_at.as_ref()))
            {
                let what = format!("{} of NodePool {pool}", target.name);
                self.breaks(
                    "no stampede: nodes that fail alike are not repaired",
                    now,
                    what,
                );
            }
        }
    }

    /// A node that fails alone is on its way out within its bound.
    fn repairs_late(&mut self, world: &World) {
        let now = world.now;
        let patience = REPAIRED_WITHIN + ACTS_FOR;
        let acts = self
            .active_since
            .is_some_and(|since| now.duration_since(since) > patience);
        if self.clear_for <= patience || !acts || !self.people.have_let_go(self.has_relay, now) {
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
                && !self.refused.excuses(claim.name.as_str(), now)
                && !self.refused.excuses(node.name.as_str(), now)
        });
        if let Some((pool, node)) = late {
            let what = format!("{} of NodePool {pool} is still to stay", node.name);
            self.breaks("a node that fails alone is repaired", now, what);
        }
    }
}

/// Nodes of NodePools.
fn nodes(world: &World) -> impl Iterator<Item = (NodePoolName, &Node)> {
    let nodes = world.api.nodes.values();
    nodes.filter_map(|node| Some((node.labels.get(labels::NODE_POOL)?.as_str().into(), node)))
}

/// Conditions of a node that repair is about, and since when they stand.
fn failures(node: &Node) -> impl Iterator<Item = (&str, Option<Timestamp>)> {
    let is_ready = node.ready.status == ConditionStatus::True;
    let ready = (!is_ready).then_some((node.ready.status.as_str(), node.ready.since));
    let others = node.conditions.iter();
    let others = others.filter(|other| other.status == ConditionStatus::False);
    ready
        .into_iter()
        .chain(others.map(|other| (other.kind.as_str(), other.since)))
}

/// Whether one failure has stood for a while on many nodes of several NodePools.
fn fail_alike(world: &World) -> bool {
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
