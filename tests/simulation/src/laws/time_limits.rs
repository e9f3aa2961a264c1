//! Laws about the time within which work is done (docs/protocol.md#l5).

use api::conditions::types::{LAUNCHED, REGISTERED};
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{node_claim::NodeClaim, pod::Pod};

use super::{Laws, TURN_MAX, acts::is_protected, claim_of};

/// Time within which an interrupted spot instance's NodeClaim is deleted, without faults.
const NOTICES_HANDLED_WITHIN: SignedDuration = SignedDuration::from_secs(90);
/// Time within which pods have a node, including launches that time out and are retried.
const SERVED_WITHIN: SignedDuration = SignedDuration::from_mins(9);
/// Registration timeout, the default of the settings.
pub(super) const REGISTERED_WITHIN: SignedDuration = SignedDuration::from_mins(15);
/// Time within which nodes that no pod keeps are gone.
const ENDED_WITHIN: SignedDuration = SignedDuration::from_mins(12);

impl Laws {
    pub(super) fn notices(&mut self, world: &World) {
        let now = world.now;
        let undisturbed = self.clear_for > NOTICES_HANDLED_WITHIN
            && self
                .active_since
                .is_some_and(|since| now.duration_since(since) > NOTICES_HANDLED_WITHIN + TURN_MAX);
        if !undisturbed {
            return;
        }
        let late = self.announced.iter().find(|(id, at)| {
            let is_late = now.duration_since(**at) > NOTICES_HANDLED_WITHIN;
            let instance = world.account.instances.get(*id);
            is_late
                && !self.rejected.excuses(id.as_str(), now)
                && instance.is_some_and(|instance| instance.state.is_alive())
                && claim_of(world, id).is_some_and(|claim| claim.deleted_at.is_none())
        });
        if let Some((id, _)) = late {
            let what = format!("{id} is not being removed");
            self.breaks("notices are handled before their deadline", now, what);
        }
    }

    /// Checks that turns finish due work within the time limits, without further wakes.
    pub(super) fn time_limits(&mut self, world: &World) {
        let now = world.now;
        let acts = |least| {
            let active = self.active_since;
            active.is_some_and(|since| now.duration_since(since) > least)
                && self.pauses.have_resumed(self.has_relay, now)
        };
        let (serves, ends) = (acts(SERVED_WITHIN), acts(ENDED_WITHIN));
        let long_ago =
            |at: Option<Timestamp>, least| at.is_some_and(|at| now.duration_since(at) > least);
        if self.clear_for > SERVED_WITHIN && serves {
            let mut pods = world.api.pods.values();
            let waits = pods.find(|pod| {
                pod.node_name.is_none()
                    && long_ago(pod.created_at, SERVED_WITHIN)
                    && self.could_serve(world, pod, SERVED_WITHIN)
                    && !self.awaits_rejected(world)
            });
            if let Some(pod) = waits {
                self.breaks("L5: pending pods are served", now, pod.key.to_string());
            }
        }
        let going = world.api.node_claims.values();
        let mut late = going.filter(|claim| long_ago(claim.deleted_at, ENDED_WITHIN));
        let is_late = |claim: &&NodeClaim| {
            // A rejected object may not have had a NodeClaim when its changes were first rejected.
            let instance = claim.status.provider_id.rsplit('/').next();
            let names = [Some(claim.name.as_str()), instance].into_iter().flatten();
            // An instance without a NodeClaim may belong to this one.
            let without_node_claim = world.account.instances.keys().filter(|id| {
                let mut claims = world.api.node_claims.values();
                let is_shown = claims.any(|claim| claim.status.provider_id.ends_with(id.as_str()));
                claim.status.provider_id.is_empty() && !is_shown
            });
            let mut names = names.chain(without_node_claim.map(|id| id.as_str()));
            let is_rejected = names.any(|name| self.rejected.excuses(name, now));
            if is_held(world, claim) || is_rejected {
                self.held_until.insert(claim.name.clone(), now);
                return false;
            }
            let at = self.held_until.get(&claim.name).copied();
            at.is_none() || long_ago(at, ENDED_WITHIN)
        };
        let late = late.find(is_late);
        if let Some(claim) = late.filter(|_| self.clear_for > ENDED_WITHIN && ends) {
            self.breaks(
                "L5: deleted NodeClaims are removed",
                now,
                claim.name.to_string(),
            );
        }
    }
}

impl Laws {
    /// Returns whether pods may be waiting for a NodeClaim whose changes, or whose Node's changes, are rejected: until its
    /// registration timeout, and a while longer.
    pub(super) fn awaits_rejected(&self, world: &World) -> bool {
        let now = world.now;
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| {
            // A launch may have waited for a pause to end.
            let launched = claim.condition(LAUNCHED);
            let launched = launched.filter(|_| claim.is_true(LAUNCHED));
            let made = launched.map(|condition| condition.last_transition);
            let made = made.or(claim.created_at);
            let id = &claim.status.provider_id;
            let nodes = world.api.nodes.values();
            let nodes = nodes.filter(|node| node.provider_id == *id);
            let mut names = nodes.map(|node| node.name.as_str());
            let refuses = self.rejected.excuses(claim.name.as_str(), now)
                || names.any(|name| self.rejected.excuses(name, now));
            !claim.is_true(REGISTERED)
                && refuses
                && made.is_some_and(|at| now.duration_since(at) < REGISTERED_WITHIN + SERVED_WITHIN)
        })
    }
}

/// Returns whether pods keep the node: without a deadline they may do so indefinitely.
fn is_held(world: &World, claim: &NodeClaim) -> bool {
    let api = &world.api;
    let mut nodes = api.nodes.values();
    let node = nodes.find(|node| node.provider_id == claim.status.provider_id);
    let stays = |pod: &Pod| {
        let mut budgets = api.disruption_budgets.iter();
        is_protected(pod)
            || budgets.any(|budget| {
                let selector = budget.selector.as_ref();
                budget.disruptions_allowed == 0
                    && selector.is_some_and(|selector| selector.matches(&pod.labels))
            })
    };
    let mut pods = api.pods.values();
    claim.spec.termination_grace_period.is_none()
        && node.is_some_and(|node| {
            pods.any(|pod| pod.node_name.as_ref() == Some(&node.name) && stays(pod))
        })
}
