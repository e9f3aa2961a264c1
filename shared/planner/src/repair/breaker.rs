//! Keeps repair from replacing many nodes of a NodePool: where more than a fifth are unhealthy, new nodes would mend nothing.

use std::collections::BTreeMap;

use model::{NodePoolName, Snapshot, labels::NODE_POOL};

use super::{Evaluation, POLICIES, Reboots, is_refused};
use crate::by_instance::ByInstance;

/// More than this share of a NodePool's nodes, rounded up, stops repair.
pub(super) const BLOCKED_ABOVE_PERCENT: usize = 20;

/// Counts of the nodes of every NodePool.
pub(crate) struct Breaker(BTreeMap<NodePoolName, Count>);

/// Nodes, and how many of them are unhealthy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    nodes: usize,
    unhealthy: usize,
}

impl Breaker {
    /// Counts all nodes with a NodePool's label, also those that are not initialized. Nodes that are not to be repaired are not
    /// counted as unhealthy.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let claims = ByInstance::of_claims(snapshot);
        let mut counts: BTreeMap<NodePoolName, Count> = BTreeMap::new();
        for node in &snapshot.nodes {
            if let Some(pool) = node.labels.get(NODE_POOL) {
                let evaluation = Evaluation::of(POLICIES, node, &Reboots::default(), snapshot.now);
                let refused = || is_refused(node, claims.only(&node.provider_id));
                let count = counts.entry(pool.as_str().into()).or_default();
                count.add(evaluation.is_unhealthy && !refused());
            }
        }
        Self(counts)
    }

    /// Whether too many nodes of this NodePool are unhealthy.
    pub(crate) fn blocks(&self, pool: &NodePoolName) -> bool {
        self.0.get(pool).is_some_and(|count| count.is_blocked())
    }
}

impl Count {
    pub(crate) fn add(&mut self, unhealthy: bool) {
        self.nodes += 1;
        self.unhealthy += usize::from(unhealthy);
    }

    pub(crate) fn is_blocked(self) -> bool {
        self.unhealthy > (self.nodes * BLOCKED_ABOVE_PERCENT).div_ceil(100)
    }
}
