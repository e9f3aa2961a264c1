//! Laws about how long anything may take (docs/protocol.md#l5).

use api::conditions::types::{LAUNCHED, REGISTERED};
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{node_claim::NodeClaim, pod::Pod};

use super::{ACTS_FOR, Laws, acts::is_protected, claim_of};

/// A spot instance is on its way out after this, if nothing hinders.
const OBEYED_WITHIN: SignedDuration = SignedDuration::from_secs(90);
/// Pods have places after this, launches that time out and are begun again included.
const SERVED_WITHIN: SignedDuration = SignedDuration::from_mins(9);
/// The time-out of registrations, as settings have it unless they say otherwise.
pub(super) const REGISTERED_WITHIN: SignedDuration = SignedDuration::from_mins(15);
/// Nodes whose pods let them go are gone after this.
const ENDED_WITHIN: SignedDuration = SignedDuration::from_mins(12);

impl Laws {
    pub(super) fn notices(&mut self, world: &World) {
        let now = world.now;
        let undisturbed = self.clear_for > OBEYED_WITHIN
            && self
                .active_since
                .is_some_and(|since| now.duration_since(since) > OBEYED_WITHIN + ACTS_FOR);
        if !undisturbed {
            return;
        }
        let late = self.announced.iter().find(|(id, at)| {
            let is_late = now.duration_since(**at) > OBEYED_WITHIN;
            let instance = world.account.instances.get(*id);
            is_late
                && !self.refused.excuses(id.as_str(), now)
                && instance.is_some_and(|one| one.state.is_alive())
                && claim_of(world, id).is_some_and(|claim| claim.deleted_at.is_none())
        });
        if let Some((id, _)) = late {
            let what = format!("{id} is still to stay");
            self.breaks("notices are acted on before their deadline", now, what);
        }
    }

    /// Work that is due is done, though no further wake comes.
    pub(super) fn patience(&mut self, world: &World) {
        let now = world.now;
        let acts = |least| {
            let active = self.active_since;
            active.is_some_and(|since| now.duration_since(since) > least)
                && self.people.have_let_go(self.has_relay, now)
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
                    && !self.awaits_refused(world)
            });
            if let Some(pod) = waits {
                self.breaks("L5: pods that wait are served", now, pod.key.to_string());
            }
        }
        let going = world.api.node_claims.values();
        let mut late = going.filter(|claim| long_ago(claim.deleted_at, ENDED_WITHIN));
        let is_late = |claim: &&NodeClaim| {
            // What refused may have had no NodeClaim yet that showed it.
            let instance = claim.status.provider_id.rsplit('/').next();
            let names = [Some(claim.name.as_str()), instance].into_iter().flatten();
            // An instance that no NodeClaim shows may be the one that it waits for.
            let unshown = world.account.instances.keys().filter(|id| {
                let mut claims = world.api.node_claims.values();
                let is_shown = claims.any(|claim| claim.status.provider_id.ends_with(id.as_str()));
                claim.status.provider_id.is_empty() && !is_shown
            });
            let mut names = names.chain(unshown.map(|id| id.as_str()));
            let is_refused = names.any(|name| self.refused.excuses(name, now));
            if is_held(world, claim) || is_refused {
                self.let_go.insert(claim.name.clone(), now);
                return false;
            }
            let at = self.let_go.get(&claim.name).copied();
            at.is_none() || long_ago(at, ENDED_WITHIN)
        };
        let late = late.find(is_late);
        if let Some(claim) = late.filter(|_| self.clear_for > ENDED_WITHIN && ends) {
            self.breaks("L5: nodes that go are seen to", now, claim.name.to_string());
        }
    }
}

impl Laws {
    /// Whether pods may be expected on a NodeClaim that refuses to be changed, or whose Node does: until it should have registered,
    /// and a while longer.
    pub(super) fn awaits_refused(&self, world: &World) -> bool {
        let now = world.now;
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| {
            // A launch may have waited for a pause to end.
            let launched = claim.condition(LAUNCHED);
            let launched = launched.filter(|_| claim.is_true(LAUNCHED));
            let made = launched.map(|one| one.last_transition);
            let made = made.or(claim.created_at);
            let id = &claim.status.provider_id;
            let nodes = world.api.nodes.values();
            let nodes = nodes.filter(|node| node.provider_id == *id);
            let mut names = nodes.map(|node| node.name.as_str());
            let refuses = self.refused.excuses(claim.name.as_str(), now)
                || names.any(|name| self.refused.excuses(name, now));
            !claim.is_true(REGISTERED)
                && refuses
                && made.is_some_and(|at| now.duration_since(at) < REGISTERED_WITHIN + SERVED_WITHIN)
        })
    }
}

/// Whether pods do not let the node go: for as long as they like, where nothing gives it a deadline.
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
