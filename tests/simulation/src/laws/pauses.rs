//! Laws about pauses and about NodePools in shadow mode (docs/protocol.md#c4).

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

use super::{Laws, TURN_MAX, has_failed, instance_of, names};
use crate::{act::Act, rows};

/// Upper bound on the clock skew of a function, by whose clock a pause ends.
pub(super) const SKEW: SignedDuration = SignedDuration::from_secs(30);

/// Time within which postponed work is done once a turn knows that the pause has ended.
const RESUMED_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// Interval of full looks, with or without a relay (docs/protocol.md#l5).
const FULL_LOOK: SignedDuration = SignedDuration::from_mins(10);

/// Levels of pauses.
const LEVELS: [PauseLevel; 2] = [PauseLevel::Voluntary, PauseLevel::All];

/// Pauses and shadow modes, with their starts.
#[derive(Default)]
pub(super) struct ActivePauses {
    /// Start of pauses by level and NodePool; `None` for the whole cluster.
    since: BTreeMap<(PauseLevel, Option<NodePoolName>), Timestamp>,
    /// Last time at which a pause was active.
    paused_at: Option<Timestamp>,
    /// Last time at which a NodePool was in shadow mode.
    watched_at: Option<Timestamp>,
    /// NodeClaims that Whittle deleted by its own choice.
    chosen: BTreeSet<NodeClaimName>,
}

impl ActivePauses {
    /// Returns whether the NodePool is paused, and turns that began before the pause have ended.
    fn holds(&self, level: PauseLevel, pool: Option<&NodePoolName>, now: Timestamp) -> bool {
        let since = self.since.get(&(level, pool.cloned()));
        since.is_some_and(|since| now.duration_since(*since) > TURN_MAX)
    }

    /// Returns whether postponed work should be done by now. Only a relay reports the end of a NodePool's shadow mode.
    pub(super) fn have_resumed(&self, has_relay: bool, now: Timestamp) -> bool {
        let long_ago =
            |at: Option<Timestamp>, least| at.is_none_or(|at| now.duration_since(at) > least);
        let report_delay = if has_relay {
            SignedDuration::ZERO
        } else {
            FULL_LOOK
        };
        long_ago(self.paused_at, RESUMED_WITHIN)
            && long_ago(self.watched_at, RESUMED_WITHIN + report_delay)
    }
}

impl Laws {
    pub(super) fn watch_pauses(&mut self, world: &World) {
        let now = world.now;
        let pools = &world.api.node_pools;
        let is_watched = |pool: &NodePoolName| {
            let pool = pools.get(pool.as_str());
            pool.is_some_and(|pool| pool.metadata.annotations.contains_key(MODE))
        };
        let mut pauses = world.ledger.pauses.clone();
        pauses.extend(rows(world).into_iter().flat_map(|rows| rows.pauses.clone()));
        let active = &mut self.pauses;
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
                    active.since.entry(key).or_insert(now);
                } else {
                    active.since.remove(&key);
                }
            }
        }
        if watches {
            active.watched_at = Some(now);
        }
        if pausing {
            active.paused_at = Some(now);
        }
    }

    pub(super) fn check_pauses(&mut self, world: &World, lane: Lane, act: &Act<'_>) {
        let now = world.now;
        let holds =
            |level, pool: Option<NodePoolName>| self.pauses.holds(level, pool.as_ref(), now);
        let all = |pool| holds(PauseLevel::All, pool);
        let voluntary = |pool| holds(PauseLevel::Voluntary, pool);
        let pool_of = |name: &NodeClaimName| world.api.node_claims.get(name)?.node_pool();
        let law = match act {
            Act::Launch(request) if members(world, request).any(|name| all(pool_of(name))) => {
                "C4: nothing is launched during a pause of level All"
            }
            Act::Terminate(ids)
                if lane == Lane::Housekeeper
                    && ids.iter().any(|id| all(pool_of_instance(world, id))) =>
            {
                "C4: nothing is collected during a pause of level All"
            }
            // The instance's tags name the NodePool, as long as it exists.
            Act::DeleteNode(name)
                if lane == Lane::Housekeeper && all(pool_of_node(world, name)) =>
            {
                "C4: nothing is collected during a pause of level All"
            }
            Act::Commit(commit) if chooses(lane, commit, |name| voluntary(pool_of(name))) => {
                "C4: no voluntary disruption is committed during a pause"
            }
            Act::DeleteClaim(target) => {
                let claim = world.api.node_claims.get(&target.name);
                let Some(claim) = claim.filter(|claim| claim.deleted_at.is_none()) else {
                    return;
                };
                let is_chosen = lane == Lane::Disruption && !has_failed(world, &claim.name);
                // Of healthy nodes, lifecycle deletes only expired ones.
                let expires = lane == Lane::Lifecycle && claim.spec.expire_after.is_some();
                let (all, voluntary) = (all(claim.node_pool()), voluntary(claim.node_pool()));
                if is_chosen {
                    self.pauses.chosen.insert(claim.name.clone());
                }
                if is_chosen && all {
                    "C4: no voluntary deletion during a pause of level All"
                } else if voluntary && expires && self.is_healthy(world, claim) {
                    "C4: no expiration during a pause"
                } else {
                    return;
                }
            }
            Act::Evict(Some(pod)) => {
                let mut claims = world.api.node_claims.values();
                let claim = claims.find(|claim| claim.status.node_name == pod.node_name);
                let is_held = claim.is_some_and(|claim| {
                    all(claim.node_pool())
                        && self.pauses.chosen.contains(&claim.name)
                        && self.is_healthy(world, claim)
                });
                if !is_held {
                    return;
                }
                "C4: voluntary drains stop during a pause of level All"
            }
            _ => return,
        };
        self.breaks(law, now, act.to_string());
    }

    /// Returns whether AWS has announced nothing about the node, and its kubelet reports.
    fn is_healthy(&self, world: &World, claim: &NodeClaim) -> bool {
        let provider_id = &claim.status.provider_id;
        let is_announced = self.announced.keys().any(|id| names(provider_id, id));
        let lives = instance_of(world, claim).is_some_and(|instance| instance.state.is_alive());
        let mut nodes = world.api.nodes.values();
        let node = nodes.find(|node| node.provider_id == *provider_id);
        let is_ready = node.is_some_and(|node| node.ready.status == ConditionStatus::True);
        lives && is_ready && !is_announced && !world.account.blind
    }
}

/// Returns whether the commit has a new command that Whittle chose and that disrupts such a NodeClaim.
fn chooses(lane: Lane, commit: &Commit, is_held: impl Fn(&NodeClaimName) -> bool) -> bool {
    let chosen = commit
        .commands
        .iter()
        .filter(|command| command.choice.is_some());
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
