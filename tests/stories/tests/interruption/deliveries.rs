//! Messages of the interrupt queue: malformed ones among valid ones, duplicates, in any order, hours late.

use fakes::Fault;
use model::{ClusterName, InterruptionKind, ledger::Mode};
use ports::metrics::Measured;
use stories::{Relay, Rig, all_gone, consistent, secs};

use crate::{
    claim_of, counts, deliver, event, instances, is_deleting, is_tainted, running, spot, state,
};

/// Number of ignored events, by cause.
fn ignored(rig: &Rig) -> Vec<(String, u64)> {
    rig.sim.with(|world| {
        let metrics = world.metrics.iter();
        let ignored = metrics.filter(|metric| metric.name == "whittle_interruptions_ignored_total");
        let counted = ignored.map(|metric| match metric.value {
            Measured::Count(count) => (metric.labels["why"].clone(), count),
            Measured::Duration(_) | Measured::Value(_) | Measured::PricePerHour(_) => {
                panic!("{metric:?}")
            }
        });
        counted.collect()
    })
}

#[tokio::test]
async fn spot_warning_taints_the_node_deletes_its_node_claim_and_wakes_both_lanes() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.take_wakes();
    rig.sim.with(|world| world.calls.clear());
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    rig.sim.with(|world| {
        assert!(is_tainted(world, &victim) && is_deleting(world, &victim));
        // Load balancers deregister the node because of the taint, before the first pod leaves.
        let mut nodes = world.api.nodes.values();
        let node = nodes.find(|node| node.provider_id.ends_with(victim.as_str()));
        let excluded = "node.kubernetes.io/exclude-from-external-load-balancers";
        assert!(node.unwrap().labels.contains_key(excluded));
        let at = |call: &str| world.calls.iter().position(|other| *other == call).unwrap();
        let order = [
            "owner",
            "record_unfenced",
            "node_claim",
            "mark_unavailable",
            "delete_node_claim",
        ];
        assert!(order.is_sorted_by_key(|call| at(call)), "{:?}", world.calls);
        let marked = world.ledger.unavailable.keys().next().unwrap();
        assert_eq!(marked.capacity_type, model::CapacityType::Spot);
    });
    let mut lanes: Vec<String> = rig
        .sim
        .take_wakes()
        .iter()
        .map(|wake| wake.lane.to_string())
        .collect();
    lanes.sort();
    assert_eq!(lanes, ["provisioner", "terminator"]);
    let reported = rig.sim.with(|world| {
        let mut reasons: Vec<String> = world
            .api
            .events
            .iter()
            .map(|event| event.reason.clone())
            .collect();
        reasons.retain(|reason| reason.contains("Interrupt"));
        reasons
    });
    assert_eq!(
        reported.len(),
        4,
        "on the NodeClaim and the Node: {reported:?}"
    );
}

#[tokio::test]
async fn malformed_message_fails_no_other_of_its_batch() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    let good = spot(&rig, &victim);
    let nameless = event(&rig, crate::SPOT, serde_json::json!({}));
    let bodies = [
        good[..40].to_owned(),
        good,
        "x".repeat(1 << 20),
        nameless,
        event(&rig, "EC2 Something New", serde_json::json!({})),
        state(&rig, &victim, "running"),
    ];
    let delivery = deliver(&mut rig, &bodies).await;
    let kept: Vec<&str> = delivery.kept.keys().map(String::as_str).collect();
    assert_eq!(
        kept,
        ["0", "2", "3"],
        "they reach the dead-letter queue in the end"
    );
    assert_eq!(
        counts(&delivery),
        [
            ("harmless", 1),
            ("spot_interrupted/recorded", 1),
            ("unknown", 1),
            ("unreadable", 3)
        ]
    );
    assert!(rig.sim.with(|world| is_deleting(world, &victim)));
}

#[tokio::test]
async fn irrelevant_events_are_counted_without_any_call() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    let of = |field: &str, value: &str| {
        let mut body: serde_json::Value = serde_json::from_str(&spot(&rig, &victim)).unwrap();
        body[field] = value.into();
        body.to_string()
    };
    let bodies = [
        of("account", "999999999999"),
        of("region", "eu-west-1"),
        of("version", "1"),
    ];
    rig.sim.with(|world| world.calls.clear());
    let delivery = deliver(&mut rig, &bodies).await;
    assert!(delivery.kept.is_empty());
    assert_eq!(counts(&delivery), [("elsewhere", 2), ("unknown", 1)]);
    assert_eq!(
        ignored(&rig),
        [("elsewhere".into(), 2), ("unknown".into(), 1)]
    );
    assert_eq!(
        rig.sim.with(|world| world.calls.clone()),
        Vec::<&str>::new()
    );
}

#[tokio::test]
async fn state_changes_of_unmanaged_instances_read_only_the_ledger() {
    let mut rig = running(Relay::Dead, 1).await;
    rig.sim.with(|world| world.calls.clear());
    let body = state(&rig, &"i-0abc".into(), "terminated");
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("instance_terminated/not-ours", 1)]);
    assert_eq!(ignored(&rig), [("not-ours".into(), 1)]);
    assert_eq!(rig.sim.with(|world| world.calls.clone()), ["owner"]);
}

#[tokio::test]
async fn ec2_describes_all_unmanaged_instances_of_a_batch_once_per_hour() {
    let mut rig = running(Relay::Dead, 1).await;
    let ids: Vec<model::InstanceId> = rig.sim.with(|world| {
        let instance = world.account.instances.values().next().unwrap().clone();
        let unmanaged_instances = (0..8).map(|number| {
            let mut unmanaged = instance.clone();
            unmanaged.id = format!("i-0{number}").into();
            unmanaged.tags.clear();
            unmanaged
        });
        let unmanaged_instances: Vec<_> = unmanaged_instances.collect();
        let ids = unmanaged_instances
            .iter()
            .map(|unmanaged| unmanaged.id.clone())
            .collect();
        world.account.instances.extend(
            unmanaged_instances
                .into_iter()
                .map(|instance| (instance.id.clone(), instance)),
        );
        world.calls.clear();
        ids
    });
    let bodies: Vec<String> = ids.iter().map(|id| spot(&rig, id)).collect();
    let described = |rig: &Rig| {
        rig.sim.with(|world| {
            let calls = world.calls.iter();
            calls.filter(|call| **call == "describe_instances").count()
        })
    };
    let delivery = deliver(&mut rig, &bodies).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/not-ours", 8)]);
    assert_eq!(described(&rig), 1);
    deliver(&mut rig, &bodies).await;
    assert_eq!(described(&rig), 1, "remembered");
}

#[tokio::test]
async fn throttled_ledger_write_keeps_the_message_and_prevents_the_action() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    let body = spot(&rig, &victim);
    for call in ["owner", "meta", "record_unfenced"] {
        rig.sim.fail_next(call, Fault::Throttled);
        let delivery = deliver(&mut rig, std::slice::from_ref(&body)).await;
        assert!(
            delivery.kept["0"].contains("throttles"),
            "{call}: {delivery:?}"
        );
        assert!(!rig.sim.with(|world| is_deleting(world, &victim)), "{call}");
    }
    let delivery = deliver(&mut rig, &[body]).await;
    assert!(delivery.kept.is_empty());
    assert!(rig.sim.with(|world| is_deleting(world, &victim)));
}

#[tokio::test]
async fn instance_of_an_unregistered_cluster_is_counted_and_left_alone() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.with(|world| {
        let owner = world.ledger.owners.get_mut(&victim).unwrap();
        owner.cluster = ClusterName::from("bygone");
    });
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert!(delivery.kept.is_empty());
    assert_eq!(counts(&delivery), [("spot_interrupted/unregistered", 1)]);
    assert_eq!(ignored(&rig), [("unregistered".into(), 1)]);
    assert!(!rig.sim.with(|world| is_deleting(world, &victim)));
}

#[tokio::test]
async fn shadow_mode_takes_no_action() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.with(|world| {
        let meta = world.ledger.of(&Rig::cluster()).meta.as_mut().unwrap();
        meta.mode = Mode::Shadow;
    });
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/shadow", 1)]);
    assert!(!rig.sim.with(|world| is_deleting(world, &victim)));
}

#[tokio::test]
async fn duplicate_messages_in_any_order_change_nothing() {
    let mut rig = running(Relay::Watching, 2).await;
    let victim = instances(&rig)[0].clone();
    let (spot, stopping) = (spot(&rig, &victim), state(&rig, &victim, "shutting-down"));
    let bodies = [
        stopping.clone(),
        spot.clone(),
        spot.clone(),
        stopping.clone(),
    ];
    let delivery = deliver(&mut rig, &bodies).await;
    assert!(delivery.kept.is_empty());
    let generation = |rig: &Rig| {
        rig.sim.with(|world| {
            world
                .ledger
                .of(&Rig::cluster())
                .meta
                .as_ref()
                .unwrap()
                .generation
        })
    };
    let before = generation(&rig);
    deliver(&mut rig, &bodies).await;
    assert_eq!(generation(&rig), before, "there is no new record");
    let gone = |world: &mut fakes::World| claim_of(world, &victim).is_none();
    assert!(
        rig.until(secs(200), gone).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.pass(secs(120)).await;
    let nodes = instances(&rig);
    // The queue delivers the messages again hours later.
    rig.pass(secs(3 * 3600)).await;
    rig.sim.with(|world| world.ledger.unavailable.clear());
    let delivery = deliver(&mut rig, &bodies).await;
    assert!(delivery.kept.is_empty());
    rig.pass(secs(60)).await;
    assert_eq!(
        instances(&rig),
        nodes,
        "the warning of a terminated instance changes nothing"
    );
    rig.sim.with(|world| {
        assert!(
            world.ledger.unavailable.is_empty(),
            "old notices are no evidence about capacity"
        );
        assert!(
            world
                .ledger
                .of(&Rig::cluster())
                .notices
                .values()
                .all(|notice| notice.done)
        );
        assert!(consistent(world));
    });
}

#[tokio::test]
async fn termination_event_of_a_terminated_instance_changes_nothing() {
    let mut rig = running(Relay::Watching, 1).await;
    let victim = instances(&rig)[0].clone();
    rig.scale(0);
    let ends = |world: &mut fakes::World| !world.account.instances[&victim].state.is_alive();
    assert!(rig.until(secs(300), ends).await.is_some());
    let body = state(&rig, &victim, "shutting-down");
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("instance_terminated/expected", 1)]);
    rig.sim
        .with(|world| assert!(world.ledger.of(&Rig::cluster()).notices.is_empty()));
    assert!(rig.until(secs(120), all_gone).await.is_some());
}

#[tokio::test]
async fn one_batch_carries_events_for_a_hundred_clusters() {
    let mut rig = running(Relay::Dead, 1).await;
    let victim = instances(&rig)[0].clone();
    let ids: Vec<model::InstanceId> = rig.sim.with(|world| {
        let registry = world.ledger.of(&Rig::cluster()).meta.clone().unwrap();
        (0..100)
            .map(|number| {
                let (cluster, id) = (
                    ClusterName(format!("team-{number}")),
                    format!("i-0{number}"),
                );
                world.ledger.of(&cluster).meta = Some(registry.clone());
                let mut owner = world.ledger.owners[&victim].clone();
                owner.cluster = cluster;
                world.ledger.owners.insert(id.as_str().into(), owner);
                id.into()
            })
            .collect()
    });
    // The ledger fails for one of the clusters.
    rig.sim.fail_next("record_unfenced", Fault::Throttled);
    let bodies: Vec<String> = ids.iter().map(|id| spot(&rig, id)).collect();
    let delivery = deliver(&mut rig, &bodies).await;
    assert_eq!(delivery.kept.len(), 1, "{:?}", delivery.kept);
    let recorded = rig.sim.with(|world| {
        let clusters = (0..100).map(|number| ClusterName(format!("team-{number}")));
        clusters
            .filter(|cluster| world.ledger.of(cluster).notices.len() == 1)
            .count()
    });
    assert_eq!(recorded, 99);
}

#[tokio::test]
async fn node_of_a_failed_instance_is_drained_without_grace() {
    let mut rig = running(Relay::Watching, 2).await;
    let victim = instances(&rig)[0].clone();
    let outcome = rig
        .announce(&victim, InterruptionKind::SystemStatus, None)
        .await;
    assert!(outcome.is_ok());
    rig.sim.with(|world| {
        let claim = claim_of(world, &victim).unwrap();
        assert!(claim.deleted_at.is_some());
        let at = claim.annotations["karpenter.sh/nodeclaim-termination-timestamp"]
            .parse::<jiff::Timestamp>();
        assert!(at.unwrap() <= world.now);
    });
}

#[tokio::test]
async fn sweep_finds_impaired_instances_of_all_clusters_with_one_request() {
    let mut rig = running(Relay::Watching, 2).await;
    let all = instances(&rig);
    rig.sim.with(|world| {
        world.account.troubles = [
            (all[0].clone(), InterruptionKind::InstanceStatus),
            ("i-0stranger".into(), InterruptionKind::EventStatus),
        ]
        .into();
        world.calls.clear();
    });
    let found = |world: &mut fakes::World| is_deleting(world, &all[0]);
    assert!(rig.until(secs(61), found).await.is_some());
    rig.sim.with(|world| {
        let polls = world.calls.iter().filter(|call| **call == "troubles");
        assert_eq!(polls.count(), 1);
        assert!(!is_deleting(world, &all[1]));
    });
    let gone = |world: &mut fakes::World| claim_of(world, &all[0]).is_none();
    let took = rig.until(secs(60), gone).await;
    assert!(
        took.is_some(),
        "the deletion does not wait: {:#?}",
        rig.transcript
    );
    let reported = rig.sim.with(|world| {
        let events = world.api.events.iter();
        events
            .filter(|event| event.reason == "InstanceUnhealthy")
            .count()
    });
    rig.pass(secs(120)).await;
    rig.sim.with(|world| {
        let events = world.api.events.iter();
        let again = events
            .filter(|event| event.reason == "InstanceUnhealthy")
            .count();
        assert_eq!(again, reported, "reported once");
    });
    // A poll that fails is repeated in the next minute.
    rig.sim.with(|world| {
        world.account.troubles = [(all[1].clone(), InterruptionKind::SystemStatus)].into()
    });
    rig.sim.fail_next("troubles", Fault::Throttled);
    let found = |world: &mut fakes::World| is_deleting(world, &all[1]);
    assert!(rig.until(secs(121), found).await.is_some());
}
