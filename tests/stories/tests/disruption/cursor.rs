//! Disruption evaluations that are limited in the number of simulations and resume at a cursor.

use fakes::World;
use model::{Lane, ledger::CommandState};
use serde_json::json;
use stories::{Relay, Rig, all_bound, consistent, cpu, secs};

use crate::{states, types, wait};

fn consolidate_after(world: &mut World, after: &str) {
    let pool = world.api.node_pools.get_mut("default").unwrap();
    pool.spec.disruption.consolidate_after = serde_json::from_value(json!(after)).unwrap();
}

/// Adds pods that fit only on nodes of one instance type.
fn pin(world: &mut World, name: &str, replicas: usize, millicores: i64, instance_type: &str) {
    world.api.scale(name, replicas, cpu(millicores));
    let deployment = world.api.deployments.get_mut(name).unwrap();
    let label = "node.kubernetes.io/instance-type".to_owned();
    deployment
        .node_selector
        .insert(label, instance_type.to_owned());
}

/// Two nodes without a cheaper replacement, and a third that ranks last by its savings per disruption and is four times as large as
/// it needs to be.
async fn three_nodes_with_one_oversized() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| {
        consolidate_after(world, "Never");
        pin(world, "stays", 2, 3_500, "m5.xlarge");
        pin(world, "goes", 4, 400, "m5.2xlarge");
    });
    wait(&mut rig, 300, all_bound).await;
    assert_eq!(types(&rig), ["m5.2xlarge", "m5.xlarge", "m5.xlarge"]);
    rig.pass(secs(90)).await;
    rig.sim.with(|world| {
        let deployments = &mut world.api.deployments;
        deployments.get_mut("goes").unwrap().node_selector.clear();
        for pod in world.api.pods.values_mut() {
            if pod.key.name.starts_with("goes") {
                pod.node_selector.clear();
            }
        }
    });
    rig
}

fn is_proposed(world: &mut World) -> bool {
    states(world) == [CommandState::Proposed]
}

fn has_cursor(world: &mut World) -> bool {
    let lanes = &world.ledger.of(&Rig::cluster()).lanes;
    lanes[&Lane::Disruption].cursor.is_some()
}

#[tokio::test]
async fn third_evaluation_consolidates_the_node_after_the_cursor() {
    let mut rig = three_nodes_with_one_oversized().await;
    rig.world.share.simulated = 1;
    rig.sim.with(|world| consolidate_after(world, "30s"));
    let took = rig.until(secs(900), is_proposed).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    assert_eq!(
        rig.unconsidered,
        [2, 1],
        "the next evaluations follow at once"
    );
    let smaller = |world: &mut World| {
        let kinds = world.account.alive();
        let large = kinds.filter(|instance| instance.instance_type == "m5.2xlarge");
        large.count() == 0 && all_bound(world) && consistent(world)
    };
    wait(&mut rig, 600, smaller).await;
    rig.pass(secs(120)).await;
    assert!(!rig.sim.with(has_cursor), "the cursor is reset");
    assert_eq!(rig.errors, Vec::<String>::new());
}

#[tokio::test]
async fn failed_evaluation_is_resumed_at_its_cursor() {
    let mut rig = three_nodes_with_one_oversized().await;
    rig.world.share.simulated = 1;
    rig.sim.with(|world| consolidate_after(world, "30s"));
    let took = rig.until(secs(900), has_cursor).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.sim.with(|world| world.down.insert("namespaces"));
    rig.pass(secs(30)).await;
    assert!(rig.sim.with(has_cursor), "failed turns keep the cursor");
    rig.sim.with(|world| world.down.clear());
    let took = rig.until(secs(900), is_proposed).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    assert_eq!(rig.unconsidered, [2, 1], "no candidate is evaluated twice");
}

/// With a `consolidateAfter` of zero, the Consolidatable condition does not change, so it cannot wake the lane.
#[tokio::test]
async fn nodes_emptied_with_zero_consolidate_after_do_not_wait_for_a_sweep() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| consolidate_after(world, "0s"));
    rig.scale(3);
    wait(&mut rig, 180, all_bound).await;
    rig.pass(secs(60)).await;
    rig.until_swept().await;
    rig.scale(0);
    let took = rig.until(secs(20), is_proposed).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}

/// Events of pods are written at least ten seconds apart.
#[tokio::test]
async fn node_emptied_soon_after_another_does_not_wait_for_a_sweep() {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim.with(|world| consolidate_after(world, "0s"));
    rig.scale(2);
    wait(&mut rig, 180, all_bound).await;
    rig.pass(secs(60)).await;
    rig.until_swept().await;
    rig.scale(1);
    rig.pass(secs(3)).await;
    rig.scale(0);
    let took = rig.until(secs(20), is_proposed).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
}
