//! Launching: freeze, resume, own (docs/protocol.md#launching).

use crate::{crash_after_first, run, with_pending_pods};
use fakes::Fault;
use model::node_claim::NodeClaim;
use model::{InterruptionKind, Lane, ledger::IntentState};
use stories::{POD, Relay, Rig, all_bound, consistent, cpu, secs, settled};

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

#[tokio::test]
async fn a3_unanswered_call_is_looked_up_after_a_minute() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("launch", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert_eq!(world.account.instances.len(), 1, "the call took effect"));
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
            "a3: an instance found by its launch tag is not launched again"
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

#[tokio::test]
async fn a3_launch_is_complete_when_its_node_claim_names_the_instance() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("update_node_claim", Fault::LostAnswer);
    run(&mut rig, Lane::Provisioner).await;
    expire_leases(&rig);
    rig.sim.with(|world| {
        let shown = world.api.node_claims.values();
        assert!(
            shown
                .into_iter()
                .all(|claim| !claim.status.provider_id.is_empty())
        );
        world.account.blind = true;
        let rows = world.ledger.of(&Rig::cluster());
        for call in rows.calls.values_mut() {
            call.frozen_at -= secs(600);
        }
    });
    run(&mut rig, Lane::Provisioner).await;
    rig.sim.with(|world| {
        world.account.blind = false;
        let rows = world.ledger.of(&Rig::cluster());
        let states: Vec<_> = rows.intents.values().map(|intent| &intent.state).collect();
        assert!(
            matches!(states.as_slice(), [IntentState::Launched { .. }]),
            "{states:?}"
        );
        assert_eq!(world.api.node_claims.len(), 1, "the instance has an owner");
    });
    assert!(rig.until(secs(300), all_bound).await.is_some());
}

/// Expires every lease early, as if it had never had a holder.
fn expire_leases(rig: &Rig) {
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
async fn a3_turn_that_takes_over_within_the_minute_sends_nothing() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.fail_next("launch", Fault::Unavailable);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim.advance(secs(59));
    expire_leases(&rig);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert!(world.account.requests.is_empty(), "a3"));
    rig.sim.advance(secs(1));
    expire_leases(&rig);
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert_eq!(world.account.requests.len(), 1, "a3"));
}

#[tokio::test]
async fn a3_the_freezer_sends_nothing_once_its_freeze_is_half_a_minute_old() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "freeze").await;
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
async fn a3_next_attempt_does_not_wait_for_an_unsent_request() {
    let mut rig = with_pending_pods(1).await;
    rig.sim.with(|world| {
        world.on_call = Some(("launch", |world| world.now += secs(31)));
    });
    run(&mut rig, Lane::Provisioner).await;
    rig.sim
        .with(|world| assert!(world.account.requests.is_empty(), "a3"));
    // The minute in which a sent request may be in flight does not apply.
    expire_leases(&rig);
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(report.launched.len(), 1, "{report:#?}");
}

#[tokio::test]
async fn a3_terminated_instance_ends_the_attempt_and_the_next_has_a_new_token() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "launch").await;
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
async fn a5_instance_of_a_deleted_node_claim_is_terminated_before_its_release() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "launch").await;
    let deleted: NodeClaim = rig.sim.with(|world| {
        world.api.scale("web", 0, cpu(POD));
        let claim = world.api.node_claims.values_mut().next().unwrap();
        claim.deleted_at = Some(world.now);
        claim.clone()
    });
    let gone = rig
        .until(secs(600), |world| {
            !world.api.node_claims.contains_key(&deleted.name)
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
async fn a5_launch_ends_when_its_missing_instance_cannot_be_terminated() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "own").await;
    let deleted = rig.sim.with(|world| {
        world.account.instances.clear();
        let name = world.api.node_claims.keys().next().unwrap().clone();
        world.api.request_deletion(&name, world.now);
        name
    });
    (0..1_000).for_each(|_| rig.sim.fail_next("terminate", Fault::Denied));
    let gone = rig
        .until(secs(300), |world| {
            !world.api.node_claims.contains_key(&deleted)
        })
        .await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn a6_pods_bound_before_the_commit_cause_no_launch() {
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
async fn a5_launch_of_a_deleted_node_claim_serves_no_pods() {
    for died_after in ["create_node_claim", "launch"] {
        let mut rig = with_pending_pods(1).await;
        crash_after_first(&mut rig, died_after).await;
        rig.sim.with(|world| {
            let name = world.api.node_claims.keys().next().unwrap().clone();
            world.api.request_deletion(&name, world.now);
        });
        // The lease of the crashed turn expires.
        rig.sim.advance(secs(90));
        let report = run(&mut rig, Lane::Provisioner).await;
        assert_eq!(
            report.launched.len(),
            1,
            "after {died_after} the pod waits for another node: {report:#?}"
        );
    }
}

#[tokio::test]
async fn a5_turn_that_ends_a_launch_plans_its_pods() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "launch").await;
    rig.sim.with(|world| {
        world.api.node_claims.clear();
        world.account.describe_lag = secs(3_600);
    });
    rig.sim.advance(secs(90));
    let report = run(&mut rig, Lane::Provisioner).await;
    assert_eq!(report.launched.len(), 1, "{report:#?}");
}

#[tokio::test]
async fn a5_deletion_ends_an_unfinished_launch_in_any_order_of_turns() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "freeze").await;
    let name = rig.sim.with(|world| {
        let name = world.api.node_claims.keys().next().unwrap().clone();
        world.api.request_deletion(&name, world.now);
        world.account.describe_lag = secs(3_600);
        name
    });
    rig.sim.advance(secs(90));
    // A provisioner is due when leases expire, and would resume the launch each time.
    run(&mut rig, Lane::Provisioner).await;
    run(&mut rig, Lane::Terminator).await;
    rig.sim.with(|world| {
        let rows = world.ledger.of(&Rig::cluster());
        let intent = rows.intents.get(&name);
        assert!(
            intent.is_none_or(|intent| !intent.is_in_flight()),
            "{intent:?}"
        );
    });
}

#[tokio::test]
async fn a4_notice_waits_for_the_launch_that_may_own_its_instance() {
    let mut rig = with_pending_pods(1).await;
    crash_after_first(&mut rig, "launch").await;
    let victim = rig.sim.with(|world| {
        let mut instances = world.account.instances.keys();
        instances.next().unwrap().clone()
    });
    let kind = InterruptionKind::SpotInterrupted;
    let outcome = rig.announce(&victim, kind, Some(secs(600))).await;
    assert!(outcome.is_ok());
    // No row says yet which NodeClaim the instance belongs to.
    run(&mut rig, Lane::Terminator).await;
    // The lease of the crashed turn expires.
    rig.sim.advance(secs(90));
    run(&mut rig, Lane::Provisioner).await;
    run(&mut rig, Lane::Terminator).await;
    rig.sim.with(|world| {
        let mut claims = world.api.node_claims.values();
        let claim = claims.find(|claim| claim.status.provider_id.ends_with(victim.as_str()));
        let claim = claim.unwrap();
        assert!(claim.deleted_at.is_some(), "{claim:#?}");
    });
}
