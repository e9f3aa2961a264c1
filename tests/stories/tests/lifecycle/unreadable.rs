//! An unreadable row of one launch or instance blocks no other. A newer version of the functions may have written it.

use fakes::{CorruptedRow, World};
use model::{InstanceId, InterruptionKind, launch::InstanceState, node_claim::NodeClaim};
use stories::{Rig, add_stray, secs};

use crate::{
    by_hand::apply,
    change_claim, claim, delete_claim,
    deleted_clusters::{HOUR, alive, delete_cluster},
    is_gone,
    refusals::{claims, instance},
    serving, serving_apart,
};

const CLUSTER: &str = "CLUSTER#demo";

fn spoil(rig: &Rig, partition: &str, row: &str) -> CorruptedRow {
    rig.sim.with(|world| world.ledger.spoil(partition, row))
}

fn spoil_owner(rig: &Rig, instance: &InstanceId) -> CorruptedRow {
    spoil(rig, &format!("INSTANCE#{instance}"), "OWNER")
}

/// Removes the instance from the status of a NodeClaim, so that its launch is resolved again.
fn forget_instance(rig: &Rig, claim: &NodeClaim) {
    change_claim(rig, &claim.name, |claim| claim.status.provider_id.clear());
}

/// A newer version of the functions may have written the row.
#[tokio::test]
async fn unreadable_row_blocks_no_collection_and_is_deleted_once_readable() {
    let mut rig = serving_apart(20).await;
    let gone = claim(&rig);
    delete_claim(&rig, &gone.name);
    assert!(rig.until(secs(300), is_gone(&gone)).await.is_some());
    let is_of_gone = |world: &World| {
        let keys = world.ledger.table().keys().into_iter();
        keys.filter(|key| key.sk.ends_with(gone.name.as_str()))
            .count()
    };
    assert!(rig.sim.look(is_of_gone) >= 2, "the rows still exist");
    let spoilt = spoil(&rig, CLUSTER, &format!("CLAIM#{}", gone.name));
    let stray = rig.sim.with(add_stray);
    let is_ended = |world: &mut World| !world.account.instances[&stray].state.is_alive();
    let ended = rig.until(secs(900), is_ended).await;
    assert!(ended.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| world.ledger.mend(&spoilt));
    let forgotten = rig.until(secs(900), |world| is_of_gone(world) == 0).await;
    assert!(forgotten.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn unreadable_launch_blocks_no_other_termination() {
    let mut rig = serving_apart(2).await;
    let [broken, other] = &claims(&rig)[..] else {
        panic!("{:#?}", rig.transcript)
    };
    let spoilt = spoil(&rig, CLUSTER, &format!("INTENT#{}", broken.name));
    rig.sim.with(|world| {
        let own = world.account.instances.get_mut(&instance(broken)).unwrap();
        own.state = InstanceState::Terminated;
    });
    forget_instance(&rig, broken);
    delete_claim(&rig, &broken.name);
    delete_claim(&rig, &other.name);
    let gone = rig.until(secs(300), is_gone(other)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| world.ledger.mend(&spoilt));
    let gone = rig.until(secs(300), is_gone(broken)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn interrupted_instance_with_unreadable_owner_blocks_no_drain() {
    let mut rig = serving_apart(2).await;
    let [broken, other] = &claims(&rig)[..] else {
        panic!("{:#?}", rig.transcript)
    };
    let spot = InterruptionKind::SpotInterrupted;
    rig.sim.with(|world| world.api.closed = true);
    rig.announce(&instance(broken), spot, Some(secs(3_600)))
        .await
        .unwrap();
    spoil_owner(&rig, &instance(broken));
    forget_instance(&rig, broken);
    rig.sim.with(|world| world.api.closed = false);
    delete_claim(&rig, &other.name);
    let gone = rig.until(secs(300), is_gone(other)).await;
    assert!(gone.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn instance_with_unreadable_owner_blocks_no_manual_launch() {
    let mut rig = serving(1).await;
    let stray = rig.sim.with(add_stray);
    spoil_owner(&rig, &stray);
    apply(&rig, "by-hand", |_| {});
    let launched = |world: &mut World| world.api.nodes.len() == 2;
    assert!(
        rig.until(secs(120), launched).await.is_some(),
        "{:#?}",
        rig.transcript
    );
}

#[tokio::test]
async fn instance_with_unreadable_owner_keeps_no_other_of_a_deleted_cluster() {
    let mut rig = serving_apart(3).await;
    let kept = instance(&claim(&rig));
    spoil_owner(&rig, &kept);
    delete_cluster(&rig, true);
    rig.pass(secs(25 * HOUR)).await;
    assert_eq!(alive(&rig), 1);
    let turn = rig.next_turn();
    let report = turns::housekeep(&rig.world, &turn).await.unwrap();
    let reported = |line: &String| line.contains(kept.as_str()) && line.contains("cannot be read");
    assert!(report.problems.iter().any(reported), "{report:?}");
}
