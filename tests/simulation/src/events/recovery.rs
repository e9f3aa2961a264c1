//! How what others do ends.

use fakes::{Sim, TableFaults};
use jiff::{SignedDuration, Timestamp};
use model::InstanceId;

use super::{edit, lead, offering, offerings, people, pools, refusals, register, sickness};
use crate::{
    play::Play,
    script::{DEPLOYMENTS, What},
};

/// Ends what lasts for a while, and what AWS announced.
pub(crate) fn proceed(play: &mut Play, now: Timestamp) {
    sickness::spread(play, now);
    let mut due = play.reliefs.iter().map(|(at, ..)| at);
    let mut gone = play.doomed.iter().map(|(at, _)| at);
    if !due.any(|at| *at <= now) && !gone.any(|at| *at <= now) {
        return;
    }
    let sim = play.sim.clone();
    let over: Vec<(usize, What)> = play
        .reliefs
        .extract_if(.., |(at, ..)| *at <= now)
        .map(|(_, cluster, what)| (cluster, what))
        .collect();
    for (cluster, what) in over {
        let Some(place) = play.clusters.get_mut(cluster) else {
            continue;
        };
        if let What::EntryUnreadable { .. } = what {
            refusals::show_entry(place);
        }
        let sim = place.sim.clone();
        sim.with(|world| match &what {
            What::NoCapacity { choice, .. } => {
                world.account.no_capacity.remove(&offering(*choice));
            }
            What::OutOfCapacity { capacity_type, .. } => {
                for offering in offerings(*capacity_type) {
                    world.account.no_capacity.remove(&offering);
                }
            }
            What::Blind { .. } => world.account.blind = false,
            What::Truncated { .. } => world.account.unlisted.clear(),
            What::ZoneOutage { .. } => {
                world.account.blind = false;
                world.api.silent.clear();
            }
            What::KubeletSilent { .. } => world.api.silent.clear(),
            What::TableFails { .. } => world.ledger.table().set_faults(TableFaults::default()),
            _ => {}
        });
        match what {
            What::Shadow { .. } => register(&sim, "active", None),
            // It steps down: an orderly end leaves the Lease to nobody.
            What::KarpenterLeads { .. } => lead(&sim, ""),
            What::Watched { pool, .. } => sim.with(|world| people::watch(world, pool, false)),
            _ => {}
        }
    }
    let gone: Vec<InstanceId> = play
        .doomed
        .extract_if(.., |(at, _)| *at <= now)
        .map(|(_, id)| id)
        .collect();
    sim.with(|world| gone.iter().for_each(|id| world.account.terminate(id, now)));
}

/// Nothing goes wrong any more, and a person sees to what needs one.
pub(crate) fn calm(play: &mut Play) {
    let now = play.now();
    for (at, ..) in &mut play.reliefs {
        *at = now;
    }
    proceed(play, now);
    play.last_change = play.seconds;
    play.sky.end(now);
    for place in &mut play.clusters {
        place.relay.dead_until(0);
        play.laws.with(&place.name, |laws| laws.approved = true);
        calm_cluster(&place.sim, now);
    }
}

fn calm_cluster(sim: &Sim, now: Timestamp) {
    register(sim, "active", Some(now + SignedDuration::from_hours(2)));
    edit(sim, |pool| {
        pool.spec.limits = None;
        let fresh = fakes::node_pool(&pool.metadata.name, "Never");
        pool.spec.template.spec.expire_after = fresh.spec.template.spec.expire_after;
        pools::free(pool);
    });
    sim.with(|world| {
        people::resume(world);
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
