//! Lanes, and the reads and reports of a turn (docs/protocol.md#lanes, docs/protocol.md#observing).

use crate::{at, crash_after_first, run, with_pending_pods};
use fakes::Fault;
use model::ids::TurnId;
use model::ledger::{IntentState, LaneRow, Lease, Mode};
use model::{ClusterName, Lane, PodKey};
use stories::{Relay, Rig, all_bound, cpu, secs};
use turns::Outcome;

#[tokio::test]
async fn l1_held_lane_is_marked_for_repetition_and_wakes_itself() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.with(|world| {
        let lease = Lease {
            owner: "other".into(),
            until: at(world, 30),
        };
        world.ledger.of(&Rig::cluster()).lanes.insert(
            Lane::Provisioner,
            LaneRow {
                lease: Some(lease),
                ..LaneRow::default()
            },
        );
    });
    assert_eq!(
        run(&mut rig, Lane::Provisioner).await.outcome,
        Outcome::Held
    );
    rig.sim.with(|world| {
        assert!(world.ledger.of(&Rig::cluster()).lanes[&Lane::Provisioner].again);
        assert!(world.account.requests.is_empty());
    });
    rig.sim.advance(secs(31));
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(report.outcome, Outcome::Done);
    let wakes = rig.sim.take_wakes();
    assert!(
        wakes
            .iter()
            .any(|wake| wake.lane == Lane::Provisioner && wake.hints.is_empty()),
        "l2: {wakes:?}"
    );
}

#[tokio::test]
async fn failed_turn_is_recorded_with_its_cause_and_next_attempt() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("nodes", Fault::Unavailable);
    let report = run(&mut rig, Lane::Provisioner).await;
    assert!(
        matches!(&report.outcome, Outcome::Failed(error) if error.contains("did not answer nodes")),
        "{report:?}"
    );
    rig.sim.with(|world| {
        let row = world.ledger.of(&Rig::cluster()).lanes[&Lane::Provisioner].clone();
        assert_eq!((row.failures, row.lease.clone()), (1, None));
        assert!(row.due.is_some_and(|due| due > world.now));
    });
}

#[tokio::test]
async fn o1_the_generation_and_the_relay_are_read_before_the_ledger_and_the_lists() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.with(|world| world.calls.clear());
    run(&mut rig, Lane::Provisioner).await;
    let calls = rig.sim.with(|world| world.calls.clone());
    let first = |name: &str| calls.iter().position(|call| *call == name).unwrap();
    let beat = first("relay_beat");
    assert_eq!(calls[beat - 1], "meta");
    for row in ["intents", "commands", "notices"] {
        assert!(beat < first(row));
        for list in ["node_pools", "node_claims", "nodes", "pods"] {
            assert!(first(row) < first(list), "{calls:?}");
        }
    }
}

#[tokio::test]
async fn o2_intents_count_as_nodes_before_their_node_claims_exist() {
    let mut rig = with_pending_pods(2).await;
    // The turn crashes right after the commit: the pods are served by intents alone.
    let points = crash_after_first(&mut rig, "commit").await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        assert!(
            rows.intents
                .values()
                .all(|intent| intent.state == IntentState::Intended),
            "after {points} points"
        );
        assert!(!rows.intents.is_empty() && world.api.node_claims.is_empty());
        rows.lanes.remove(&Lane::Provisioner);
    });
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(
        report.committed, None,
        "o2: the same pods are not served twice: {report:?}"
    );
    rig.sim.with(|world| {
        assert!(
            world.api.node_claims.is_empty(),
            "a live lease is left alone"
        )
    });
}

#[tokio::test]
async fn unknown_cluster_and_invalid_entry_are_distinct_errors() {
    let rig = Rig::ready(Relay::Dead).await;
    let turn = TurnId::from("t");
    let unknown = turns::run(
        &rig.world,
        &"nowhere".into(),
        Lane::Provisioner,
        &turn,
        rig.deadline(Lane::Provisioner),
    )
    .await
    .unwrap();
    assert_eq!(unknown.outcome, Outcome::Unregistered);
    rig.sim.with(|world| {
        world.registry[0].body = Ok(serde_json::json!({"mode": "on"}));
        let spare = ports::registry::RegistryEntry {
            cluster: "broken".into(),
            body: Err("not JSON".into()),
        };
        world.registry.push(spare);
    });
    let report = turns::housekeep(&rig.world, &turn).await.unwrap();
    assert!(
        report
            .alarms
            .iter()
            .any(|alarm| alarm.contains("registry entry of broken: not JSON")),
        "{report:?}"
    );
    assert!(
        report
            .alarms
            .iter()
            .any(|alarm| alarm.contains("mode is \"on\"")),
        "{report:?}"
    );
}

/// Two active entries of one API server: the existing one keeps its role, regardless of the names.
#[tokio::test]
async fn cluster_with_two_registry_entries_is_acted_on_once() {
    let rig = Rig::ready(Relay::Dead).await;
    let turn = TurnId::from("t");
    let entry = |endpoint: &str| {
        Ok(serde_json::json!({"type": "endpoint", "endpoint": endpoint, "mode": "active"}))
    };
    let served = rig.sim.with(|world| {
        world.registry[0].body = entry("https://api.example.com");
        world.registry[0].cluster.clone()
    });
    turns::housekeep(&rig.world, &turn).await.unwrap();
    rig.sim.with(|world| {
        let duplicate = ports::registry::RegistryEntry {
            cluster: "a-twin".into(),
            body: entry("https://api.example.com/"),
        };
        world.registry.insert(0, duplicate);
    });
    for _ in 0..2 {
        let report = turns::housekeep(&rig.world, &turn).await.unwrap();
        let reported = format!(
            "registry entry of a-twin: its endpoint https://api.example.com is that of {served}, too: unregister one of them"
        );
        assert!(report.alarms.contains(&reported), "{report:?}");
        let mode = async |cluster: &ClusterName| {
            let meta = rig.world.ledger.meta(cluster).await.unwrap();
            meta.unwrap().mode
        };
        assert_eq!(mode(&served).await, Mode::Active);
        assert_eq!(mode(&"a-twin".into()).await, Mode::Shadow);
    }
}

#[tokio::test]
async fn unschedulable_pod_blocks_no_other() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.sim
        .with(|world| world.api.scale("huge", 1, cpu(10_000_000)));
    rig.pass(secs(90)).await;
    rig.sim.with(|world| {
        let web = world
            .api
            .pods
            .values()
            .find(|pod| pod.key.name.starts_with("web"))
            .unwrap();
        assert!(web.node_name.is_some());
        let huge: PodKey = world
            .api
            .pods
            .values()
            .find(|pod| pod.key.name.starts_with("huge"))
            .unwrap()
            .key
            .clone();
        let reported = world.api.events.iter().find(|event| {
            matches!(&event.about, ports::cluster::EventTarget::Pod(key, _) if *key == huge)
        });
        assert_eq!(reported.unwrap().reason, "FailedScheduling");
        assert_eq!(world.account.instances.len(), 1);
    });
}

#[tokio::test]
async fn l4_lanes_are_due_once_acting_becomes_allowed() {
    let hold_back: [fn(&Rig, bool); 2] = [
        |rig, held| {
            let mode = if held { "shadow" } else { "active" };
            rig.sim.with(|world| {
                for entry in &mut world.registry {
                    entry.body.as_mut().unwrap()["mode"] = mode.into();
                }
            });
        },
        |rig, held| {
            rig.sim.with(|world| {
                let lease = world.api.leader.as_mut().unwrap();
                lease.holder = if held {
                    "karpenter-6d5f".into()
                } else {
                    String::new()
                };
            });
        },
    ];
    for hold in hold_back {
        let mut rig = Rig::ready(Relay::Watching).await;
        hold(&rig, true);
        rig.pass(secs(90)).await;
        rig.scale(1);
        rig.pass(secs(90)).await;
        hold(&rig, false);
        // Two sweeps, and the registration of a node.
        let bound = rig.until(secs(180), all_bound).await;
        assert!(bound.is_some(), "{:#?}", rig.transcript);
    }
}

/// A relay would send a wake as well; without one, a provisioner that ran a moment too early would wait for its next full look.
#[tokio::test]
async fn l4_provisioner_is_due_once_the_ec2_node_class_is_ready() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.sim.with(|world| {
        let class = world.api.node_classes.get_mut("default").unwrap();
        class.status = None;
    });
    rig.scale(1);
    rig.sim.advance(secs(1));
    let looked = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(looked.launched.len(), 0, "{looked:?}");
    rig.sim.take_wakes();
    run(&mut rig, Lane::Lifecycle).await;
    let woken = rig.sim.take_wakes();
    assert!(
        woken.iter().any(|wake| wake.lane == Lane::Provisioner),
        "{woken:?}"
    );
    run(&mut rig, Lane::Lifecycle).await;
    let woken = rig.sim.take_wakes();
    assert!(
        woken.iter().all(|wake| wake.lane != Lane::Provisioner),
        "woken once: {woken:?}"
    );
}

/// No event reports that the scheduler leaves the pods unbound or has bound others to the node.
#[tokio::test]
async fn l5_nominated_pods_are_checked_until_they_are_bound() {
    let mut rig = with_pending_pods(1).await;
    assert!(rig.until(secs(120), all_bound).await.is_some());
    rig.pass(secs(60)).await;
    rig.relay = Relay::Dead;
    rig.sim.with(|world| {
        world.api.silent = world.api.nodes.keys().cloned().collect();
    });
    // A pod that has been pending for long, and then one that is new.
    for (agents, later, expected) in [(1, 1, 20), (1, 100, 100), (1, 1_000, 300), (2, 1, 20)] {
        let names = ["one", "another"];
        rig.sim.with(|world| {
            for name in names.iter().take(agents) {
                world.api.scale(name, 1, cpu(100));
            }
        });
        rig.sim.advance(secs(later));
        run(&mut rig, Lane::Provisioner).await;
        let until = rig.sim.with(|world| {
            assert_eq!(world.account.instances.len(), 1, "there is capacity");
            let due = world.ledger.of(&Rig::cluster()).lanes[&Lane::Provisioner].due;
            due.unwrap().duration_since(world.now).as_secs()
        });
        assert_eq!(until, expected, "after {later} s");
    }
}
