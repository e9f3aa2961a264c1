//! What comes in by the queue: garbage among good messages, the same twice, in any order, hours late.

use fakes::Fault;
use model::{ClusterName, InterruptionKind, ledger::Mode};
use ports::metrics::Measured;
use stories::{Relay, Rig, all_gone, consistent, secs};

use crate::{
    claim_of, counts, deliver, event, instances, is_deleting, is_tainted, running, spot, state,
};

/// What was counted of events that end no node, by why.
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
async fn a_warning_taints_the_node_deletes_its_node_claim_and_wakes_both_lanes_at_once() {
    let mut rig = running(Relay::Dead, 2).await;
    let victim = instances(&rig)[0].clone();
    rig.sim.take_wakes();
    rig.sim.with(|world| world.calls.clear());
    let body = spot(&rig, &victim);
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("spot_interrupted/recorded", 1)]);
    rig.sim.with(|world| {
        assert!(is_tainted(world, &victim) && is_deleting(world, &victim));
        // Load balancers let go of it with the taint, before the first pod leaves.
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
    let told = rig.sim.with(|world| {
        let mut reasons: Vec<String> = world
            .api
            .events
            .iter()
            .map(|event| event.reason.clone())
            .collect();
        reasons.retain(|reason| reason.contains("Interrupt"));
        reasons
    });
    assert_eq!(told.len(), 4, "on the NodeClaim and the Node: {told:?}");
}

#[tokio::test]
async fn a_poisoned_message_spoils_none_of_the_others() {
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
async fn what_is_not_for_us_is_counted_and_nobody_is_asked() {
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
async fn state_changes_of_strangers_are_answered_by_the_ledger_alone() {
    let mut rig = running(Relay::Dead, 1).await;
    rig.sim.with(|world| world.calls.clear());
    let body = state(&rig, &"i-0abc".into(), "terminated");
    let delivery = deliver(&mut rig, &[body]).await;
    assert_eq!(counts(&delivery), [("instance_terminated/not-ours", 1)]);
    assert_eq!(ignored(&rig), [("not-ours".into(), 1)]);
    assert_eq!(rig.sim.with(|world| world.calls.clone()), ["owner"]);
}

#[tokio::test]
async fn ec2_is_asked_once_for_all_strangers_of_a_delivery_and_not_again_within_the_hour() {
    let mut rig = running(Relay::Dead, 1).await;
    let ids: Vec<model::InstanceId> = rig.sim.with(|world| {
        let one = world.account.instances.values().next().unwrap().clone();
        let strangers = (0..8).map(|number| {
            let mut stranger = one.clone();
            stranger.id = format!("i-0{number}").into();
            stranger.tags.clear();
            stranger
        });
        let strangers: Vec<_> = strangers.collect();
        let ids = strangers
            .iter()
            .map(|stranger| stranger.id.clone())
            .collect();
        world
            .account
            .instances
            .extend(strangers.into_iter().map(|one| (one.id.clone(), one)));
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
async fn a_throttled_ledger_keeps_the_message_and_nothing_is_done_without_the_fact() {
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
async fn an_instance_of_a_cluster_that_was_unregistered_is_counted_and_left() {
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
async fn in_shadow_nothing_is_done() {
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
async fn doubles_in_any_order_change_nothing() {
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
    assert_eq!(generation(&rig), before, "nothing new is on record");
    let gone = |world: &mut fakes::World| claim_of(world, &victim).is_none();
    assert!(
        rig.until(secs(200), gone).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.pass(secs(120)).await;
    let nodes = instances(&rig);
    // Hours later the queue finds them again.
    rig.pass(secs(3 * 3600)).await;
    rig.sim.with(|world| world.ledger.unavailable.clear());
    let delivery = deliver(&mut rig, &bodies).await;
    assert!(delivery.kept.is_empty());
    rig.pass(secs(60)).await;
    assert_eq!(
        instances(&rig),
        nodes,
        "a dead instance's warning ends nothing"
    );
    rig.sim.with(|world| {
        assert!(
            world.ledger.unavailable.is_empty(),
            "what is old says nothing about capacity"
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
async fn the_end_of_an_instance_that_we_ended_ourselves_is_nothing_new() {
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
async fn events_for_a_hundred_clusters_come_in_one_delivery() {
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
    // One of them has no ledger to write to.
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
async fn a_failed_machine_is_not_waited_for() {
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
async fn the_sweep_finds_instances_in_trouble_for_all_clusters_with_one_look() {
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
        "nothing is waited for: {:#?}",
        rig.transcript
    );
    let told = rig.sim.with(|world| {
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
        assert_eq!(again, told, "said once, however often it is found");
    });
    // What polling cannot do this minute, it does in the next.
    rig.sim.with(|world| {
        world.account.troubles = [(all[1].clone(), InterruptionKind::SystemStatus)].into()
    });
    rig.sim.fail_next("troubles", Fault::Throttled);
    let found = |world: &mut fakes::World| is_deleting(world, &all[1]);
    assert!(rig.until(secs(121), found).await.is_some());
}
