//! Pods of a batch that is still gathering: full nodes are launched for them, and everything else waits for the end of the batch.

use std::collections::BTreeMap;

use fakes::World;
use model::{
    Batch, Lane, Wake,
    ledger::{LaneRow, Lease, Mode},
};
use serde_json::json;
use stories::Rig;
use turns::{Outcome, Report};

use crate::{at, run, with_pending_pods};

/// Five pods fill an m5.2xlarge, the cheapest node per pod.
const PODS: usize = 13;

/// Runs the turn for a wake of a relay that still gathers pods.
#[expect(
    clippy::unwrap_used,
    reason = "a turn that cannot be run has failed the test"
)]
async fn run_early(rig: &mut Rig) -> Report {
    let mut wake = Wake::new(Rig::cluster(), Lane::Provisioner, "pods-unschedulable");
    wake.batch = Batch::Open;
    let turn = rig.next_turn();
    let deadline = rig.deadline(Lane::Provisioner);
    turns::woken(&rig.world, &wake, &turn, deadline)
        .await
        .unwrap()
}

/// Number of instances by instance type.
fn launched(rig: &Rig) -> BTreeMap<String, usize> {
    rig.sim.with(|world| {
        let mut types = BTreeMap::new();
        for instance in world.account.instances.values() {
            *types.entry(instance.instance_type.clone()).or_default() += 1;
        }
        types
    })
}

#[tokio::test]
async fn full_nodes_are_launched_at_once_and_the_rest_equals_one_batch() {
    let mut at_once = with_pending_pods(PODS).await;
    run(&mut at_once, Lane::Provisioner).await;
    let mut rig = with_pending_pods(PODS).await;
    run_early(&mut rig).await;
    assert_eq!(launched(&rig), BTreeMap::from([("m5.2xlarge".into(), 2)]));
    run(&mut rig, Lane::Provisioner).await;
    assert_eq!(launched(&rig), launched(&at_once));
}

#[tokio::test]
async fn partly_filled_nodes_wait_for_the_end_of_the_batch() {
    let mut rig = with_pending_pods(4).await;
    let report = run_early(&mut rig).await;
    assert_eq!(report.outcome, Outcome::Done);
    assert_eq!(launched(&rig), BTreeMap::new());
    run(&mut rig, Lane::Provisioner).await;
    assert_ne!(launched(&rig), BTreeMap::new());
}

#[tokio::test]
async fn early_turn_does_not_request_a_repeat_from_the_lease_holder() {
    let mut rig = with_pending_pods(PODS).await;
    rig.sim.with(|world| {
        let lease = Lease {
            owner: "other".into(),
            until: at(world, 30),
        };
        let row = LaneRow {
            lease: Some(lease),
            ..LaneRow::default()
        };
        let lanes = &mut world.ledger.of(&Rig::cluster()).lanes;
        lanes.insert(Lane::Provisioner, row);
    });
    assert_eq!(run_early(&mut rig).await.outcome, Outcome::Held);
    let row = rig
        .sim
        .with(|world| world.ledger.of(&Rig::cluster()).lanes[&Lane::Provisioner].clone());
    assert!(!row.again, "the batch would end early");
}

#[tokio::test]
async fn full_look_stays_due_after_an_early_turn() {
    let mut rig = with_pending_pods(1).await;
    let row = |rig: &Rig| {
        let lanes = |world: &mut World| world.ledger.of(&Rig::cluster()).lanes.clone();
        rig.sim.with(lanes).remove(&Lane::Provisioner)
    };
    let due = rig.sim.with(|world| {
        let due = at(world, 20);
        let lanes = &mut world.ledger.of(&Rig::cluster()).lanes;
        lanes.entry(Lane::Provisioner).or_default().due = Some(due);
        due
    });
    let before = row(&rig);
    let report = run_early(&mut rig).await;
    assert_eq!(report.due, Some(due));
    let looks = |row: &LaneRow| (row.due, row.last_full_look, row.seen.clone());
    assert_eq!(row(&rig).as_ref().map(looks), before.as_ref().map(looks));
}

#[tokio::test]
async fn nothing_is_launched_early_with_approvals_or_in_shadow_mode() {
    let mut rig = with_pending_pods(PODS).await;
    rig.configure(&json!({"guards": {"approveAbove": {"nodes": 100}}}));
    run_early(&mut rig).await;
    assert_eq!(launched(&rig), BTreeMap::new());

    let mut rig = with_pending_pods(PODS).await;
    rig.sim.with(|world| {
        let meta = world.ledger.of(&Rig::cluster()).meta.as_mut();
        if let Some(meta) = meta {
            meta.mode = Mode::Shadow;
        }
    });
    run_early(&mut rig).await;
    assert_eq!(launched(&rig), BTreeMap::new());
}
