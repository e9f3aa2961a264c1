//! Laws about what people hold back: pauses, and NodePools that are watched only (docs/protocol.md#c4).

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotation::MODE, tag};
use fakes::World;
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceId, Lane, NodeClaimName, NodeName, NodePoolName,
    launch::FleetRequest,
    ledger::{Pause, PauseLevel},
    node::ConditionStatus,
    node_claim::NodeClaim,
};
use ports::ledger::Commit;

use super::{ACTS_FOR, Laws, has_failed, instance_of, names};
use crate::{rows, watched::Act};

/// So far is the clock of a function off at most, by which a pause ends.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// What they held back is done after this, once somebody knows that they do no longer.
const RESUMED_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// Turns look at everything so often, whoever tells of it (docs/protocol.md#l5).
const FULL_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// Levels at which something may be held back.
const LEVELS: [PauseLevel; 2] = [PauseLevel::Voluntary, PauseLevel::All];

/// Since when people hold something back.
#[derive(Default)]
pub(super) struct People {
    /// By level and NodePool; by no NodePool for the whole cluster.
    since: BTreeMap<(PauseLevel, Option<NodePoolName>), Timestamp>,
    /// When a pause last stood, and when a NodePool was last only watched.
    paused_at: Option<Timestamp>,
    watched_at: Option<Timestamp>,
    /// What went because Whittle chose it.
    chosen: BTreeSet<NodeClaimName>,
}

impl People {
    /// Whether something of the NodePool is held back, and turns that had begun before have ended.
    fn holds(&self, level: PauseLevel, pool: Option<&NodePoolName>, now: Timestamp) -> bool {
        let since = self.since.get(&(level, pool.cloned()));
        since.is_some_and(|since| now.duration_since(*since) > ACTS_FOR)
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
        let pools = &world.api.node_pools;
        let is_watched = |pool: &NodePoolName| {
            let pool = pools.get(pool.as_str());
            pool.is_some_and(|pool| pool.metadata.annotations.contains_key(MODE))
        };
        let mut pauses = world.ledger.pauses.clone();
        pauses.extend(rows(world).into_iter().flat_map(|rows| rows.pauses.clone()));
        let people = &mut self.people;
        let (mut watches, mut pausing) = (false, false);
        let names = pools.keys().map(|name| Some(name.as_str().into()));
        for pool in [None].into_iter().chain(names) {
            let watched = pool.as_ref().is_some_and(is_watched);
            let pool = pool.as_ref();
            watches |= watched;
            pausing |= Pause::of_pool(&pauses, pool, PauseLevel::Voluntary, now).is_some();
            for level in LEVELS {
                let key = (level, pool.cloned());
                if watched || Pause::of_pool(&pauses, pool, level, now + SKEW).is_some() {
                    people.since.entry(key).or_insert(now);
                } else {
                    people.since.remove(&key);
                }
            }
        }
        if watches {
            people.watched_at = Some(now);
        }
        if pausing {
            people.paused_at = Some(now);
        }
    }

    pub(super) fn judge_held(&mut self, world: &World, lane: Lane, act: &Act<'_>) {
        let now = world.now;
        let holds =
            |level, pool: Option<NodePoolName>| self.people.holds(level, pool.as_ref(), now);
        let all = |pool| holds(PauseLevel::All, pool);
        let voluntary = |pool| holds(PauseLevel::Voluntary, pool);
        let pool_of = |name: &NodeClaimName| world.api.node_claims.get(name)?.node_pool();
        let law = match act {
            Act::Launch(request) if members(world, request).any(|name| all(pool_of(name))) => {
                "C4: nothing is launched while people hold back everything"
            }
            Act::Terminate(ids)
                if lane == Lane::Housekeeper
                    && ids.iter().any(|id| all(pool_of_instance(world, id))) =>
            {
                "C4: nothing is collected while people hold back everything"
            }
            // Its instance says whose it is, where it still has one.
            Act::DeleteNode(name)
                if lane == Lane::Housekeeper && all(pool_of_node(world, name)) =>
            {
                "C4: nothing is collected while people hold back everything"
            }
            Act::Commit(commit) if chooses(lane, commit, |name| voluntary(pool_of(name))) => {
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
                let (all, voluntary) = (all(claim.node_pool()), voluntary(claim.node_pool()));
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
            Act::Evict(Some(pod)) => {
                let mut claims = world.api.node_claims.values();
                let claim = claims.find(|claim| claim.status.node_name == pod.node_name);
                let is_held = claim.is_some_and(|claim| {
                    all(claim.node_pool())
                        && self.people.chosen.contains(&claim.name)
                        && self.is_well(world, claim)
                });
                if !is_held {
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

/// A new command of Whittle's own choice that takes one of these.
fn chooses(lane: Lane, commit: &Commit, is_held: impl Fn(&NodeClaimName) -> bool) -> bool {
    let chosen = commit.commands.iter().filter(|one| one.choice.is_some());
    let mut targets = chosen.flat_map(|command| &command.delete);
    lane == Lane::Disruption && targets.any(|target| is_held(&target.name))
}

/// NodeClaims that a call launches instances for.
fn members<'a>(
    world: &'a World,
    request: &FleetRequest,
) -> impl Iterator<Item = &'a NodeClaimName> {
    let call = rows(world).and_then(|rows| rows.calls.get(&request.token));
    call.into_iter().flat_map(|call| &call.members)
}

fn pool_of_instance(world: &World, id: &InstanceId) -> Option<NodePoolName> {
    let tags = &world.account.instances.get(id)?.tags;
    Some(tags.get(tag::NODE_POOL)?.as_str().into())
}

fn pool_of_node(world: &World, name: &NodeName) -> Option<NodePoolName> {
    let node = world.api.nodes.get(name)?;
    pool_of_instance(world, &node.provider_id.rsplit('/').next()?.into())
}
