//! Until when the pods of a node that goes may take their time.

use api::duration::parse_go_duration;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceId,
    node::{ConditionStatus, Node},
    pod::Pod,
};

use super::{Laws, names};

/// Time that a node's drain leaves between its own deadline and the end that AWS announced.
const LAST_WORDS: SignedDuration = SignedDuration::from_secs(5);
/// Time that pods of a node have to leave which is repaired for a part of its machine.
const REPAIR_BOUND: SignedDuration = SignedDuration::from_mins(10);
/// Grace period of a pod that names none, in seconds: the default of Kubernetes.
const POD_GRACE: i64 = 30;

impl Laws {
    /// Whether a pod can still end by itself before its node's deadline. A pod that already ends, but too late, may be hastened.
    pub(super) fn has_time(&self, node: &Node, pod: &Pod, clock: Timestamp) -> bool {
        let Some(deadline) = self.deadline(node) else {
            return true;
        };
        let grace = pod.termination_grace_seconds.unwrap_or(POD_GRACE);
        let ends_late = pod
            .deletion
            .as_ref()
            .is_some_and(|deletion| deletion.at > deadline - LAST_WORDS);
        clock < deadline - LAST_WORDS - SignedDuration::from_secs(grace) && !ends_late
    }

    /// A turn may act on the deadline of a NodeClaim that somebody has removed by force since.
    pub(super) fn watch_deadlines(&mut self, world: &World) {
        let allowed = world.api.node_claims.values().filter_map(|claim| {
            let period = claim.spec.termination_grace_period.as_deref()?;
            let id = claim.status.provider_id.rsplit('/').next()?;
            Some((id.into(), claim.deleted_at? + parse_go_duration(period)?))
        });
        self.allowed.extend(allowed);
        // A repair bounds the drain of its node, by its condition.
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
            let known = self.allowed.entry(id).or_insert(at);
            *known = at.min(*known);
        }
    }

    /// When the time is over that AWS, or the NodePool's terminationGracePeriod, gives a node that goes.
    fn deadline(&self, node: &Node) -> Option<Timestamp> {
        let all = self.deadlines.iter().chain(&self.allowed);
        let own = all.filter(|(id, _)| names(&node.provider_id, id));
        own.map(|(_, at)| *at).min()
    }
}
