//! Status that the functions publish through the relay's `/metrics`: no decision depends on it, and it costs an idle cluster
//! nothing.

use std::collections::BTreeMap;

use fakes::Fault;
use model::{
    CapacityType, InterruptionKind, Lane,
    status::{Series, Status},
};
use stories::{Relay, Rig, all_bound, secs};

use crate::in_service;

fn published(rig: &Rig, lane: Lane) -> Status {
    let text = rig.sim.with(|world| {
        let reported = world.api.status.as_ref().unwrap();
        reported.documents.get(&lane).cloned()
    });
    text.map_or_else(Status::default, |text| Status::read(&text).unwrap())
}

/// Samples of the series of this name, as `name{label="value"} value`.
fn samples(series: &[Series], name: &str) -> Vec<String> {
    let own = series.iter().filter(|series| series.name == name);
    let own = own.map(|series| {
        let labels = series.labels.iter();
        let labels: Vec<_> = labels
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!("{} {}", labels.join(","), series.value)
    });
    own.collect()
}

/// Number of observations of a histogram.
fn timed(rig: &Rig, lane: Lane, name: &str) -> u64 {
    let durations = published(rig, lane).durations;
    let of_name = durations.iter().filter(|duration| duration.name == name);
    of_name.map(model::status::Durations::count).sum()
}

fn calls(rig: &Rig) -> BTreeMap<&'static str, usize> {
    let mut calls = BTreeMap::new();
    for call in rig.sim.with(|world| world.calls.clone()) {
        *calls.entry(call).or_default() += 1;
    }
    calls
}

#[tokio::test]
async fn launches_and_cluster_state_are_published() {
    let mut rig = in_service(2).await;
    // Each lane has a full look within ten minutes.
    rig.pass(secs(660)).await;
    let created = published(&rig, Lane::Provisioner).counters;
    assert_eq!(
        samples(&created, "karpenter_nodeclaims_created_total"),
        ["min_values_relaxed=false,nodepool=default,reason=provisioned 1"]
    );
    let joined = published(&rig, Lane::Lifecycle).counters;
    let joined = samples(&joined, "karpenter_nodes_created_total");
    assert!(
        matches!(&joined[..], [series] if series.starts_with("nodepool=default,zone=")),
        "{joined:?}"
    );
    let gauges = published(&rig, Lane::Disruption).gauges;
    let nodes = samples(&gauges, "karpenter_cluster_state_node_count");
    assert_eq!(nodes, [" 1"]);
    let usage = samples(&gauges, "karpenter_nodepools_usage");
    assert!(
        usage.contains(&"nodepool=default,resource_type=nodes 1".to_owned()),
        "{usage:?}"
    );
    let pods = samples(&gauges, "karpenter_pods_state");
    assert!(
        matches!(&pods[..], [series] if series.contains("phase=Running,scheduled=true") && series.ends_with(" 2")),
        "{pods:?}"
    );
}

/// Three empty nodes are eligible while a budget keeps them, and none once they are removed (docs/spec/v1.15.md#metrics).
#[tokio::test]
async fn empty_nodes_are_counted_until_they_are_removed() {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.pass(secs(150)).await;
    rig.scale(3);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let allow = |rig: &Rig, nodes: &str| {
        rig.sim.with(|world| {
            let pool = world.api.node_pools.get_mut("default").unwrap();
            let budgets = serde_json::json!([{ "nodes": nodes }]);
            pool.spec.disruption.budgets = serde_json::from_value(budgets).unwrap();
        });
    };
    let eligible = |rig: &Rig| {
        let gauges = published(rig, Lane::Disruption).gauges;
        samples(&gauges, "karpenter_voluntary_disruption_eligible_nodes")
    };
    let of_empty = |nodes: usize| {
        [
            "reason=unhealthy 0".to_owned(),
            format!("reason=empty {nodes}"),
            "reason=drifted 0".to_owned(),
            "reason=underutilized 0".to_owned(),
        ]
    };
    allow(&rig, "0");
    rig.scale(0);
    rig.pass(secs(900)).await;
    assert_eq!(eligible(&rig), of_empty(3));
    allow(&rig, "100%");
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(|world| world.api.nodes.len()), 0);
    assert_eq!(eligible(&rig), of_empty(0));
}

#[tokio::test]
async fn node_lifetime_and_termination_durations_are_published() {
    let mut rig = in_service(1).await;
    rig.scale(0);
    rig.pass(secs(900)).await;
    assert_eq!(rig.sim.with(|world| world.api.nodes.len()), 0);
    let lanes = [Lane::Lifecycle, Lane::Terminator];
    let durations: Vec<_> = lanes
        .into_iter()
        .flat_map(|lane| published(&rig, lane).durations)
        .collect();
    for name in [
        "karpenter_nodes_lifetime_duration_seconds",
        "karpenter_nodes_termination_duration_seconds",
        "karpenter_nodeclaims_termination_duration_seconds",
    ] {
        let of_name = durations.iter().filter(|duration| duration.name == name);
        let counts: Vec<u64> = of_name.map(model::status::Durations::count).collect();
        assert_eq!(counts, [1], "{name}");
    }
}

#[tokio::test]
async fn counters_accumulate_over_turns() {
    let mut rig = in_service(3).await;
    rig.scale(9);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.pass(secs(30)).await;
    let created = published(&rig, Lane::Provisioner).counters;
    let created = created.iter().map(|counter| counter.value).sum::<f64>();
    let nodes = rig.sim.with(|world| world.api.created.len());
    assert!(nodes > 1);
    assert_eq!(format!("{created}"), nodes.to_string());
}

#[tokio::test]
async fn insufficient_capacity_is_counted_by_offering_and_by_pending_pods() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        for kind in ["m5.large", "m5.xlarge", "m5.2xlarge"] {
            for zone in ["us-east-1a", "us-east-1b"] {
                let offering = (CapacityType::OnDemand, kind.into(), zone.into());
                world.account.no_capacity.insert(offering);
            }
        }
    });
    rig.scale(2);
    rig.pass(secs(60)).await;
    let status = published(&rig, Lane::Provisioner);
    let errors = samples(&status.counters, "karpenter_cloudprovider_errors_total");
    let class = "controller=provisioner,error=InsufficientCapacityError,method=Create,provider=aws";
    assert!(
        matches!(&errors[..], [series] if series.starts_with(class)),
        "{errors:?}"
    );
    let failures = "karpenter_cloudprovider_instance_launch_failures_total";
    let failures = samples(&status.counters, failures);
    let labels = "capacity_type=on-demand,reason=InsufficientInstanceCapacity,zone=us-east-1a";
    assert!(
        failures.iter().any(|failure| failure.starts_with(labels)),
        "{failures:?}"
    );
    let waiting = "karpenter_scheduler_unschedulable_pods_count";
    assert_eq!(
        samples(&status.gauges, waiting),
        ["controller=provisioner 2"]
    );

    rig.sim.with(|world| world.account.no_capacity.clear());
    assert!(rig.until(secs(600), all_bound).await.is_some());
    let status = published(&rig, Lane::Provisioner);
    assert_eq!(
        samples(&status.gauges, waiting),
        ["controller=provisioner 0"]
    );
}

#[tokio::test]
async fn interruption_is_counted_by_the_interruption_function() {
    let mut rig = in_service(1).await;
    let victim = rig.sim.with(|world| {
        let mut alive = world.account.alive();
        alive.next().unwrap().id.clone()
    });
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&victim, kind, Some(secs(120))).await.unwrap();
    let counted = published(&rig, Lane::Interruption).counters;
    assert_eq!(
        samples(&counted, "karpenter_interruption_received_messages_total"),
        ["message_type=spot_interrupted 1"]
    );
    let deleted = "karpenter_interruption_deleted_messages_total";
    assert_eq!(samples(&counted, deleted), [" 1"]);
    let age = "karpenter_interruption_message_queue_duration_seconds";
    assert_eq!(timed(&rig, Lane::Interruption, age), 1);
}

#[tokio::test]
async fn failed_status_check_is_counted_once_per_instance() {
    let mut rig = in_service(1).await;
    let victim = rig.sim.with(|world| {
        let mut alive = world.account.alive();
        alive.next().unwrap().id.clone()
    });
    let kind = InterruptionKind::SystemStatus;
    for _ in 0..2 {
        rig.announce(&victim, kind, None).await.unwrap();
    }
    let counted = published(&rig, Lane::Interruption).counters;
    let name = "karpenter_interruption_instance_status_unhealthy_total";
    assert_eq!(samples(&counted, name), ["category=SystemStatus 1"]);
    let deleted = "karpenter_interruption_deleted_messages_total";
    assert_eq!(
        samples(&counted, deleted),
        [""; 0],
        "no message announced it"
    );
}

#[tokio::test]
async fn planning_duration_is_published_to_the_relay_alone() {
    let mut rig = in_service(1).await;
    let name = "karpenter_scheduler_scheduling_duration_seconds";
    let before = timed(&rig, Lane::Provisioner, name);
    assert!(before > 0);
    rig.pass(secs(1_200)).await;
    assert_eq!(
        timed(&rig, Lane::Provisioner, name),
        before,
        "no pod is pending"
    );
    let published = rig.sim.with(|world| {
        let mut metrics = world.metrics.iter();
        metrics.any(|metric| metric.name == name)
    });
    assert!(!published, "CloudWatch has the function's own duration");
}

#[tokio::test]
async fn pending_pods_are_published_by_usable_zone() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(2);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let gauges = published(&rig, Lane::Provisioner).gauges;
    let zones = "karpenter_scheduler_pending_pods_by_effective_zone_count";
    assert_eq!(
        samples(&gauges, zones),
        ["controller=provisioner,zone=flexible 2"]
    );
    let ignored = "karpenter_scheduler_ignored_pods_count";
    assert_eq!(samples(&gauges, ignored), [" 0"]);
}

#[tokio::test]
async fn unchanged_status_is_not_written() {
    let mut rig = in_service(3).await;
    rig.pass(secs(1_200)).await;
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(1_800)).await;
    let calls = calls(&rig);
    assert_eq!(calls.get("store_status_document"), None, "{calls:?}");
    let read = calls.get("status_document").copied().unwrap_or_default();
    assert!(
        (1..=4).contains(&read),
        "one full look each ten minutes: {calls:?}"
    );
}

#[tokio::test]
async fn function_killed_while_publishing_status_loses_no_work() {
    for call in ["status_document", "store_status_document"] {
        let mut rig = Rig::ready(Relay::Watching).await;
        rig.sim.with(|world| world.crash_after = Some(call));
        rig.scale(3);
        let without_crash = 60;
        let took = rig.until(secs(without_crash), all_bound).await;
        assert!(took.is_some(), "{call}: {:#?}", rig.transcript);
        let died = rig.sim.with(|world| world.crash_after.is_none());
        assert!(died, "{call} was not called");
    }
}

#[tokio::test]
async fn refused_status_write_is_a_warning_with_the_remedy() {
    let mut rig = in_service(3).await;
    rig.sim.fail_next("status_document", Fault::Denied);
    let (turn, deadline) = (rig.next_turn(), rig.deadline(Lane::Disruption));
    let cluster = Rig::cluster();
    let report = turns::run(&rig.world, &cluster, Lane::Disruption, &turn, deadline);
    let report = Box::pin(report).await.unwrap();
    let warnings = report.warnings.join("; ");
    for part in ["metrics of the relay", "helm upgrade"] {
        assert!(warnings.contains(part), "{warnings}");
    }
    assert_eq!(
        (report.outcome, report.problems),
        (turns::Outcome::Done, Vec::new())
    );
}

#[tokio::test]
async fn concurrent_status_writes_are_both_kept() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.fail_next("store_status_document", Fault::Conflict);
    rig.scale(3);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    rig.pass(secs(30)).await;
    let created = published(&rig, Lane::Provisioner).counters;
    assert_eq!(
        samples(&created, "karpenter_nodeclaims_created_total").len(),
        1
    );
}

#[tokio::test]
async fn status_is_not_written_without_a_relay() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.sim.with(|world| world.api.status = None);
    rig.scale(3);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let calls = calls(&rig);
    assert!(calls.contains_key("status_document"), "{calls:?}");
    // The first turns of the empty cluster have published before.
    rig.sim.with(|world| world.calls.clear());
    rig.pass(secs(900)).await;
    let calls = self::calls(&rig);
    assert_eq!(calls.get("store_status_document"), None, "{calls:?}");
}

#[tokio::test]
async fn status_is_not_written_in_shadow_mode() {
    let mut rig = in_service(3).await;
    let entry = serde_json::json!({"type": "endpoint", "mode": "shadow"});
    rig.sim.with(|world| world.registry[0].body = Ok(entry));
    rig.pass(secs(120)).await;
    rig.sim.with(|world| world.calls.clear());
    rig.scale(9);
    let victim = rig.sim.with(|world| {
        let mut alive = world.account.alive();
        alive.next().unwrap().id.clone()
    });
    let kind = InterruptionKind::SpotInterrupted;
    rig.announce(&victim, kind, Some(secs(120))).await.unwrap();
    rig.pass(secs(1_800)).await;
    let calls = calls(&rig);
    assert!(calls.contains_key("pods"), "lanes take turns: {calls:?}");
    for call in ["status_document", "store_status_document"] {
        assert_eq!(calls.get(call), None, "{calls:?}");
    }
}
