//! Two sets of functions over one ledger: those of the public reach, and those within a VPC (docs/design.md#reach).
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use model::{InstanceId, InterruptionKind, Lane, launch::Instance};
use stories::{Relay, Rig, all_bound, secs};
use turns::{InterruptionReport, Outcome, SweepReport, World};

const REACH: &str = "vpc:vpc-1";

/// A cluster that can be reached only from within a VPC, in which no functions run yet.
async fn behind_a_vpc() -> Rig {
    let rig = Rig::ready(Relay::Dead).await;
    rig.sim.with(|world| {
        let entry = serde_json::json!({
            "type": "endpoint", "endpoint": "https://10.0.0.1", "mode": "active", "reach": REACH,
        });
        for registered in &mut world.registry {
            registered.body = Ok(entry.clone());
        }
    });
    rig
}

/// The functions within the VPC, over the same ledger.
fn within(rig: &Rig) -> World {
    World {
        reach: REACH.to_owned(),
        ..rig.world.clone()
    }
}

async fn sweep(rig: &mut Rig, world: &World) -> SweepReport {
    let turn = rig.next_turn();
    turns::housekeep(world, &turn).await.unwrap()
}

fn one_instance(rig: &Rig) -> InstanceId {
    let first = |instance: &Instance| instance.id.clone();
    rig.sim
        .with(|world| world.account.alive().next().map(first).unwrap())
}

#[tokio::test]
async fn each_housekeeper_wakes_the_clusters_of_its_reach() {
    let mut rig = behind_a_vpc().await;
    let (outside, inside) = (rig.world.clone(), within(&rig));
    rig.sim.advance(secs(60));
    let report = sweep(&mut rig, &outside).await;
    assert_eq!(report.woken, [""; 0]);
    assert_eq!(report.alarms, [""; 0], "the lanes had a turn a minute ago");
    let report = sweep(&mut rig, &inside).await;
    assert!(!report.woken.is_empty(), "{report:?}");
}

#[tokio::test]
async fn cluster_of_an_unserved_reach_is_reported() {
    let mut rig = behind_a_vpc().await;
    let outside = rig.world.clone();
    // The cluster's lanes are due from now on, and no housekeeper serves them.
    sweep(&mut rig, &outside).await;
    rig.sim.advance(secs(20 * 60));
    let report = sweep(&mut rig, &outside).await;
    let [alarm] = report.alarms.as_slice() else {
        panic!("{report:?}")
    };
    for part in ["demo", REACH, "VpcLaneId", "infra/vpc-lane.yaml"] {
        assert!(alarm.contains(part), "{alarm}");
    }
}

#[tokio::test]
async fn prices_and_the_registry_are_read_outside_vpcs_only() {
    let mut rig = behind_a_vpc().await;
    let inside = within(&rig);
    let asked = |rig: &Rig| rig.sim.with(|world| world.looked_up.len());
    let before = asked(&rig);
    rig.sim.advance(secs(60));
    // The ledger still has the cluster as public, because only the other housekeeper reads the registry.
    let report = sweep(&mut rig, &inside).await;
    assert_eq!(report.woken, [""; 0]);
    assert_eq!(asked(&rig), before);
}

#[tokio::test]
async fn wake_for_a_cluster_of_another_reach_is_consumed_with_a_warning() {
    let mut rig = behind_a_vpc().await;
    let outside = rig.world.clone();
    sweep(&mut rig, &outside).await;
    let (turn, deadline) = (rig.next_turn(), rig.deadline(Lane::Provisioner));
    let lanes = |rig: &Rig| {
        let rows = |world: &mut fakes::World| world.ledger.of(&Rig::cluster()).lanes.clone();
        rig.sim.with(rows)
    };
    let before = lanes(&rig);
    let report = turns::run(
        &outside,
        &Rig::cluster(),
        Lane::Provisioner,
        &turn,
        deadline,
    )
    .await
    .unwrap();
    let Outcome::Elsewhere(why) = &report.outcome else {
        panic!("{report:?}")
    };
    assert!(why.contains("queues of its own reach"));
    assert!(lanes(&rig) == before, "no lease is taken");
}

#[tokio::test]
async fn notice_is_recorded_in_any_reach_and_acted_on_within_its_own() {
    let mut rig = behind_a_vpc().await;
    let (outside, inside) = (rig.world.clone(), within(&rig));
    sweep(&mut rig, &outside).await;
    rig.world = inside.clone();
    rig.scale(1);
    assert!(rig.until(secs(300), all_bound).await.is_some());
    let instance = one_instance(&rig);
    let deadline = Some(secs(120));

    rig.world = outside;
    let kind = InterruptionKind::SpotInterrupted;
    let answer = rig.announce(&instance, kind, deadline).await.unwrap();
    assert!(matches!(answer, InterruptionReport::Elsewhere { .. }));
    let ends = |world: &mut fakes::World| {
        let mut claims = world.api.node_claims.values();
        claims.any(|claim| claim.deleted_at.is_some())
    };
    let notices = rig
        .sim
        .with(|world| world.ledger.of(&Rig::cluster()).notices.len());
    assert_eq!(notices, 1);
    assert!(
        !rig.sim.with(ends),
        "functions outside the VPC cannot reach the API server"
    );

    rig.world = inside;
    let answer = rig.announce(&instance, kind, deadline).await.unwrap();
    assert!(matches!(answer, InterruptionReport::Recorded { .. }));
    assert!(rig.sim.with(ends));
}
