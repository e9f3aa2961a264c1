//! Circuit breaker of repair: if more than a fifth of a NodePool's nodes are unhealthy, replacing them is unlikely to help.

use std::collections::BTreeMap;

use model::{NodePoolName, Snapshot, labels::NODE_POOL};

use super::{Evaluation, POLICIES, Reboots, is_refused};
use crate::by_instance::ByInstance;

/// Percentage of unhealthy nodes in a NodePool, rounded up, above which repair stops.
pub(super) const BLOCKED_ABOVE_PERCENT: usize = 20;

/// Node counts by NodePool.
pub(crate) struct Breaker(BTreeMap<NodePoolName, Count>);

/// Number of nodes, and of unhealthy ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    nodes: usize,
    unhealthy: usize,
}

impl Breaker {
    /// Counts all nodes with a NodePool label, initialized or not. Nodes that refuse repair do not count as unhealthy.
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let claims = ByInstance::of_claims(snapshot);
        let mut counts: BTreeMap<NodePoolName, Count> = BTreeMap::new();
        for node in &snapshot.nodes {
            if let Some(pool) = node.labels.get(NODE_POOL) {
                let evaluation = Evaluation::new(POLICIES, node, &Reboots::default(), snapshot.now);
                let refused = || is_refused(node, claims.only(&node.provider_id));
                let count = counts.entry(pool.as_str().into()).or_default();
                count.add(evaluation.is_unhealthy && !refused());
            }
        }
        Self(counts)
    }

    /// Whether too many nodes of the NodePool are unhealthy.
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
