//! Caps on voluntary evictions and terminations per hour (docs/operations.md).
//!
//! A command counts from the moment it binds; proposals and rolled-back commands do not count.
//! Interruptions, repair, expiration and deletions by users are involuntary: they neither count nor wait.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{NodePoolName, Snapshot, caps::Caps, counted, singular_or_plural};

use super::candidates::Candidate;
use crate::pods::is_reschedulable;

/// Remaining evictions and terminations. Taking a candidate reduces them.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowance {
    cluster: Option<HourlyCap>,
    pools: BTreeMap<NodePoolName, HourlyCap>,
    /// Cap on nodes terminated per hour.
    nodes: Option<HourlyCap>,
}

/// A cap per hour, and how much of it is used.
#[derive(Clone, Copy, Debug)]
struct HourlyCap {
    most: u32,
    used: u32,
    /// Time at which the oldest counted command leaves the hour.
    opens: Option<Timestamp>,
}

/// Number of pods that must be evicted from a node.
pub(super) fn of_node(candidate: &Candidate<'_>) -> u32 {
    let pods = candidate.state_node.pods.iter();
    let moving = pods.filter(|pod| is_reschedulable(pod)).count();
    u32::try_from(moving).unwrap_or(u32::MAX)
}

impl Allowance {
    pub(super) fn new(snapshot: &Snapshot, now: Timestamp) -> Self {
        let left = |most| HourlyCap {
            most,
            used: 0,
            opens: None,
        };
        let capped = |caps: Caps| caps.evictions.map(left);
        let pools = snapshot.node_pools.iter();
        let pools =
            pools.filter_map(|pool| Some((pool.name.clone(), capped(Caps::of_pool(pool))?)));
        let mut allowance = Self {
            cluster: capped(snapshot.caps),
            pools: pools.collect(),
            nodes: snapshot.caps.terminations.map(left),
        };
        let commands = snapshot.commands.iter();
        for (nodes, until) in commands.filter_map(|command| command.counted_terminations(now)) {
            for left in allowance.nodes.iter_mut() {
                left.take(nodes, until);
            }
        }
        let commands = snapshot.commands.iter();
        for (evicts, until) in commands.filter_map(|command| command.counted_evictions(now)) {
            for (pool, pods) in evicts {
                for left in allowance.caps_of(pool) {
                    left.take(*pods, until);
                }
            }
        }
        allowance
    }

    fn caps_of(&mut self, pool: &NodePoolName) -> impl Iterator<Item = &mut HourlyCap> {
        self.cluster.iter_mut().chain(self.pools.get_mut(pool))
    }

    /// Whether all of these nodes may be disrupted together.
    pub(super) fn allows(&self, nodes: &[&Candidate<'_>]) -> bool {
        let mut rest = self.clone();
        nodes.iter().all(|node| rest.take(node))
    }

    pub(super) fn take(&mut self, candidate: &Candidate<'_>) -> bool {
        let pods = of_node(candidate);
        let pool = &candidate.pool.name;
        // A node without evictions passes an exhausted cap on evictions.
        if self.caps_of(pool).any(|left| left.remaining() < pods) || self.is_exhausted() {
            return false;
        }
        for left in self.nodes.iter_mut() {
            left.used = left.used.saturating_add(1);
        }
        for left in self.caps_of(pool) {
            left.used = left.used.saturating_add(pods);
        }
        true
    }

    /// Whether the cap on terminations is used up.
    fn is_exhausted(&self) -> bool {
        self.nodes.is_some_and(|left| left.remaining() == 0)
    }

    /// Returns why the node must wait, and the earliest time at which that may change.
    pub(super) fn wait_message(
        &self,
        candidate: &Candidate<'_>,
    ) -> Option<(String, Option<Timestamp>)> {
        if let Some(HourlyCap { most, opens, .. }) = self.nodes.filter(|_| self.is_exhausted()) {
            let until = opens.map_or_else(String::new, |opens| format!(" until {opens:.0}"));
            let message = format!(
                "The cap of {most} terminations an hour in the cluster is reached: the node waits{until}"
            );
            return Some((message, opens));
        }
        let pods = of_node(candidate);
        let name = &candidate.pool.name;
        let cluster = self.cluster.map(|left| ("the cluster".to_owned(), left));
        let pool = self.pools.get(name);
        let pool = pool.map(|left| (format!("NodePool {name}"), *left));
        let mut capped = pool.into_iter().chain(cluster);
        let (whose, left) = capped.find(|(_, left)| left.remaining() < pods)?;
        let HourlyCap { most, used, opens } = left;
        let capped = format!("Evictions in {whose} are capped at {most} an hour");
        if pods > most {
            let node = &candidate.node.name;
            let message = format!(
                "{capped}, and node {node} has {} to evict: it waits until the cap is raised",
                counted(pods, "pod")
            );
            return Some((message, None));
        }
        let until = opens.map_or_else(String::new, |opens| format!(" until {opens:.0}"));
        let message = format!(
            "{capped}, and {used} {} decided within the last hour: a node with more than {} pods to evict waits{until}",
            singular_or_plural(&used, "was", "were"),
            left.remaining()
        );
        Some((message, opens))
    }
}

impl HourlyCap {
    /// Counts a command that is already committed.
    fn take(&mut self, count: u32, until: Timestamp) {
        self.used = self.used.saturating_add(count);
        self.opens = self.opens.into_iter().chain([until]).min();
    }

    fn remaining(&self) -> u32 {
        self.most.saturating_sub(self.used)
    }
}
