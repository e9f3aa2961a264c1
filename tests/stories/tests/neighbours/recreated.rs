//! A cluster that was deleted and made anew under its name: its API server counts versions from the beginning, and nothing that is
//! remembered of the former one holds.

use fakes::ApiServer;

use super::*;

/// Makes a new cluster with the same NodePools, without a node; its versions are lower than what was seen before.
fn make_anew(rig: &Rig, kind: &str) {
    make_anew_as(rig, kind, "second");
}

fn make_anew_as(rig: &Rig, kind: &str, uid: &str) {
    rig.sim.with(|world| {
        let former = std::mem::take(&mut world.api);
        world.api = ApiServer::of(uid.into());
        world.api.node_classes = former.node_classes;
        world.api.node_pools = former.node_pools;
        world.api.status = former.status;
        world.account.instances.values_mut().for_each(|instance| {
            // Their kubelets find no API server any more.
            instance.private_dns = None;
        });
        world.registry[0] = entry("demo", kind, "https://127.0.0.1");
    });
}

#[tokio::test]
async fn cluster_made_anew_is_served_and_what_the_former_left_is_ended() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    make_anew(&rig, "eks");
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
async fn what_the_former_left_is_ended_although_lists_lacked_it_for_a_while() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    make_anew(&rig, "eks");
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
async fn what_both_clusters_of_a_name_left_that_was_made_anew_twice_is_ended() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    make_anew_as(&rig, "eks", "second");
    rig.pass(secs(70)).await;
    make_anew_as(&rig, "eks", "third");
    let ended = rig
        .until(secs(1_800), |world| {
            let alive = alive(world);
            before.iter().all(|id| !alive.contains(id))
        })
        .await;
    assert!(ended.is_some(), "{:#?}", rig.transcript);
}

/// Elsewhere than in EKS the former cluster may live on under another endpoint.
#[tokio::test]
async fn what_a_cluster_elsewhere_left_is_named_and_never_ended() {
    let mut rig = serving(4).await;
    let before = rig.sim.with(alive);
    make_anew(&rig, "endpoint");
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
async fn lanes_do_not_act_in_a_cluster_that_the_sweep_has_not_seen() {
    let mut rig = serving(1).await;
    let before = rig.sim.with(|world| world.account.requests.len());
    make_anew(&rig, "eks");
    rig.scale(3);
    // Less than a minute: no sweep has come by.
    rig.pass(secs(20)).await;
    let after = rig.sim.with(|world| world.account.requests.len());
    assert_eq!(after, before, "{:#?}", rig.transcript);
}
