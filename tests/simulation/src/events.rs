//! Effects of a script's events on the simulated world, and their ends.

mod gated_features;
mod node_failures;
mod node_pools;
mod pauses;
mod recovery;
mod recreated_cluster;
mod rejections;
mod relay;

use api::NodePool;
use fakes::{Sim, World};
use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, ClusterName, InstanceId, Interruption, InterruptionKind, NodeClaimName,
    launch::InstanceState,
};
use ports::cluster::LeaderLease;

pub(crate) use self::{
    node_failures::{end_outbreaks, has_outbreaks, keep_outbreaks_active},
    recovery::{end_all_faults, end_due_events},
    rejections::{has_rejections, lift_rejections},
    relay::Relay,
};
use crate::{
    is_own,
    play::{Play, SimulatedCluster},
    rng::Rng,
    script::{EventKind, Setting},
};

/// Time between a spot interruption notice and the interruption.
const SPOT_NOTICE: SignedDuration = SignedDuration::from_secs(120);

pub(crate) fn set_up(sim: &Sim, setting: &Setting) {
    sim.with(|world| {
        node_pools::set_up(world, setting);
        gated_features::set_up(world, &setting.gated);
        if !setting.has_status_document {
            world.api.status = None;
        }
        world.api.joins_once = true;
    });
}

/// Applies an event to a cluster.
pub(crate) fn apply(play: &mut Play, cluster: usize, event: &EventKind) {
    let now = play.now();
    let mut rng = Rng::new(u64::try_from(play.seconds).unwrap_or(0), 4);
    let Some(simulated) = play.clusters.get_mut(cluster) else {
        return;
    };
    let (sim, name) = (simulated.sim.clone(), simulated.name.clone());
    if let EventKind::RelayDead { seconds } = event {
        simulated.relay.dead_until(play.seconds + seconds);
    }
    play.last_change = play.seconds;
    match event {
        EventKind::Scale {
            deployment,
            replicas,
        } => sim.with(|world| {
            let requests = node_pools::requests(deployment);
            world.api.scale(deployment, *replicas, requests);
        }),
        EventKind::SpotStorm { nodes } => {
            for _ in 0..*nodes {
                let id = sim.look(|world| some_instance(world, &mut rng, true));
                announce(
                    play,
                    &name,
                    id,
                    InterruptionKind::SpotInterrupted,
                    Some(SPOT_NOTICE),
                );
            }
        }
        EventKind::Rebalance => {
            let id = sim.look(|world| some_instance(world, &mut rng, true));
            announce(
                play,
                &name,
                id,
                InterruptionKind::RebalanceRecommendation,
                None,
            );
        }
        EventKind::InstanceDies => {
            let id = sim.look(|world| some_instance(world, &mut rng, false));
            if let Some(id) = &id {
                sim.with(|world| world.account.terminate(id, world.now));
            }
            announce(play, &name, id, InterruptionKind::InstanceTerminated, None);
        }
        EventKind::NodeDeleted => sim.with(|world| {
            let names: Vec<_> = world.api.nodes.keys().cloned().collect();
            if let Some(name) = rng.pick(&names) {
                world.api.request_node_deletion(name, now);
            }
        }),
        EventKind::NodeClaimDeleted => sim.with(|world| {
            let names: Vec<_> = world.api.node_claims.keys().cloned().collect();
            if let Some(name) = rng.pick(&names) {
                world.api.request_deletion(name, now);
            }
        }),
        EventKind::NodeClaimForced => {
            let forced = sim.with(|world| force(world, &mut rng));
            play.laws.with(&name, |laws| laws.forced.extend(forced));
        }
        EventKind::PodDeleted => sim.with(|world| {
            let keys: Vec<_> = world.api.pods.keys().cloned().collect();
            if let Some(key) = rng.pick(&keys) {
                world.api.pods.remove(key);
            }
        }),
        EventKind::NodeClassEdited => sim.with(|world| {
            for class in world.api.node_classes.values_mut() {
                class.spec.user_data = Some(format!("edited at {now}"));
                class.metadata.generation =
                    class.metadata.generation.map(|generation| generation + 1);
            }
        }),
        EventKind::LimitEdited { cores } => edit(&sim, |pool| node_pools::limit(pool, *cores)),
        EventKind::BudgetEdited { nodes } => {
            edit(&sim, |pool| node_pools::edit_budget(pool, nodes))
        }
        EventKind::NoCapacity { choice, seconds } => {
            let offering = offering(*choice);
            sim.with(|world| world.account.no_capacity.insert(offering));
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::OutOfCapacity {
            capacity_type,
            seconds,
        } => {
            let all = offerings(*capacity_type);
            sim.with(|world| world.account.no_capacity.extend(all));
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::Blind { seconds } => {
            sim.with(|world| world.account.blind = true);
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::Truncated { hidden, seconds } => {
            sim.with(|world| {
                let ids: Vec<InstanceId> = world
                    .account
                    .alive()
                    .map(|instance| instance.id.clone())
                    .collect();
                world.account.unlisted.extend(ids.into_iter().take(*hidden));
            });
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::ZoneOutage { seconds } => {
            sim.with(|world| {
                world.account.blind = true;
                world.api.silent.extend(world.api.nodes.keys().cloned());
            });
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::KubeletSilent { seconds } => {
            sim.with(|world| {
                let nodes: Vec<_> = world.api.nodes.keys().cloned().collect();
                world.api.silent.extend(rng.pick(&nodes).cloned());
            });
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::RelayDead { .. } => {}
        EventKind::Shadow { seconds } => {
            register(&sim, "shadow", None);
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::KarpenterLeads { seconds } => {
            lead(&sim, "karpenter-5d8c");
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::Paused {
            level,
            scope,
            seconds,
        } => {
            let until = now + SignedDuration::from_secs(*seconds);
            sim.with(|world| pauses::pause(world, *level, scope, until));
        }
        EventKind::CheckedPorts { pool, seconds } => {
            sim.with(|world| pauses::watch(world, pool, true));
            let until = now + SignedDuration::from_secs(*seconds);
            play.pending_ends.push((until, cluster, event.clone()));
        }
        EventKind::InstanceRefuses { why, is_deleted } => {
            let concerned =
                sim.with(|world| rejections::instance(world, &mut rng, *why, *is_deleted));
            play.laws.with(&name, |laws| laws.rejected.add(concerned));
        }
        EventKind::ObjectRefuses {
            object,
            how,
            is_deleted,
        } => {
            let concerned =
                sim.with(|world| rejections::object(world, &mut rng, (*object, *how), *is_deleted));
            play.laws.with(&name, |laws| laws.rejected.add(concerned));
        }
        EventKind::RowUnreadable { choice } => {
            let unreadable = sim.with(|world| rejections::corrupt_row(world, *choice));
            if let Some((row, concerned)) = unreadable {
                play.laws.with(&name, |laws| laws.rejected.add(concerned));
                with_cluster(play, cluster, |simulated| simulated.unreadable.push(row));
            }
        }
        EventKind::EntryUnreadable { seconds } => {
            let entry = sim.with(rejections::hide_entry);
            with_cluster(play, cluster, |simulated| {
                simulated.entry = simulated.entry.take().or(entry);
            });
            let until = now + SignedDuration::from_secs(*seconds);
            play.pending_ends.push((until, cluster, event.clone()));
        }
        EventKind::NodeFails { failure_mode } => {
            sim.with(|world| node_failures::fail_one(world, &mut rng, *failure_mode));
        }
        EventKind::Outbreak {
            cause,
            failure_mode,
        } => {
            sim.with(|world| node_failures::begin_outbreak(world, *cause));
            with_cluster(play, cluster, |simulated| {
                simulated.outbreaks.push((*cause, *failure_mode));
            });
            play.faults.add(Timestamp::MAX, &name, event.clone());
        }
        EventKind::Replicas { count } => edit(&sim, |pool| gated_features::scale(pool, *count)),
        EventKind::TableFails { faults, seconds } => {
            sim.with(|world| world.ledger.table().set_faults(*faults));
            schedule_end(play, (cluster, &name), now, *seconds, event);
        }
        EventKind::ClusterRecreated { is_known_gone } => {
            sim.with(|world| recreated_cluster::recreate(world, *is_known_gone));
            with_cluster(play, cluster, |simulated| {
                if let Some(entry) = &mut simulated.entry
                    && *is_known_gone
                {
                    recreated_cluster::make_eks_entry(entry);
                }
            });
            play.laws.with(&name, |laws| laws.cluster_recreated(now));
            play.faults.add(
                now + recreated_cluster::REINSTALLED_WITHIN,
                &name,
                event.clone(),
            );
            let dead_until = play.seconds + recreated_cluster::REINSTALLED_WITHIN.as_secs();
            with_cluster(play, cluster, |simulated| {
                simulated.relay.dead_until(dead_until)
            });
        }
        EventKind::Down { seconds, .. }
        | EventKind::ApiServerSlow { seconds, .. }
        | EventKind::Faults { seconds, .. }
        | EventKind::CallFails { seconds, .. }
        | EventKind::Slow { seconds, .. }
        | EventKind::Crashes { seconds, .. }
        | EventKind::WakesLost { seconds, .. }
        | EventKind::WakesDoubled { seconds, .. }
        | EventKind::WakesLate { seconds, .. }
        | EventKind::SweepsMissed { seconds } => {
            let until = now + SignedDuration::from_secs(*seconds);
            play.faults.add(until, &name, event.clone());
        }
    }
}

fn with_cluster(play: &mut Play, cluster: usize, act: impl FnOnce(&mut SimulatedCluster)) {
    if let Some(simulated) = play.clusters.get_mut(cluster) {
        act(simulated);
    }
}

/// Schedules the end of an event; `at` is the index and the name of its cluster.
fn schedule_end(
    play: &mut Play,
    at: (usize, &ClusterName),
    now: Timestamp,
    seconds: i64,
    event: &EventKind,
) {
    let until = now + SignedDuration::from_secs(seconds);
    play.pending_ends.push((until, at.0, event.clone()));
    // Missing capacity does not prevent any act.
    if !matches!(
        event,
        EventKind::NoCapacity { .. } | EventKind::OutOfCapacity { .. }
    ) {
        play.faults.add(until, at.1, event.clone());
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
        play.reclaimed.push((deadline, id.clone()));
    }
    if kind != InterruptionKind::RebalanceRecommendation {
        play.laws.with(cluster, |laws| {
            laws.announced.insert(id.clone(), now);
            // A dead instance has no time left.
            let at = deadline.unwrap_or(now);
            // A second announcement never postpones the end.
            let deadline = laws.deadlines.entry(id.clone()).or_insert(at);
            *deadline = at.min(*deadline);
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

/// Removes a NodeClaim with its finalizer, regardless of its node.
fn force(world: &mut World, rng: &mut Rng) -> Option<NodeClaimName> {
    let names: Vec<_> = world.api.node_claims.keys().cloned().collect();
    let name = rng.pick(&names)?;
    world.api.node_claims.remove(name);
    Some(name.clone())
}

fn some_instance(world: &World, rng: &mut Rng, spot: bool) -> Option<InstanceId> {
    let alive = world
        .account
        .alive()
        .filter(|instance| instance.state == InstanceState::Running && is_own(world, instance));
    let ids: Vec<InstanceId> = alive
        .filter(|instance| !spot || instance.capacity_type == CapacityType::Spot)
        .map(|instance| instance.id.clone())
        .collect();
    rng.pick(&ids).cloned()
}

/// Number of offerings in the small catalog.
const OFFERINGS: usize = 12;

/// Returns an offering of the small catalog: three types in two zones, spot and on-demand.
fn offering(choice: usize) -> (CapacityType, String, String) {
    let types = ["m5.large", "m5.xlarge", "m5.2xlarge"];
    let zones = ["us-east-1a", "us-east-1b"];
    let capacity_type = if choice.is_multiple_of(2) {
        CapacityType::Spot
    } else {
        CapacityType::OnDemand
    };
    let instance_type = types.get(choice / 2 % 3).copied().unwrap_or_default();
    let zone = zones.get(choice / 6 % 2).copied().unwrap_or_default();
    (capacity_type, instance_type.to_owned(), zone.to_owned())
}

fn offerings(of: CapacityType) -> impl Iterator<Item = (CapacityType, String, String)> {
    (0..OFFERINGS)
        .map(offering)
        .filter(move |(capacity_type, _, _)| *capacity_type == of)
}

fn edit(sim: &Sim, change: impl Fn(&mut NodePool)) {
    sim.with(|world| world.api.node_pools.values_mut().for_each(change));
}

/// Sets the mode in the registry entry of a cluster, and approves collections that the brake holds back.
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
