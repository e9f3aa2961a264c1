//! Ends of events.

use fakes::{Sim, TableFaults};
use jiff::{SignedDuration, Timestamp};
use model::InstanceId;

use super::{
    edit, lead, node_failures, node_pools, offering, offerings, pauses, register, rejections,
};
use crate::{
    play::Play,
    script::{DEPLOYMENTS, EventKind},
};

/// Ends temporary events that are due, and terminates instances that AWS announced to reclaim.
pub(crate) fn end_due_events(play: &mut Play, now: Timestamp) {
    node_failures::spread(play, now);
    let mut due = play.pending_ends.iter().map(|(at, ..)| at);
    let mut gone = play.reclaimed.iter().map(|(at, _)| at);
    if !due.any(|at| *at <= now) && !gone.any(|at| *at <= now) {
        return;
    }
    let sim = play.sim.clone();
    let over: Vec<(usize, EventKind)> = play
        .pending_ends
        .extract_if(.., |(at, ..)| *at <= now)
        .map(|(_, cluster, event)| (cluster, event))
        .collect();
    for (cluster, event) in over {
        let Some(simulated) = play.clusters.get_mut(cluster) else {
            continue;
        };
        if let EventKind::EntryUnreadable { .. } = event {
            rejections::show_entry(simulated);
        }
        let sim = simulated.sim.clone();
        sim.with(|world| match &event {
            EventKind::NoCapacity { choice, .. } => {
                world.account.no_capacity.remove(&offering(*choice));
            }
            EventKind::OutOfCapacity { capacity_type, .. } => {
                for offering in offerings(*capacity_type) {
                    world.account.no_capacity.remove(&offering);
                }
            }
            EventKind::Blind { .. } => world.account.blind = false,
            EventKind::Truncated { .. } => world.account.unlisted.clear(),
            EventKind::ZoneOutage { .. } => {
                world.account.blind = false;
                world.api.silent.clear();
            }
            EventKind::KubeletSilent { .. } => world.api.silent.clear(),
            EventKind::TableFails { .. } => world.ledger.table().set_faults(TableFaults::default()),
            _ => {}
        });
        match event {
            EventKind::Shadow { .. } => register(&sim, "active", None),
            // Karpenter steps down: a graceful shutdown leaves the Lease without a holder.
            EventKind::KarpenterLeads { .. } => lead(&sim, ""),
            EventKind::CheckedPorts { pool, .. } => {
                sim.with(|world| pauses::watch(world, pool, false))
            }
            _ => {}
        }
    }
    let gone: Vec<InstanceId> = play
        .reclaimed
        .extract_if(.., |(at, _)| *at <= now)
        .map(|(_, id)| id)
        .collect();
    sim.with(|world| gone.iter().for_each(|id| world.account.terminate(id, now)));
}

/// Ends all faults and everything that a user has to fix, except rejections and outbreaks.
pub(crate) fn end_all_faults(play: &mut Play) {
    let now = play.now();
    for (at, ..) in &mut play.pending_ends {
        *at = now;
    }
    end_due_events(play, now);
    play.last_change = play.seconds;
    play.faults.end(now);
    for simulated in &mut play.clusters {
        simulated.relay.dead_until(0);
        play.laws.with(&simulated.name, |laws| laws.approved = true);
        recover_cluster(&simulated.sim, now);
    }
}

fn recover_cluster(sim: &Sim, now: Timestamp) {
    register(sim, "active", Some(now + SignedDuration::from_hours(2)));
    edit(sim, |pool| {
        pool.spec.limits = None;
        let fresh = fakes::node_pool(&pool.metadata.name, "Never");
        pool.spec.template.spec.expire_after = fresh.spec.template.spec.expire_after;
        node_pools::remove_budgets(pool);
    });
    sim.with(|world| {
        pauses::resume(world);
        world.account.no_capacity.clear();
        world.account.describe_lag = SignedDuration::ZERO;
        for claim in world.api.node_claims.values_mut() {
            claim.spec.expire_after = None;
        }
        for name in DEPLOYMENTS {
            if let Some(deployment) = world.api.deployments.get_mut(name) {
                deployment.annotations.clear();
            }
        }
        let pods = world.api.pods.values_mut();
        for pod in pods.filter(|pod| !pod.annotations.is_empty()) {
            pod.annotations.clear();
        }
        let least = world
            .api
            .deployments
            .get("web")
            .map_or(0, |web| web.replicas);
        for budget in &mut world.api.disruption_budgets {
            budget.min_available = Some(if least > 1 { "1" } else { "0" }.to_owned());
        }
    });
}
