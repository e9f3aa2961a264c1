//! Until when the pods of a node that goes may take their time.

use api::duration::parse_go_duration;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{node::Node, pod::Pod};

use super::{Laws, names};

/// Time that a node's drain leaves between its own deadline and the end that AWS announced.
const LAST_WORDS: SignedDuration = SignedDuration::from_secs(5);
/// Grace period of a pod that names none, in seconds: the default of Kubernetes.
const POD_GRACE: i64 = 30;

impl Laws {
    /// Whether a pod can still end by itself before its node's deadline. A pod that already ends, but too late, may be hastened.
    pub(super) fn has_time(&self, world: &World, node: &Node, pod: &Pod, clock: Timestamp) -> bool {
        let Some(deadline) = self.deadline(world, node) else {
            return true;
        };
        let grace = pod.termination_grace_seconds.unwrap_or(POD_GRACE);
        let ends_late = pod
            .deletion
            .as_ref()
            .is_some_and(|deletion| deletion.at > deadline - LAST_WORDS);
        clock < deadline - LAST_WORDS - SignedDuration::from_secs(grace) && !ends_late
    }

    /// When the time is over that AWS, or the NodePool's terminationGracePeriod, gives a node that goes.
    fn deadline(&self, world: &World, node: &Node) -> Option<Timestamp> {
        let announced = self.deadlines.iter();
        let announced = announced
            .filter(|(id, _)| names(&node.provider_id, id))
            .map(|(_, at)| *at);
        let claims = world.api.node_claims.values();
        let own = claims.filter(|claim| claim.status.provider_id == node.provider_id);
        let allowed = own.filter_map(|claim| {
            let period = claim.spec.termination_grace_period.as_deref()?;
            Some(claim.deleted_at? + parse_go_duration(period)?)
        });
        announced.chain(allowed).min()
    }
}
