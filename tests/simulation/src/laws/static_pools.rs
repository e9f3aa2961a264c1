//! Laws about static NodePools and capacity reservations.

use std::collections::BTreeMap;

use api::names::label;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{NodePoolName, plan::Launch};
use ports::ledger::Commit;

use super::{Laws, claim_of};
use crate::rows;

/// Time within which static NodePools have their nodes, including launches that time out and checks without a relay.
const CONVERGED_WITHIN: SignedDuration = SignedDuration::from_mins(20);

/// Replicas of static NodePools, with the last time at which they had that many nodes.
pub(super) type Replicas = BTreeMap<NodePoolName, (i64, Timestamp)>;

impl Laws {
    pub(super) fn watch_replicas(&mut self, world: &World) {
        let now = world.now;
        for (name, pool) in &world.api.node_pools {
            let Some(replicas) = pool.spec.replicas else {
                continue;
            };
            let name = NodePoolName::from(name.as_str());
            let staying = world.api.node_claims.values().filter(|claim| {
                claim.node_pool().as_ref() == Some(&name)
                    && claim.deleted_at.is_none()
                    && !self.marked_for_removal.contains(&claim.name)
            });
            let staying = i64::try_from(staying.count()).unwrap_or(i64::MAX);
            let (last, at) = self.replicas.entry(name.clone()).or_insert((replicas, now));
            if *last != replicas || staying == replicas {
                (*last, *at) = (replicas, now);
            }
            let is_late = |at: Option<Timestamp>| {
                at.is_some_and(|at| now.duration_since(at) > CONVERGED_WITHIN)
            };
            let has_room = self.full_at.get(&name).is_none_or(|at| is_late(Some(*at)));
            if is_late(Some(*at))
                && is_late(self.active_since)
                && has_room
                && self.clear_for > CONVERGED_WITHIN
                && self.pauses.have_resumed(self.has_relay, now)
                && !self.awaits_rejected(world)
            {
                let what = format!("{name} has {staying} of {replicas} nodes");
                self.breaks("static NodePools have their nodes", now, what);
            }
        }
    }

    /// Checks that plans use no more instances of a reservation than it has left: EC2 would reject the others.
    pub(super) fn check_reserved(&mut self, world: &World, commit: &Commit) {
        for (id, left) in world.account.free_reserved() {
            let is_pinned = |launch: &Launch| {
                let mut requirements = launch.spec.requirements.iter();
                requirements.any(|requirement| {
                    requirement.key == label::CAPACITY_RESERVATION_ID
                        && requirement.values.contains(&id)
                })
            };
            let new = commit.intents.iter();
            let new = new.filter(|intent| is_pinned(&intent.launch)).count();
            let intents = rows(world).into_iter();
            let intents = intents.flat_map(|rows| rows.intents.values());
            let awaited = intents.filter(|intent| {
                let claim = world.api.node_claims.get(intent.name());
                let is_shown = claim.is_some_and(|claim| !claim.status.provider_id.is_empty());
                let goes = claim.is_some_and(|claim| claim.deleted_at.is_some());
                intent.is_in_flight() && is_pinned(&intent.launch) && !is_shown && !goes
            });
            // An instance without a NodeClaim is one of the awaited launches.
            let instances = world.account.alive();
            let without_node_claim = instances.filter(|instance| {
                instance.reservation.as_ref() == Some(&id)
                    && claim_of(world, &instance.id).is_none()
            });
            let awaited = awaited.count().saturating_sub(without_node_claim.count());
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            if new > 0 && new + awaited > left {
                let what = format!(
                    "{id} has {left} left, {awaited} awaited and {new} planned by {}",
                    commit.id
                );
                self.breaks("plans stay within reservations", world.now, what);
            }
        }
    }
}
