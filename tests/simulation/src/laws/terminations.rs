//! Laws about terminating instances and collecting garbage.

use api::names::taint;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{InstanceId, Lane, NodeName, node::ConditionStatus, pod::Pod};

use super::{Laws, NOTICED_WITHIN, TURN_MAX, claim_of, node_of, state::instances};
use crate::{convergence::is_of_former_cluster, is_own};

/// Maximum age of a read that is repeated just before an act.
const REREAD: SignedDuration = SignedDuration::from_secs(30);

impl Laws {
    /// Checks the termination of an instance; `clock` is the process's own time.
    pub(super) fn terminate(
        &mut self,
        world: &World,
        lane: Lane,
        clock: Timestamp,
        id: &InstanceId,
    ) {
        let now = world.now;
        let instance = world.account.instances.get(id);
        let Some(instance) = instance.filter(|instance| instance.state.is_alive()) else {
            return;
        };
        if !is_own(world, instance) {
            self.breaks(
                "turns terminate no instance of another cluster",
                now,
                id.to_string(),
            );
        }
        let is_over = |at: Timestamp| now.duration_since(at) > TURN_MAX;
        // Until a sweep has noticed the new cluster, its launches are tagged as the former one's.
        let has_claim = claim_of(world, id).is_some();
        if is_of_former_cluster(world, instance)
            && !has_claim
            && self.recreated_at.is_some_and(is_over)
        {
            self.breaks(
                "instances of a former cluster that may still exist are not terminated",
                now,
                id.to_string(),
            );
        }
        let claim = claim_of(world, id);
        if let Some(claim) = claim.filter(|claim| claim.deleted_at.is_none()) {
            self.breaks(
                "an instance is terminated only after its NodeClaim is deleted",
                now,
                format!("{id} of {}", claim.name),
            );
        }
        let Some(node) = node_of(world, id) else {
            return;
        };
        let ready = node.ready.status == ConditionStatus::True;
        let in_service = ready
            && node
                .taints
                .iter()
                .all(|taint| taint.key != taint::UNREGISTERED);
        // A turn that read the NodeClaim just before it was removed by force has deleted and drained the Node.
        let collects = lane == Lane::Housekeeper || node.deleted_at.is_none();
        if claim.is_none()
            && in_service
            && collects
            && now.duration_since(node.ready.since.unwrap_or(now)) > NOTICED_WITHIN
        {
            self.breaks(
                "G1: instances whose Node is ready are not collected",
                now,
                id.to_string(),
            );
        }
        let mut pods = world.api.pods.values();
        // The node is read again just before the termination, and each call takes time.
        let came_meanwhile = |pod: &Pod| {
            let at = pod.started_at;
            at.is_none_or(|at| now.duration_since(at) <= REREAD)
        };
        // A deadline is also met by accelerating the deletion of pods, never by terminating the instance under them.
        let runs = |pod: &&Pod| {
            let deletion = pod.deletion.as_ref();
            pod.node_name.as_ref() == Some(&node.name)
                && deletion.is_none_or(|deletion| deletion.at > clock)
                && !came_meanwhile(pod)
        };
        if let Some(pod) = pods.find(runs)
            && ready
            && claim.is_some()
        {
            self.breaks(
                "an instance is terminated only when its pods are gone",
                now,
                format!("{id} with {}", pod.key),
            );
        }
    }

    /// Checks that the housekeeper drains a Node only if no NodeClaim refers to it.
    pub(super) fn collect_node(&mut self, world: &World, name: &NodeName) {
        let node = world.api.nodes.get(name);
        let Some(node) = node.filter(|node| node.deleted_at.is_none()) else {
            return;
        };
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| claim.status.provider_id == node.provider_id);
        if let Some(claim) = claim {
            let what = format!("{name} of {}", claim.name);
            self.breaks(
                "G1: a Node with a NodeClaim is not collected",
                world.now,
                what,
            );
        }
        self.collects(world, name.as_str());
    }

    /// Records that an object is collected although its instance is alive, and checks the brake.
    pub(super) fn collects(&mut self, world: &World, name: &str) {
        let now = world.now;
        self.collected
            .retain(|_, at| now.duration_since(*at) < SignedDuration::from_hours(1));
        self.collected.insert(name.to_owned(), now);
        self.max_instances = self.max_instances.max(instances(world));
        let (count, most) = (self.collected.len(), self.max_instances);
        if !self.approved && (count > (most / 10).max(1) || count >= most) {
            let what = format!("{count} of {most} within an hour, {name} last");
            self.breaks(
                "G3: the brake stops collecting many objects at once",
                now,
                what,
            );
        }
    }
}
