//! Reads of a turn before it decides (docs/protocol.md#o1): everything that can matter, without the list of all pods where that
//! cannot matter.

use model::Lane;
use stories::{Relay, Rig, all_bound, secs};

use crate::run;

/// Whether one turn of this lane lists all pods.
async fn lists_all_pods(rig: &mut Rig, lane: Lane) -> bool {
    rig.sim.with(|world| world.calls.clear());
    run(rig, lane).await;
    rig.sim.with(|world| world.calls.contains(&"pods"))
}

/// A cluster whose pods all run on nodes that stay.
async fn at_rest() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(600), all_bound).await.is_some());
    rig.pass(secs(120)).await;
    rig
}

#[tokio::test]
async fn no_lane_lists_all_pods_of_an_idle_cluster() {
    let mut rig = at_rest().await;
    for lane in [Lane::Provisioner, Lane::Terminator] {
        assert!(!lists_all_pods(&mut rig, lane).await, "{lane:?}");
    }
}

#[tokio::test]
async fn pending_pod_is_planned_with_all_pods_listed() {
    let mut rig = at_rest().await;
    rig.scale(30);
    rig.sim.advance(secs(1));
    assert!(lists_all_pods(&mut rig, Lane::Provisioner).await);
    assert!(!lists_all_pods(&mut rig, Lane::Terminator).await);
}

#[tokio::test]
async fn pods_of_a_terminating_node_are_listed_without_pending_pods() {
    let mut rig = at_rest().await;
    rig.sim.with(|world| {
        let now = world.now;
        for claim in world.api.node_claims.values_mut() {
            claim.deleted_at = Some(now);
        }
    });
    for lane in [Lane::Provisioner, Lane::Terminator] {
        assert!(lists_all_pods(&mut rig, lane).await, "{lane:?}");
    }
}

/// A turn woken by a NodeClass that became ready may read its NodePool as it was before.
#[tokio::test]
async fn provisioner_is_woken_again_once_the_node_pool_is_ready_too() {
    let mut rig = Rig::new(Relay::Dead);
    let turn = rig.next_turn();
    Box::pin(turns::housekeep(&rig.world, &turn)).await.unwrap();
    rig.sim.take_wakes();
    run(&mut rig, Lane::Lifecycle).await;
    let reasons: Vec<String> = rig.sim.with(|world| {
        let wakes = world.wakes.iter().map(|(_, wake)| wake);
        let own = wakes.filter(|wake| wake.lane == Lane::Provisioner);
        own.map(|wake| wake.reason.clone()).collect()
    });
    assert_eq!(reasons, ["nodepool-ready"]);
}
