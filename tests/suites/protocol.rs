//! The protocol, rule by rule, over whole turns. Rules that are single writes are in `fakes::laws`; those that are pure
//! functions are tested beside them.

mod rig;

use fakes::{Fault, Fuse, Tokens};
use jiff::Timestamp;
use model::{
    Lane, PodKey,
    ids::TurnId,
    ledger::{IntentState, LaneRow, Lease, Mode, PauseLevel},
    node_claim::NodeClaim,
};
use rig::{Relay, Rig, all_bound, consistent, secs, settled};
use turns::Outcome;

fn at(world: &fakes::World, seconds: i64) -> Timestamp {
    world.now + secs(seconds)
}

/// Runs one turn of a lane now, whatever wakes there are.
#[expect(
    clippy::unwrap_used,
    reason = "a turn that cannot be run has failed the test"
)]
async fn run(rig: &mut Rig, lane: Lane) -> turns::Report {
    let turn = rig.next_turn();
    turns::run(&rig.world, &Rig::cluster(), lane, &turn, rig.deadline(lane))
        .await
        .unwrap()
}

/// A cluster in which nobody but the test wakes anyone, with pods that wait.
async fn with_pending_pods(pods: usize) -> Rig {
    let rig = Rig::ready(Relay::Dead).await;
    rig.scale(pods);
    rig.sim.advance(secs(1));
    rig.sim.take_wakes();
    rig
}

#[tokio::test]
async fn l1_a_held_lane_is_told_to_look_again_and_wakes_itself() {
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
async fn a_failed_turn_is_recorded_with_its_cause_and_next_try() {
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
    // Dies right after the commit: the pods are served by intents alone.
    let points = points_until(&mut rig, "commit").await;
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

/// Runs a provisioner that dies right after its first call of this name took effect.
async fn points_until(rig: &mut Rig, call: &'static str) -> u64 {
    rig.sim.with(|world| {
        world.calls.clear();
        world.fuse_after = Some(call);
    });
    let turn = rig.next_turn();
    let died = turns::run(
        &rig.world,
        &Rig::cluster(),
        Lane::Provisioner,
        &turn,
        rig.deadline(Lane::Provisioner),
    )
    .await;
    assert!(died.is_err(), "{died:?}");
    rig.sim.with(|world| {
        let passed = world.fuse.passed();
        world.fuse = Fuse::default();
        passed
    })
}

#[tokio::test]
async fn c2_the_loser_of_a_race_keeps_what_others_did_not_serve() {
    for seed in 1..=150 {
        let mut rig = with_pending_pods(9).await;
        rig.sim.with(|world| world.interleaving = seed);
        let (one, two) = (rig.next_turn(), rig.next_turn());
        let cluster = Rig::cluster();
        let deadline = rig.deadline(Lane::Provisioner);
        let first = turns::run(&rig.world, &cluster, Lane::Provisioner, &one, deadline);
        let second = async {
            // The lane's lease is no fence: take it away, as a slow turn loses it.
            loop {
                let taken = rig.sim.with(|world| {
                    let row = world
                        .ledger
                        .of(&Rig::cluster())
                        .lanes
                        .entry(Lane::Provisioner)
                        .or_default();
                    row.lease.take().is_some()
                });
                if taken {
                    break;
                }
                tokio::task::yield_now().await;
            }
            turns::run(&rig.world, &cluster, Lane::Provisioner, &two, deadline).await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(
            first.is_ok() && second.is_ok(),
            "seed {seed}: {first:?} {second:?}"
        );
        rig.sim.with(|world| world.interleaving = 0);
        let done = rig
            .until(secs(600), |world| {
                all_bound(world) && consistent(world) && settled(world)
            })
            .await;
        assert!(done.is_some(), "seed {seed}: {:#?}", rig.transcript);
        let nodes = rig.sim.with(|world| world.account.instances.len());
        assert_eq!(
            nodes, 2,
            "seed {seed}: pods were served twice: {first:?} {second:?}"
        );
    }
}

#[tokio::test]
async fn c4_a_pause_between_commit_and_freeze_stops_the_launch() {
    let mut rig = with_pending_pods(1).await;
    points_until(&mut rig, "create_node_claim").await;
    rig.sim.with(|world| {
        let meta = world.ledger.of(&Rig::cluster()).meta.as_mut().unwrap();
        meta.mode = paused(PauseLevel::All);
    });
    rig.pass(secs(240)).await;
    rig.sim.with(|world| {
        assert!(world.account.requests.is_empty(), "c4");
        world.ledger.of(&Rig::cluster()).meta.as_mut().unwrap().mode = Mode::Active;
    });
    assert!(
        rig.until(secs(900), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn c4_what_a_user_deletes_ends_under_any_pause() {
    for mode in [paused(PauseLevel::Voluntary), paused(PauseLevel::All)] {
        let mut rig = with_pending_pods(1).await;
        assert!(rig.until(secs(300), all_bound).await.is_some());
        rig.sim.with(|world| {
            world.ledger.of(&Rig::cluster()).meta.as_mut().unwrap().mode = mode.clone();
            for claim in world.api.node_claims.values_mut() {
                claim.deleted_at = Some(world.now);
            }
        });
        let ended = rig
            .until(secs(600), |world| {
                let mut instances = world.account.instances.values();
                instances.all(|instance| !instance.state.is_alive())
            })
            .await;
        assert!(ended.is_some(), "c4: {mode:?} {:#?}", rig.transcript);
        rig.sim
            .with(|world| assert_eq!(world.account.requests.len(), 1, "c4: {mode:?}"));
    }
}

fn paused(level: PauseLevel) -> Mode {
    Mode::Paused {
        owner: "ops".into(),
        reason: "maintenance".into(),
        until: None,
        level,
    }
}

#[tokio::test]
async fn a2_the_request_is_frozen_before_it_is_sent() {
    let mut rig = with_pending_pods(9).await;
    rig.sim.with(|world| world.calls.clear());
    run(&mut rig, Lane::Provisioner).await;
    rig.sim.with(|world| {
        let first = |name: &str| world.calls.iter().position(|call| *call == name).unwrap();
        assert!(first("commit") < first("create_node_claim"));
        assert!(first("create_node_claim") < first("freeze"));
        assert!(first("freeze") < first("launch"));
        assert!(first("launch") < first("own"));
        assert!(first("own") < first("update_node_claim"));
        let request = world.account.requests[0].clone();
        let call = world.ledger.of(&Rig::cluster()).calls[&request.token].clone();
        assert_eq!(call.request, request, "a2: sent as frozen");
        assert_eq!(request.tags["whittle.sh/launch"], request.token.0);
    });
}

#[tokio::test]
async fn a2_identical_launches_share_a_call() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.scale(4);
    assert!(
        rig.until(secs(180), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        let sizes: Vec<u32> = world
            .account
            .requests
            .iter()
            .map(|request| request.target_capacity)
            .collect();
        assert_eq!(sizes, [4]);
    });
}

/// Subnets that calls asked for, in order, each once per call.
fn subnets_asked_for(world: &fakes::World) -> Vec<Vec<String>> {
    let subnets = |request: &model::launch::FleetRequest| {
        let overrides = request.templates.iter().flat_map(|t| &t.overrides);
        let mut subnets: Vec<String> = overrides.filter_map(|o| o.subnet.clone()).collect();
        subnets.sort();
        subnets.dedup();
        subnets
    };
    world.account.requests.iter().map(subnets).collect()
}

#[tokio::test]
async fn calls_of_one_turn_do_not_count_on_the_same_addresses() {
    let mut rig = with_pending_pods(2).await;
    // A pod for another zone needs a call of its own, in which both zones' subnets are chosen again.
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
        let mut pods = world.api.pods.values_mut();
        let second = pods.nth(1).unwrap();
        second
            .node_selector
            .insert("topology.kubernetes.io/zone".into(), "us-east-1a".into());
    });
    run(&mut rig, Lane::Provisioner).await;
    let mut asked = rig.sim.with(|world| subnets_asked_for(world));
    asked.sort();
    let of_a: Vec<_> = asked
        .iter()
        .flatten()
        .filter(|id| id.contains("east-1a"))
        .collect();
    assert_eq!(of_a.len(), 2, "{asked:?}");
    assert_ne!(
        of_a[0], of_a[1],
        "the second call knows what the first one takes"
    );
}

#[tokio::test]
async fn addresses_of_a_call_without_an_answer_count_as_taken() {
    let mut rig = with_pending_pods(1).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.sim.fail_next("launch", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    rig.scale(2);
    rig.sim.advance(secs(1));
    run(&mut rig, Lane::Provisioner).await;
    let asked = rig.sim.with(|world| subnets_asked_for(world));
    let [first, second] = asked.as_slice() else {
        panic!("{asked:?} {:#?}", rig.transcript)
    };
    assert!(
        first.iter().all(|subnet| !second.contains(subnet)),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_full_subnet_is_avoided_by_the_next_plan_and_its_zone_is_not() {
    let mut rig = with_pending_pods(1).await;
    // EC2 showed addresses that were gone when the launch came.
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
    });
    rig.sim.with(|world| {
        world.on_call = Some(("launch", |world| {
            for zone in ["us-east-1a", "us-east-1b"] {
                let subnet = format!("subnet-{zone}");
                world.account.free_addresses.insert(subnet, 0);
            }
        }));
    });
    run(&mut rig, Lane::Provisioner).await;
    rig.sim.with(|world| {
        let asked = subnets_asked_for(world);
        assert_eq!(asked.len(), 2, "planned again in the same turn: {asked:?}");
        assert_eq!(asked[1], ["subnet-us-east-1a-2", "subnet-us-east-1b-2"]);
        assert!(
            world.ledger.unavailable.is_empty(),
            "no zone lacks capacity"
        );
        let full: Vec<_> = world.ledger.full_subnets.keys().collect();
        assert_eq!(full, ["subnet-us-east-1a", "subnet-us-east-1b"]);
    });
}

#[tokio::test]
async fn a3_an_unanswered_call_is_left_alone_for_a_minute_then_looked_up() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("launch", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert_eq!(world.account.instances.len(), 1, "it did act"));
    let took = rig.until(secs(300), |world| {
        world
            .api
            .node_claims
            .values()
            .any(|claim| !claim.status.provider_id.is_empty())
    });
    assert!(took.await.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        assert_eq!(
            world.account.requests.len(),
            1,
            "a3: what the launch tag shows is not asked for again"
        );
    });
    assert!(rig.until(secs(300), all_bound).await.is_some());
}

#[tokio::test]
async fn a3_a_call_that_launched_nothing_is_repeated_as_frozen_after_a_minute() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("launch", Fault::Unavailable);
    run(&mut rig, Lane::Provisioner).await;
    let frozen = rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        rows.calls.values().next().unwrap().clone()
    });
    let sent = rig
        .until(secs(300), |world| !world.account.requests.is_empty())
        .await;
    assert!(sent.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        assert_eq!(
            world.account.requests,
            std::slice::from_ref(&frozen.request)
        );
        assert!(
            world.now.duration_since(frozen.frozen_at) >= secs(60),
            "a3: not before"
        );
    });
    assert!(rig.until(secs(300), all_bound).await.is_some());
}

/// Ends every lease before its time, as if its holder had never had one.
fn lapse(rig: &Rig) {
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        rows.calls.values_mut().for_each(|call| call.lease = None);
        rows.intents
            .values_mut()
            .for_each(|intent| intent.lease = None);
        rows.lanes.remove(&Lane::Provisioner);
    });
}

#[tokio::test]
async fn a3_whoever_takes_over_within_the_minute_sends_nothing() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("launch", Fault::Unavailable);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim.advance(secs(59));
    lapse(&rig);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert!(world.account.requests.is_empty(), "a3"));
    rig.sim.advance(secs(1));
    lapse(&rig);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert_eq!(world.account.requests.len(), 1, "a3"));
}

#[tokio::test]
async fn a3_the_freezer_sends_nothing_once_its_freeze_is_half_a_minute_old() {
    let mut rig = with_pending_pods(1).await;
    points_until(&mut rig, "freeze").await;
    let frozen = rig.sim.with(|world| {
        world
            .ledger
            .of(&Rig::cluster())
            .calls
            .values()
            .next()
            .unwrap()
            .clone()
    });
    rig.sim.advance(secs(31));
    let late = rig
        .world
        .cloud
        .launch(&frozen.request, frozen.frozen_at + secs(30))
        .await;
    assert!(late.is_err());
    rig.sim
        .with(|world| assert!(world.account.requests.is_empty()));
}

#[tokio::test]
async fn a3_a_dead_instance_ends_the_attempt_and_the_next_has_a_new_token() {
    let mut rig = with_pending_pods(1).await;
    points_until(&mut rig, "launch").await;
    rig.sim.with(|world| {
        let id = world.account.instances.keys().next().unwrap().clone();
        world.account.terminate(&id, world.now);
    });
    assert!(
        rig.until(secs(600), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        let tokens: Vec<_> = world
            .account
            .requests
            .iter()
            .map(|request| request.token.clone())
            .collect();
        assert_eq!(tokens.len(), 2);
        assert_ne!(tokens[0], tokens[1], "a3");
    });
    assert!(rig.sim.with(consistent));
}

#[tokio::test]
async fn a4_only_the_calls_own_answer_proves_a_partial_fill() {
    let mut rig = with_pending_pods(4).await;
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
        for zone in ["us-east-1a", "us-east-1b"] {
            let offering = (
                model::CapacityType::OnDemand,
                "m5.large".to_owned(),
                zone.to_owned(),
            );
            world
                .account
                .capacity
                .insert(offering, u32::from(zone == "us-east-1a") * 3);
        }
    });
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(
        (report.launched.len(), report.failed.len()),
        (3, 1),
        "{report:?}"
    );
    rig.sim.with(|world| world.account.capacity.clear());
    assert!(
        rig.until(secs(900), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(
        rig.until(secs(300), |world| consistent(world) && settled(world))
            .await
            .is_some()
    );
}

#[tokio::test]
async fn a5_what_was_launched_for_a_deleted_node_claim_is_terminated_before_it_goes() {
    let mut rig = with_pending_pods(1).await;
    points_until(&mut rig, "launch").await;
    let doomed: NodeClaim = rig.sim.with(|world| {
        world.api.scale("web", 0, rig::cpu(rig::POD));
        let claim = world.api.node_claims.values_mut().next().unwrap();
        claim.deleted_at = Some(world.now);
        claim.clone()
    });
    let gone = rig
        .until(secs(600), |world| {
            !world.api.node_claims.contains_key(&doomed.name)
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| {
        assert_eq!(
            world.account.alive().count(),
            0,
            "a5: first the instance, then the NodeClaim"
        )
    });
}

#[tokio::test]
async fn a6_pods_that_found_a_place_meanwhile_cause_no_launch() {
    let mut rig = with_pending_pods(1).await;
    // The pod is bound after the lists were read and before the commit.
    rig.sim.with(|world| {
        world.on_call = Some(("prepare", |world| {
            for pod in world.api.pods.values_mut() {
                pod.node_name = Some("elsewhere".into());
            }
        }));
    });
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(report.committed, None, "a6: {report:?}");
    rig.sim
        .with(|world| assert!(world.api.node_claims.is_empty()));
}

#[tokio::test]
async fn g1_g2_surplus_of_a_cloud_that_ignores_tokens_is_collected_after_two_looks() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.with(|world| {
        world.account.tokens = Tokens::Ignored;
        // The launch is not shown until long after the call was repeated.
        world.account.describe_lag = secs(150);
    });
    rig.sim.fail_next("launch", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    assert!(
        rig.until(secs(600), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.sim.with(|world| {
        assert_eq!(
            world.account.instances.len(),
            2,
            "the repetition launched again"
        )
    });
    let clean = rig
        .until(secs(900), |world| consistent(world) && settled(world))
        .await;
    assert!(clean.is_some(), "{:#?}", rig.transcript);
    assert!(rig.sim.with(all_bound), "the one that is used stays");
}

#[tokio::test]
async fn g1_instances_of_an_open_attempt_are_not_collected() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    // Enough nodes that one more is nothing to brake for.
    rig.scale(4);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(70)).await;
    rig.scale(5);
    rig.sim.advance(secs(1));
    points_until(&mut rig, "launch").await;
    for _ in 0..10 {
        rig.sim.advance(secs(60));
        let turn = rig.next_turn();
        turns::housekeep(&rig.world, &turn).await.unwrap();
        rig.sim.take_wakes();
    }
    rig.sim
        .with(|world| assert_eq!(world.account.alive().count(), 5, "g1"));
}

#[tokio::test]
async fn g3_many_unexplained_absences_terminate_nothing() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.scale(4);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(60)).await;
    rig.relay = Relay::Dead;
    rig.scale(0);
    rig.sim.with(|world| {
        world.api.deployments.clear();
        world.api.pods.clear();
        // Somebody removed the CRDs, or restored an old backup.
        world.api.node_claims.clear();
        world.api.nodes.clear();
        for instance in world.account.instances.values_mut() {
            instance.private_dns = None;
        }
    });
    rig.pass(secs(900)).await;
    rig.sim
        .with(|world| assert_eq!(world.account.alive().count(), 4, "g3"));
    assert!(
        rig.transcript.iter().any(
            |line| line.contains("4 of 4 instances") && line.contains("nothing was terminated")
        ),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn g4_a_stranger_is_looked_up_once_and_an_unknown_instance_stays_in_the_queue() {
    let mut rig = Rig::ready(Relay::Dead).await;
    let fact = |id: &str| turns::Interruption {
        instance: id.into(),
        kind: turns::InterruptionKind::SpotInterruption,
        deadline: None,
    };
    let turn = rig.next_turn();
    assert!(
        turns::interrupt(&rig.world, &fact("i-unknown"), &turn)
            .await
            .is_err(),
        "g4: absence proves nothing"
    );
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let stranger = rig.sim.with(|world| {
        let mut instance = world.account.instances.values().next().unwrap().clone();
        instance.id = "i-stranger".into();
        instance.tags.clear();
        world
            .account
            .instances
            .insert(instance.id.clone(), instance.clone());
        instance.id
    });
    let report = turns::interrupt(&rig.world, &fact(stranger.as_str()), &turn)
        .await
        .unwrap();
    assert_eq!(report, turns::InterruptionReport::NotOurs);
    rig.sim.with(|world| world.calls.clear());
    turns::interrupt(&rig.world, &fact(stranger.as_str()), &turn)
        .await
        .unwrap();
    rig.sim.with(|world| {
        assert!(
            !world.calls.contains(&"describe_instances"),
            "g4: remembered"
        )
    });
}

#[tokio::test]
async fn c3_a_notice_is_recorded_before_the_node_claim_is_deleted_and_obliges_the_terminator() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let id = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    let fact = turns::Interruption {
        instance: id,
        kind: turns::InterruptionKind::SpotInterruption,
        deadline: None,
    };
    // The API server is away: the fact is on record all the same.
    rig.sim.fail_next("delete_node_claim", Fault::Unavailable);
    let turn = rig.next_turn();
    let report = turns::interrupt(&rig.world, &fact, &turn).await.unwrap();
    assert_eq!(
        report,
        turns::InterruptionReport::Recorded {
            cluster: Rig::cluster()
        }
    );
    rig.sim.take_wakes();
    let deleting = rig
        .until(secs(120), |world| {
            world
                .api
                .node_claims
                .values()
                .any(|claim| claim.deleted_at.is_some())
        })
        .await;
    assert!(deleting.is_some(), "l4: {:#?}", rig.transcript);
}

#[tokio::test]
async fn d2_a_node_claim_that_changed_since_it_was_judged_is_not_deleted() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(30)).await;
    let target = rig.sim.with(|world| {
        let claim = world.api.node_claims.values().next().unwrap().clone();
        model::plan::Target {
            name: claim.name,
            uid: claim.uid,
            resource_version: "1".into(),
        }
    });
    let refused = ports::Cluster::delete_node_claim(&rig.sim, &target).await;
    assert!(matches!(refused, Err(ports::ClusterError::Conflict { .. })));
}

#[tokio::test]
async fn b1_without_the_leader_lease_nothing_is_committed() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.with(|world| {
        let lease = world.api.leader.as_mut().unwrap();
        lease.holder = "karpenter-6d5f".into();
    });
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(report.committed, None);
    assert!(
        report
            .stopped
            .is_some_and(|why| why.contains("karpenter-6d5f"))
    );
    rig.sim.with(|world| {
        assert!(world.account.requests.is_empty() && world.api.node_claims.is_empty())
    });
}

#[tokio::test]
async fn an_unknown_cluster_and_a_bad_entry_are_told_apart() {
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
    .unwrap_err();
    assert!(
        unknown
            .to_string()
            .contains("cluster nowhere is not registered"),
        "{unknown}"
    );
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

#[tokio::test]
async fn one_pod_that_nothing_fits_does_not_stop_the_others() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.sim
        .with(|world| world.api.scale("huge", 1, rig::cpu(10_000_000)));
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
        let said = world.api.events.iter().find(|event| {
            matches!(&event.about, ports::cluster::EventTarget::Pod(key, _) if *key == huge)
        });
        assert_eq!(said.unwrap().reason, "FailedScheduling");
        assert_eq!(world.account.instances.len(), 1);
    });
}
