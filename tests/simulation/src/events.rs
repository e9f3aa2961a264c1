//! What others do to a cluster, and how they stop.

mod anew;
mod calm;
mod gated;
mod people;
mod pools;
mod refusals;
mod relay;
mod sickness;

use api::NodePool;
use fakes::{Sim, World};
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, InstanceId, Interruption, InterruptionKind, NodeClaimName,
    launch::InstanceState,
};
use ports::cluster::LeaderLease;

pub(crate) use self::{
    calm::{calm, proceed},
    refusals::{Refused, refuses, see_to_refusals},
    relay::Relay,
    sickness::{fails, go_on_failing, see_to_causes},
};
use crate::{
    dice::Dice,
    is_own,
    play::{Place, Play},
    script::{Setting, What},
};

/// What AWS gives a spot instance.
const NOTICE: SignedDuration = SignedDuration::from_secs(120);

pub(crate) fn set_up(sim: &Sim, setting: &Setting) {
    sim.with(|world| {
        pools::set_up(world, setting);
        gated::set_up(world, &setting.gated);
        if !setting.tells {
            world.api.status = None;
        }
        world.api.joins_once = true;
    });
}

/// Lets something happen to a cluster.
pub(crate) fn happen(play: &mut Play, cluster: usize, what: &What) {
    let now = play.now();
    let mut dice = Dice::new(u64::try_from(play.seconds).unwrap_or(0), 4);
    let Some(place) = play.clusters.get_mut(cluster) else {
        return;
    };
    let (sim, name) = (place.sim.clone(), place.name.clone());
    if let What::RelayDead { seconds } = what {
        place.relay.dead_until(play.seconds + seconds);
    }
    play.last_change = play.seconds;
    match what {
        What::Scale {
            deployment,
            replicas,
        } => sim.with(|world| {
            let requests = pools::requests(deployment);
            world.api.scale(deployment, *replicas, requests);
        }),
        What::SpotStorm { nodes } => {
            for _ in 0..*nodes {
                let id = sim.look(|world| some_instance(world, &mut dice, true));
                announce(
                    play,
                    &name,
                    id,
                    InterruptionKind::SpotInterrupted,
                    Some(NOTICE),
                );
            }
        }
        What::Rebalance => {
            let id = sim.look(|world| some_instance(world, &mut dice, true));
            announce(
                play,
                &name,
                id,
                InterruptionKind::RebalanceRecommendation,
                None,
            );
        }
        What::InstanceDies => {
            let id = sim.look(|world| some_instance(world, &mut dice, false));
            if let Some(id) = &id {
                sim.with(|world| world.account.terminate(id, world.now));
            }
            announce(play, &name, id, InterruptionKind::InstanceTerminated, None);
        }
        What::NodeDeleted => sim.with(|world| {
            let names: Vec<_> = world.api.nodes.keys().cloned().collect();
            if let Some(name) = dice.pick(&names) {
                world.api.order_node_deletion(name, now);
            }
        }),
        What::NodeClaimDeleted => sim.with(|world| {
            let names: Vec<_> = world.api.node_claims.keys().cloned().collect();
            if let Some(name) = dice.pick(&names) {
                world.api.order_deletion(name, now);
            }
        }),
        What::NodeClaimForced => {
            let forced = sim.with(|world| force(world, &mut dice));
            play.laws.with(&name, |laws| laws.forced.extend(forced));
        }
        What::PodDeleted => sim.with(|world| {
            let keys: Vec<_> = world.api.pods.keys().cloned().collect();
            if let Some(key) = dice.pick(&keys) {
                world.api.pods.remove(key);
            }
        }),
        What::NodeClassEdited => sim.with(|world| {
            for class in world.api.node_classes.values_mut() {
                class.spec.user_data = Some(format!("edited at {now}"));
                class.metadata.generation =
                    class.metadata.generation.map(|generation| generation + 1);
            }
        }),
        What::LimitEdited { cores } => edit(&sim, |pool| pools::limit(pool, *cores)),
        What::BudgetEdited { nodes } => edit(&sim, |pool| pools::edit_budget(pool, nodes)),
        What::NoCapacity { choice, seconds } => {
            let offering = offering(*choice);
            sim.with(|world| world.account.no_capacity.insert(offering));
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::OutOfCapacity {
            capacity_type,
            seconds,
        } => {
            let all = offerings(*capacity_type);
            sim.with(|world| world.account.no_capacity.extend(all));
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::Blind { seconds } => {
            sim.with(|world| world.account.blind = true);
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::Truncated { hidden, seconds } => {
            sim.with(|world| {
                let ids: Vec<InstanceId> =
                    world.account.alive().map(|one| one.id.clone()).collect();
                world.account.unlisted.extend(ids.into_iter().take(*hidden));
            });
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::ZoneOutage { seconds } => {
            sim.with(|world| {
                world.account.blind = true;
                world.api.silent.extend(world.api.nodes.keys().cloned());
            });
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::KubeletSilent { seconds } => {
            sim.with(|world| {
                let nodes: Vec<_> = world.api.nodes.keys().cloned().collect();
                world.api.silent.extend(dice.pick(&nodes).cloned());
            });
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::RelayDead { .. } => {}
        What::Shadow { seconds } => {
            register(&sim, "shadow", None);
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::KarpenterLeads { seconds } => {
            lead(&sim, "karpenter-5d8c");
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::Paused {
            level,
            scope,
            seconds,
        } => {
            let until = now + SignedDuration::from_secs(*seconds);
            sim.with(|world| people::pause(world, *level, scope, until));
        }
        What::Watched { pool, seconds } => {
            sim.with(|world| people::watch(world, pool, true));
            let until = now + SignedDuration::from_secs(*seconds);
            play.reliefs.push((until, cluster, what.clone()));
        }
        What::InstanceRefuses { why, is_deleted } => {
            let refused = sim.with(|world| refusals::instance(world, &mut dice, *why, *is_deleted));
            play.laws.with(&name, |laws| laws.refused.add(refused));
        }
        What::ObjectRefuses {
            object,
            how,
            is_deleted,
        } => {
            let refused =
                sim.with(|world| refusals::object(world, &mut dice, (*object, *how), *is_deleted));
            play.laws.with(&name, |laws| laws.refused.add(refused));
        }
        What::RowUnreadable { choice } => {
            let spoilt = sim.with(|world| refusals::spoil(world, *choice));
            if let Some((row, refused)) = spoilt {
                play.laws.with(&name, |laws| laws.refused.add(refused));
                place_of(play, cluster, |place| place.spoilt.push(row));
            }
        }
        What::EntryUnreadable { seconds } => {
            let entry = sim.with(refusals::hide_entry);
            place_of(play, cluster, |place| {
                place.entry = place.entry.take().or(entry);
            });
            let until = now + SignedDuration::from_secs(*seconds);
            play.reliefs.push((until, cluster, what.clone()));
        }
        What::NodeFails { ailment } => {
            sim.with(|world| sickness::fail_one(world, &mut dice, *ailment));
        }
        What::Outbreak { cause, ailment } => {
            sim.with(|world| sickness::break_out(world, *cause));
            place_of(play, cluster, |place| {
                place.outbreaks.push((*cause, *ailment));
            });
            play.sky.add(Timestamp::MAX, &name, what.clone());
        }
        What::Replicas { count } => edit(&sim, |pool| gated::scale(pool, *count)),
        What::TableFails { faults, seconds } => {
            sim.with(|world| world.ledger.table().set_faults(*faults));
            relieve(play, (cluster, &name), now, *seconds, what);
        }
        What::MadeAnew { is_known_gone } => {
            sim.with(|world| anew::make(world, *is_known_gone));
            place_of(play, cluster, |place| {
                if let Some(entry) = &mut place.entry
                    && *is_known_gone
                {
                    anew::tell(entry);
                }
            });
            play.laws.with(&name, |laws| laws.made_anew(now));
            play.sky
                .add(now + anew::INSTALLED_WITHIN, &name, what.clone());
            let dead_until = play.seconds + anew::INSTALLED_WITHIN.as_secs();
            place_of(play, cluster, |place| place.relay.dead_until(dead_until));
        }
        What::Down { seconds, .. }
        | What::ApiServerSlow { seconds, .. }
        | What::Faults { seconds, .. }
        | What::CallFails { seconds, .. }
        | What::Slow { seconds, .. }
        | What::Crashes { seconds, .. }
        | What::WakesLost { seconds, .. }
        | What::WakesDoubled { seconds, .. }
        | What::WakesLate { seconds, .. }
        | What::SweepsMissed { seconds } => {
            let until = now + SignedDuration::from_secs(*seconds);
            play.sky.add(until, &name, what.clone());
        }
    }
}

fn place_of(play: &mut Play, cluster: usize, act: impl FnOnce(&mut Place)) {
    if let Some(place) = play.clusters.get_mut(cluster) {
        act(place);
    }
}

/// Ends something after a while; `at` is the index and the name of its cluster.
fn relieve(play: &mut Play, at: (usize, &ClusterName), now: Timestamp, seconds: i64, what: &What) {
    let until = now + SignedDuration::from_secs(seconds);
    play.reliefs.push((until, at.0, what.clone()));
    // Missing capacity hinders nobody from acting.
    if !matches!(what, What::NoCapacity { .. } | What::OutOfCapacity { .. }) {
        play.sky.add(until, at.1, what.clone());
    }
}

fn announce(
    play: &mut Play,
    cluster: &ClusterName,
    id: Option<InstanceId>,
    kind: InterruptionKind,
    left: Option<SignedDuration>,
) {
    let Some(id) = id else { return };
    let now = play.now();
    let deadline = left.map(|left| now + left);
    if let Some(deadline) = deadline {
        play.doomed.push((deadline, id.clone()));
    }
    if kind != InterruptionKind::RebalanceRecommendation {
        play.laws.with(cluster, |laws| {
            laws.announced.insert(id.clone(), now);
            // A dead instance has no time left.
            let at = deadline.unwrap_or(now);
            // A second announcement moves the end to no later time.
            let known = laws.deadlines.entry(id.clone()).or_insert(at);
            *known = at.min(*known);
        });
    }
    play.facts.push((
        now,
        Interruption {
            instance: id,
            kind,
            at: Some(now),
            deadline,
            hook: None,
            event: String::new(),
            reboots: false,
        },
    ));
}

/// Removes a NodeClaim, whatever its node does.
fn force(world: &mut World, dice: &mut Dice) -> Option<NodeClaimName> {
    let names: Vec<_> = world.api.node_claims.keys().cloned().collect();
    let name = dice.pick(&names)?;
    world.api.node_claims.remove(name);
    Some(name.clone())
}

fn some_instance(world: &World, dice: &mut Dice, spot: bool) -> Option<InstanceId> {
    let alive = world
        .account
        .alive()
        .filter(|one| one.state == InstanceState::Running && is_own(world, one));
    let ids: Vec<InstanceId> = alive
        .filter(|one| !spot || one.capacity_type == CapacityType::Spot)
        .map(|one| one.id.clone())
        .collect();
    dice.pick(&ids).cloned()
}

/// Offerings of the small catalog.
const OFFERINGS: usize = 12;

/// Of the small catalog: three types in two zones, spot and on-demand.
fn offering(choice: usize) -> (CapacityType, String, String) {
    let types = ["m5.large", "m5.xlarge", "m5.2xlarge"];
    let zones = ["us-east-1a", "us-east-1b"];
    let capacity_type = if choice.is_multiple_of(2) {
        CapacityType::Spot
    } else {
        CapacityType::OnDemand
    };
    let kind = types.get(choice / 2 % 3).copied().unwrap_or_default();
    let zone = zones.get(choice / 6 % 2).copied().unwrap_or_default();
    (capacity_type, kind.to_owned(), zone.to_owned())
}

fn offerings(of: CapacityType) -> impl Iterator<Item = (CapacityType, String, String)> {
    (0..OFFERINGS)
        .map(offering)
        .filter(move |(capacity_type, _, _)| *capacity_type == of)
}

fn edit(sim: &Sim, change: impl Fn(&mut NodePool)) {
    sim.with(|world| world.api.node_pools.values_mut().for_each(change));
}

/// Changes the mode in the registry's entry of a cluster, and approves what the brake holds back.
fn register(sim: &Sim, mode: &str, approved: Option<Timestamp>) {
    sim.with(|world| {
        let mut entries = world.registry.iter_mut();
        let entry = entries.find(|entry| entry.cluster == world.cluster);
        let body = entry.and_then(|entry| entry.body.as_mut().ok());
        let Some(body) = body.and_then(|body| body.as_object_mut()) else {
            return;
        };
        body.insert("mode".to_owned(), mode.into());
        if let Some(until) = approved {
            let approvals = serde_json::json!({"collectUntil": until.to_string()});
            body.insert("approvals".to_owned(), approvals);
        }
    });
}

fn lead(sim: &Sim, holder: &str) {
    sim.with(|world| {
        let version = format!("by-{holder}-{}", world.now);
        world.api.leader = Some(LeaderLease {
            holder: holder.to_owned(),
            renewed_at: Some(world.now),
            duration_seconds: 600,
            resource_version: Some(version),
        });
    });
}
