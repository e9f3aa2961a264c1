//! Deadlines of the pods of a node that is being removed.

use api::duration::parse_go_duration;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceId,
    node::{ConditionStatus, Node},
    pod::Pod,
};

use super::{Laws, names};

/// Time between a drain's own deadline and the interruption that AWS announced.
const DRAIN_MARGIN: SignedDuration = SignedDuration::from_secs(5);
/// Drain time of a node that is repaired because of a failed component.
const REPAIR_BOUND: SignedDuration = SignedDuration::from_mins(10);
/// Default grace period of a pod in Kubernetes, in seconds.
const POD_GRACE: i64 = 30;

impl Laws {
    /// Returns whether a pod can end by itself before its node's deadline. The deletion of a pod that ends too late may be
    /// accelerated.
    pub(super) fn has_time(&self, node: &Node, pod: &Pod, clock: Timestamp) -> bool {
        let Some(deadline) = self.deadline(node) else {
            return true;
        };
        let grace = pod.termination_grace_seconds.unwrap_or(POD_GRACE);
        let ends_late = pod
            .deletion
            .as_ref()
            .is_some_and(|deletion| deletion.at > deadline - DRAIN_MARGIN);
        clock < deadline - DRAIN_MARGIN - SignedDuration::from_secs(grace) && !ends_late
    }

    /// Updates the deadlines. They outlive their NodeClaims, because a turn may act on one that a user has removed by force
    /// since.
    pub(super) fn watch_deadlines(&mut self, world: &World) {
        let allowed = world.api.node_claims.values().filter_map(|claim| {
            let period = claim.spec.termination_grace_period.as_deref()?;
            let id = claim.status.provider_id.rsplit('/').next()?;
            Some((id.into(), claim.deleted_at? + parse_go_duration(period)?))
        });
        self.drain_deadlines.extend(allowed);
        // A repair limits the drain of its node, depending on the node's condition.
        let chosen = self.repair.chosen.iter();
        let chosen = chosen.filter_map(|name| world.api.node_claims.get(name));
        let repaired = chosen.filter_map(|claim| {
            let mut nodes = world.api.nodes.values();
            let node = nodes.find(|node| node.provider_id == claim.status.provider_id)?;
            let bound = match (node.conditions.is_empty(), node.ready.status) {
                (false, _) | (true, ConditionStatus::False) => REPAIR_BOUND,
                (true, ConditionStatus::Unknown) => SignedDuration::ZERO,
                (true, ConditionStatus::True) => return None,
            };
            let id = claim.status.provider_id.rsplit('/').next()?;
            Some((InstanceId::from(id), claim.deleted_at? + bound))
        });
        for (id, at) in repaired {
            let known = self.drain_deadlines.entry(id).or_insert(at);
            *known = at.min(*known);
        }
    }

    /// Deadline of a node, from AWS or from the NodePool's terminationGracePeriod.
    fn deadline(&self, node: &Node) -> Option<Timestamp> {
        let all = self.deadlines.iter().chain(&self.drain_deadlines);
        let own = all.filter(|(id, _)| names(&node.provider_id, id));
        own.map(|(_, at)| *at).min()
    }
}
