//! Faults around nodes: a defined outcome for each, and no leaked resource.

use fakes::Fault;
use stories::{Relay, Rig, all_bound, consistent, secs, settled, transcript};

use crate::{change_node, claim, delete_claim, is_gone, node, serving};

#[tokio::test]
async fn foreign_finalizer_keeps_only_the_node_object() {
    let mut rig = serving(1).await;
    let old = claim(&rig);
    let name = node(&rig);
    change_node(&rig, &name, |node| {
        node.finalizers.push("foo.example/gone".into())
    });
    delete_claim(&rig, &old.name);
    let gone = rig.until(secs(600), is_gone(&old)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    rig.sim
        .with(|world| assert_eq!(world.api.nodes[&name].finalizers, ["foo.example/gone"]));
    assert!(rig.until(secs(300), all_bound).await.is_some());
    transcript!(rig);
}

#[tokio::test]
async fn two_nodes_of_one_instance_prevent_registration() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    rig.until(secs(60), |world| world.account.alive().count() == 1)
        .await
        .unwrap();
    let first = claim(&rig);
    // Two Nodes have the provider id of this instance before either is registered.
    rig.sim.with(|world| {
        world.crash_point = fakes::CrashPoint::at(1);
    });
    rig.sim.advance(secs(40));
    rig.sim.with(|world| {
        world.crash_point = fakes::CrashPoint::default();
        let mut duplicate = world.api.nodes.values().next().unwrap().clone();
        duplicate.name = "renamed".into();
        duplicate.uid = "renamed-uid".into();
        world.api.nodes.insert(duplicate.name.clone(), duplicate);
    });
    let reported = rig
        .until(secs(120), |world| {
            world.api.node_claims.values().any(|claim| {
                claim
                    .condition("Registered")
                    .is_some_and(|condition| condition.reason == "MultipleNodesFound")
            })
        })
        .await;
    assert!(reported.is_some(), "{:#?}", rig.transcript);
    let gone = rig.until(secs(1_500), is_gone(&first)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    transcript!(rig);
}

#[tokio::test]
async fn webhook_that_rejects_patches_delays_registration_and_loses_nothing() {
    let mut rig = Rig::ready(Relay::Watching).await;
    for _ in 0..40 {
        rig.sim.fail_next("update_node", Fault::Denied);
    }
    rig.scale(1);
    rig.pass(secs(90)).await;
    assert!(
        rig.transcript.iter().any(|line| line.contains("denied")),
        "the rejection is reported: {:#?}",
        rig.transcript
    );
    assert!(
        rig.until(secs(900), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
    assert_eq!(rig.sim.with(|world| world.account.instances.len()), 1);
    transcript!(rig);
}

#[tokio::test]
async fn write_conflicts_end_in_the_same_cluster() {
    let mut rig = Rig::ready(Relay::Watching).await;
    for call in [
        "update_node_claim",
        "update_node",
        "update_node_pool_status",
    ] {
        for _ in 0..30 {
            rig.sim.fail_next(call, Fault::Conflict);
        }
    }
    rig.scale(4);
    assert!(
        rig.until(secs(900), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    rig.pass(secs(300)).await;
    assert!(rig.sim.with(consistent) && rig.sim.with(settled));
    transcript!(rig);
}

#[tokio::test]
async fn five_minutes_of_clock_skew_delete_no_node() {
    for ahead in [secs(300), secs(-300)] {
        let mut rig = Rig::ready(Relay::Watching).await;
        rig.sim.with(|world| world.api.clock_ahead = ahead);
        rig.scale(3);
        let bound = rig.until(secs(240), all_bound).await;
        assert!(bound.is_some(), "{ahead:?} {:#?}", rig.transcript);
        let launched = rig.sim.with(|world| world.account.instances.len());
        rig.pass(secs(1_200)).await;
        assert_eq!(
            rig.sim.with(|world| world.account.instances.len()),
            launched,
            "{ahead:?}: none was given up {:#?}",
            rig.transcript
        );
        assert!(rig.sim.with(consistent) && rig.sim.with(settled));
        transcript!(rig, format!("{}s", ahead.as_secs()));
    }
}

#[tokio::test]
async fn throttled_evictions_are_retried() {
    let mut rig = serving(4).await;
    let claims: Vec<_> = rig
        .sim
        .with(|world| world.api.node_claims.keys().cloned().collect());
    for name in &claims {
        delete_claim(&rig, name);
    }
    rig.pass(secs(8)).await;
    for _ in 0..3 {
        rig.sim.fail_next("evict", Fault::Throttled);
    }
    assert!(
        rig.until(secs(900), |world| all_bound(world) && consistent(world))
            .await
            .is_some(),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}
