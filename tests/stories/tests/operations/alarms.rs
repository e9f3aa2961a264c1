//! Metrics that the stack's alarms watch are published when their condition occurs, and only then.

use fakes::{Fault, World};
use model::NanosPerHour;
use ports::metrics::Measured;
use stories::{Relay, Rig, secs};

use crate::in_service;

const COSTS: &str = "whittle_dollars_per_hour";

fn counted(world: &World, name: &str) -> u64 {
    let metrics = world.metrics.iter().filter(|metric| metric.name == name);
    let counts = metrics.map(|metric| match metric.value {
        Measured::Count(count) => count,
        Measured::Duration(_) | Measured::Value(_) | Measured::PricePerHour(_) => 0,
    });
    counts.sum()
}

fn metric_count(rig: &Rig, name: &str) -> u64 {
    rig.sim.with(|world| counted(world, name))
}

#[tokio::test]
async fn healthy_cluster_writes_no_alarm_metrics() {
    let mut rig = in_service(3).await;
    rig.pass(secs(1_200)).await;
    let written: Vec<_> = rig.sim.with(|world| {
        let metrics = world.metrics.iter().map(|metric| metric.name);
        metrics
            .filter(|name| name.starts_with("whittle_") && *name != COSTS)
            .collect()
    });
    assert_eq!(written, Vec::<&str>::new());
}

#[tokio::test]
async fn cost_of_all_clusters_is_published_each_minute_while_there_are_nodes() {
    let mut rig = in_service(1).await;
    let costs = |world: &mut World| {
        let metrics = std::mem::take(&mut world.metrics);
        let costs = metrics.iter().filter(|metric| metric.name == COSTS);
        costs.map(|metric| metric.value).collect::<Vec<_>>()
    };
    rig.sim.with(|world| {
        let other = model::caps::Spending {
            price: NanosPerHour(1_000_000_000),
            nodes: 4,
        };
        let account = &mut world.ledger.spending;
        *account = account.with(&"other".into(), other);
        world.metrics.clear();
    });
    rig.pass(secs(180)).await;
    assert_eq!(
        rig.sim.with(costs),
        [Measured::PricePerHour(NanosPerHour(1_096_000_000)); 3]
    );
    rig.sim.with(|world| {
        let account = &mut world.ledger.spending;
        *account = account.with(&"other".into(), model::caps::Spending::default());
    });
    rig.scale(0);
    rig.pass(secs(900)).await;
    rig.sim.with(costs);
    rig.pass(secs(180)).await;
    assert_eq!(rig.sim.with(costs), [], "an idle account writes nothing");
}

#[tokio::test]
async fn failed_turn_is_counted() {
    let mut rig = in_service(1).await;
    rig.sim.fail_next("nodes", Fault::Unavailable);
    rig.scale(9);
    rig.pass(secs(60)).await;
    assert_eq!(metric_count(&rig, "whittle_turn_errors_total"), 1);
}

#[tokio::test]
async fn pods_pending_for_ten_minutes_are_counted() {
    let mut rig = in_service(1).await;
    rig.sim
        .with(|world| world.api.scale("web", 2, stories::cpu(900_000)));
    rig.pass(secs(500)).await;
    assert_eq!(metric_count(&rig, "whittle_pods_waiting_total"), 0);
    rig.pass(secs(900)).await;
    assert!(metric_count(&rig, "whittle_pods_waiting_total") > 0);
}

#[tokio::test]
async fn silent_relay_is_counted_if_its_cluster_has_nodes() {
    let mut rig = in_service(1).await;
    rig.relay = Relay::Dead;
    rig.pass(secs(300)).await;
    assert!(metric_count(&rig, "whittle_relays_silent_total") > 0);

    let mut rig = Rig::ready(Relay::Watching).await;
    rig.relay = Relay::Dead;
    rig.pass(secs(300)).await;
    assert_eq!(
        metric_count(&rig, "whittle_relays_silent_total"),
        0,
        "there are no nodes"
    );
}
