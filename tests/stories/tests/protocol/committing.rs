//! Committing, and what prevents it (docs/protocol.md#leading, docs/protocol.md#committing, docs/protocol.md#disrupting).

use crate::{crash_after_first, run, with_pending_pods};
use fakes::Fault;
use model::{
    InterruptionKind, Lane,
    ledger::{Pause, PauseLevel, PauseScope},
};
use stories::{Relay, Rig, all_bound, consistent, secs, settled};

#[tokio::test]
async fn c2_concurrent_turns_serve_each_pod_once() {
    for seed in 1..=150 {
        let mut rig = with_pending_pods(9).await;
        rig.sim.with(|world| world.interleaving = seed);
        let (one, two) = (rig.next_turn(), rig.next_turn());
        let cluster = Rig::cluster();
        let deadline = rig.deadline(Lane::Provisioner);
        let first = turns::run(&rig.world, &cluster, Lane::Provisioner, &one, deadline);
        let second = async {
            // The lane's lease is no fence: it is removed here, as if a slow turn had lost it.
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
    crash_after_first(&mut rig, "create_node_claim").await;
    rig.sim.with(|world| {
        world.ledger.of(&Rig::cluster()).pauses = vec![paused(PauseLevel::All)];
    });
    rig.pass(secs(240)).await;
    rig.sim.with(|world| {
        assert!(world.account.requests.is_empty(), "c4");
        world.ledger.of(&Rig::cluster()).pauses.clear();
    });
    assert!(
        rig.until(secs(900), all_bound).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn c4_user_deletion_is_carried_out_under_any_pause() {
    for level in [PauseLevel::Voluntary, PauseLevel::All] {
        let mut rig = with_pending_pods(1).await;
        assert!(rig.until(secs(300), all_bound).await.is_some());
        rig.sim.with(|world| {
            world.ledger.of(&Rig::cluster()).pauses = vec![paused(level)];
            for claim in world.api.node_claims.values_mut() {
                claim.deleted_at = Some(world.now);
            }
        });
        let ended = rig
            .until(secs(600), |world| {
                let first = world.account.instances.values().next();
                first.is_some_and(|instance| !instance.state.is_alive())
            })
            .await;
        assert!(ended.is_some(), "c4: {level:?} {:#?}", rig.transcript);
        let launches = rig.sim.with(|world| world.account.requests.len());
        let replaced = level == PauseLevel::Voluntary;
        assert_eq!(launches, 1 + usize::from(replaced), "c4: {level:?}");
    }
}

fn paused(level: PauseLevel) -> Pause {
    Pause {
        scope: PauseScope::Cluster,
        owner: "ops".into(),
        level,
        reason: "maintenance".into(),
        since: jiff::Timestamp::UNIX_EPOCH,
        until: jiff::Timestamp::MAX,
    }
}

#[tokio::test]
async fn c3_notice_is_recorded_before_the_deletion_and_carried_out_by_the_terminator() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let id = rig
        .sim
        .with(|world| world.account.alive().next().unwrap().id.clone());
    // The API server fails; the fact is recorded nevertheless.
    rig.sim.fail_next("delete_node_claim", Fault::Unavailable);
    let kind = model::InterruptionKind::SpotInterrupted;
    let report = rig.announce(&id, kind, Some(secs(120))).await;
    assert_eq!(
        report.unwrap(),
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
async fn d2_node_claim_changed_after_its_evaluation_is_not_deleted() {
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
async fn b1_without_the_leader_lease_no_notice_is_acted_on_and_no_launch_is_ended() {
    let mut rig = Rig::ready(Relay::Dead).await;
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let instance = rig.sim.with(|world| {
        let lease = world.api.leader.as_mut().unwrap();
        lease.holder = "karpenter-6d5f".into();
        world.account.instances.keys().next().unwrap().clone()
    });
    let recorded = rig
        .announce(
            &instance,
            InterruptionKind::SpotInterrupted,
            Some(secs(120)),
        )
        .await;
    assert!(recorded.is_ok(), "the fact cannot be read again");
    let report = run(&mut rig, Lane::Terminator).await;
    assert!(
        report
            .stopped
            .is_some_and(|why| why.contains("karpenter-6d5f"))
    );
    assert!(
        report.due.is_some(),
        "the notice is acted on as soon as Whittle leads again"
    );
    rig.sim.with(|world| {
        assert!(
            world
                .api
                .node_claims
                .values()
                .all(|claim| claim.deleted_at.is_none())
        );
        assert_eq!(world.account.alive().count(), 1);
        // A deleted NodeClaim whose launch no turn waits for.
        for claim in world.api.node_claims.values_mut() {
            claim.status.provider_id.clear();
        }
        let names: Vec<_> = world.api.node_claims.keys().cloned().collect();
        let now = world.now;
        names
            .iter()
            .for_each(|name| world.api.request_deletion(name, now));
    });
    run(&mut rig, Lane::Terminator).await;
    rig.sim
        .with(|world| assert_eq!(world.account.alive().count(), 1, "b1"));
}
