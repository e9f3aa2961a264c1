//! Laws about what people hold back: pauses, and NodePools that are watched only (C4).

use std::collections::BTreeSet;

use api::names::annotation::MODE;
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    Lane, NodeClaimName, NodePoolName,
    ledger::{Pause, PauseLevel},
    node::ConditionStatus,
    node_claim::NodeClaim,
};
use ports::ledger::Commit;

use super::{ACTS_FOR, Laws, has_failed, instance_of, names};
use crate::{deeds::POOL, rows, watched::Act};

/// So far is the clock of a function off at most, by which a pause ends.
const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// What they held back is done after this, once somebody knows that they do no longer.
const RESUMED_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// Turns look at everything so often, whoever tells of it (L5).
const FULL_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// Since when people hold something back. There is one NodePool, so that its pauses are the cluster's.
#[derive(Default)]
pub(super) struct People {
    voluntary: Option<Timestamp>,
    all: Option<Timestamp>,
    /// When a pause last stood, and when a NodePool was last only watched.
    paused_at: Option<Timestamp>,
    watched_at: Option<Timestamp>,
    /// What went because Whittle chose it.
    chosen: BTreeSet<NodeClaimName>,
}

impl People {
    /// Turns that had begun before have ended.
    fn holds(&self, level: PauseLevel, now: Timestamp) -> bool {
        let since = match level {
            PauseLevel::Voluntary => self.voluntary,
            PauseLevel::All => self.all,
        };
        since.is_some_and(|since| now.duration_since(since) > ACTS_FOR)
    }

    /// Whether what they held back should be done by now. Of a NodePool that is no longer only watched the relay tells, or nobody.
    pub(super) fn have_let_go(&self, has_relay: bool, now: Timestamp) -> bool {
        let long_ago =
            |at: Option<Timestamp>, least| at.is_none_or(|at| now.duration_since(at) > least);
        let told = if has_relay {
            SignedDuration::ZERO
        } else {
            FULL_LOOK
        };
        long_ago(self.paused_at, RESUMED_WITHIN) && long_ago(self.watched_at, RESUMED_WITHIN + told)
    }
}

impl Laws {
    pub(super) fn watch_people(&mut self, world: &World) {
        let now = world.now;
        let mut pools = world.api.node_pools.values();
        let is_watched = pools.any(|pool| pool.metadata.annotations.contains_key(MODE));
        let mut pauses = world.ledger.pauses.clone();
        pauses.extend(rows(world).into_iter().flat_map(|rows| rows.pauses.clone()));
        let pool = NodePoolName::from(POOL);
        let holds =
            |level, at| is_watched || Pause::of_pool(&pauses, Some(&pool), level, at).is_some();
        let people = &mut self.people;
        for (since, level) in [
            (&mut people.voluntary, PauseLevel::Voluntary),
            (&mut people.all, PauseLevel::All),
        ] {
            if holds(level, now + SKEW) {
                since.get_or_insert(now);
            } else {
                *since = None;
            }
        }
        if is_watched {
            people.watched_at = Some(now);
        } else if holds(PauseLevel::Voluntary, now) {
            people.paused_at = Some(now);
        }
    }

    pub(super) fn judge_held(&mut self, world: &World, lane: Lane, act: &Act<'_>) {
        let now = world.now;
        let all = self.people.holds(PauseLevel::All, now);
        let voluntary = self.people.holds(PauseLevel::Voluntary, now);
        let law = match act {
            Act::Launch(_) if all => "C4: nothing is launched while people hold back everything",
            Act::Terminate(_) | Act::DeleteNode(_) if all && lane == Lane::Housekeeper => {
                "C4: nothing is collected while people hold back everything"
            }
            Act::Commit(commit) if voluntary && chooses(lane, commit) => {
                "C4: nothing is chosen while people hold that back"
            }
            Act::DeleteClaim(target) => {
                let claim = world.api.node_claims.get(&target.name);
                let Some(claim) = claim.filter(|claim| claim.deleted_at.is_none()) else {
                    return;
                };
                let is_chosen = lane == Lane::Disruption && !has_failed(world, &claim.name);
                // Of what is well, lifecycle ends what has reached its age alone.
                let expires = lane == Lane::Lifecycle && claim.spec.expire_after.is_some();
                if is_chosen {
                    self.people.chosen.insert(claim.name.clone());
                }
                if is_chosen && all {
                    "C4: nothing goes by choice while people hold back everything"
                } else if voluntary && expires && self.is_well(world, claim) {
                    "C4: nothing expires while people hold that back"
                } else {
                    return;
                }
            }
            Act::Evict(Some(pod)) if all => {
                let mut claims = world.api.node_claims.values();
                let claim = claims.find(|claim| claim.status.node_name == pod.node_name);
                let goes_on = claim.is_none_or(|claim| {
                    !self.people.chosen.contains(&claim.name) || !self.is_well(world, claim)
                });
                if goes_on {
                    return;
                }
                "C4: drains that were chosen stop while people hold back everything"
            }
            _ => return,
        };
        self.breaks(law, now, act.to_string());
    }

    /// Whether AWS lets it be, and its kubelet speaks.
    fn is_well(&self, world: &World, claim: &NodeClaim) -> bool {
        let provider_id = &claim.status.provider_id;
        let is_announced = self.announced.keys().any(|id| names(provider_id, id));
        let lives = instance_of(world, claim).is_some_and(|instance| instance.state.is_alive());
        let mut nodes = world.api.nodes.values();
        let node = nodes.find(|node| node.provider_id == *provider_id);
        let is_ready = node.is_some_and(|node| node.ready.status == ConditionStatus::True);
        lives && is_ready && !is_announced && !world.account.blind
    }
}

/// A new command of Whittle's own choice.
fn chooses(lane: Lane, commit: &Commit) -> bool {
    let mut commands = commit.commands.iter();
    lane == Lane::Disruption && commands.any(|command| command.choice.is_some())
}
