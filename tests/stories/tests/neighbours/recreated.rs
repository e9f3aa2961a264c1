//! A cluster that was deleted and recreated under its name: its API server counts resource versions from the beginning, and nothing
//! remembered of its predecessor applies.

use fakes::ApiServer;

use super::*;

/// Creates a new cluster with the same NodePools and without nodes; its resource versions are lower than those seen before.
fn recreate(rig: &Rig, kind: &str) {
    recreate_with_uid(rig, kind, "second");
}

fn recreate_with_uid(rig: &Rig, kind: &str, uid: &str) {
    rig.sim.with(|world| {
        let former = std::mem::take(&mut world.api);
        world.api = ApiServer::of(uid.into());
        world.api.node_classes = former.node_classes;
        world.api.node_pools = former.node_pools;
        world.api.status = former.status;
        world.account.instances.values_mut().for_each(|instance| {
            // The kubelets of the predecessor have no API server any more.
            instance.private_dns = None;
        });
        world.registry[0] = entry("demo", kind, "https://127.0.0.1");
    });
}

#[tokio::test]
async fn recreated_cluster_is_served_and_instances_of_its_predecessor_are_terminated() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    recreate(&rig, "eks");
    rig.scale(3);
    let bound = rig.until(secs(600), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    assert!(holder(&rig).ends_with("/demo/second"), "{}", holder(&rig));
    let ended = rig
        .until(secs(900), |world| {
            let alive = alive(world);
            before.iter().all(|id| !alive.contains(id))
        })
        .await;
    assert!(ended.is_some(), "{:#?}", rig.transcript);
    assert!(rig.sim.with(all_bound));
}

#[tokio::test]
async fn instances_of_a_predecessor_are_terminated_after_missing_in_lists() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    recreate(&rig, "eks");
    rig.sim
        .with(|world| world.account.unlisted.extend(before.iter().cloned()));
    rig.pass(secs(900)).await;
    rig.sim.with(|world| world.account.unlisted.clear());
    let ended = rig
        .until(secs(900), |world| {
            let alive = alive(world);
            before.iter().all(|id| !alive.contains(id))
        })
        .await;
    assert!(ended.is_some(), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn instances_of_both_predecessors_are_terminated() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    recreate_with_uid(&rig, "eks", "second");
    rig.pass(secs(70)).await;
    recreate_with_uid(&rig, "eks", "third");
    let ended = rig
        .until(secs(1_800), |world| {
            let alive = alive(world);
            before.iter().all(|id| !alive.contains(id))
        })
        .await;
    assert!(ended.is_some(), "{:#?}", rig.transcript);
}

/// Outside of EKS the predecessor may still run under another endpoint.
#[tokio::test]
async fn instances_of_a_cluster_outside_eks_are_reported_and_never_terminated() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    recreate(&rig, "endpoint");
    rig.scale(3);
    let bound = rig.until(secs(600), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(3_600)).await;
    let after = rig.sim.with(alive);
    assert!(before.iter().all(|id| after.contains(id)));
    let named = |line: &String| {
        line.contains("that its registry entry led to before") && line.contains(before[0].as_str())
    };
    assert!(rig.transcript.iter().any(named), "{:#?}", rig.transcript);
}

#[tokio::test]
async fn lanes_do_not_act_in_a_recreated_cluster_before_the_sweep() {
    let mut rig = serving(1).await;
    let before = rig.sim.with(|world| world.account.requests.len());
    recreate(&rig, "eks");
    rig.scale(3);
    // No sweep runs within these seconds.
    rig.pass(secs(20)).await;
    let after = rig.sim.with(|world| world.account.requests.len());
    assert_eq!(after, before, "{:#?}", rig.transcript);
}
