//! The gate `PodDeletionCostManagement`: scaling a ReplicaSet in empties a node instead of removing pods from all of them.

use std::collections::BTreeSet;

use api::names::annotation::POD_DELETION_COST;
use fakes::{Fault, World};
use model::{
    NodeName,
    ledger::{PauseLevel, PauseScope},
};
use serde_json::json;
use stories::{Relay, Rig, all_bound, cpu, secs};

/// Four nodes of two pods each, which no other rule disrupts.
async fn in_service(gate: bool) -> Rig {
    in_service_after(gate, 0).await
}

/// Four nodes of two pods each; the API server does not answer the first `unanswered` writes to pods.
async fn in_service_after(gate: bool, unanswered: usize) -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.configure(&json!({ "featureGates": { "podDeletionCostManagement": gate } }));
    for _ in 0..unanswered {
        rig.sim.fail_next("annotate_pod", Fault::Unavailable);
    }
    rig.sim.with(|world| {
        world.catalog.retain(|kind| kind.name == "m5.large");
        world.api.scale("web", 8, cpu(800));
    });
    let took = rig.until(secs(300), all_bound).await;
    assert!(took.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(400)).await;
    rig
}

fn costs(world: &World) -> BTreeSet<Option<String>> {
    let pods = world.api.pods.values();
    pods.map(|pod| pod.annotations.get(POD_DELETION_COST).cloned())
        .collect()
}

fn used(world: &World) -> BTreeSet<NodeName> {
    let pods = world.api.pods.values();
    pods.filter_map(|pod| pod.node_name.clone()).collect()
}

#[tokio::test]
async fn deletion_costs_make_a_scale_in_empty_nodes() {
    let mut rig = in_service(true).await;
    let all = rig.sim.with(|world| used(world));
    assert_eq!(all.len(), 4);
    let costs = rig.sim.with(|world| costs(world));
    assert_eq!(costs.len(), 4, "a cost for each node: {costs:?}");
    // The pause prevents other moves of pods.
    rig.sim.with(|world| {
        let (scope, level) = (PauseScope::Cluster, PauseLevel::Voluntary);
        crate::pause(world, "ann", scope, level, secs(600));
        world.api.scale("web", 4, cpu(800));
    });
    rig.pass(secs(60)).await;
    let left = rig.sim.with(|world| used(world));
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn deletion_cost_pass_is_resumed_after_an_api_server_failure() {
    let mut rig = in_service_after(true, 20).await;
    let costs_then = rig.sim.with(|world| costs(world));
    assert_eq!(costs_then, [None].into(), "one write a minute is tried");
    rig.pass(secs(2_000)).await;
    assert_eq!(rig.sim.with(|world| costs(world)).len(), 4);
}

#[tokio::test]
async fn deletion_costs_are_removed_when_the_gate_is_closed() {
    let mut rig = in_service(true).await;
    rig.configure(&json!({ "featureGates": { "podDeletionCostManagement": false } }));
    rig.pass(secs(700)).await;
    assert_eq!(rig.sim.with(|world| costs(world)), [None].into());
}

#[tokio::test]
async fn pods_are_not_written_without_the_gate() {
    let rig = in_service(false).await;
    assert_eq!(rig.sim.with(|world| costs(world)), [None].into());
}
