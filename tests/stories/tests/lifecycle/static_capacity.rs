//! Static NodePools (docs/spec/lifecycle.md#static-capacity).

use stories::{Relay, Rig, consistent, secs, settled, transcript};

use crate::{claim, delete_claim, is_gone};

/// A cluster whose only NodePool has `replicas` nodes and at most `limit` at any time.
pub(crate) async fn with_replicas(replicas: i64, limit: i64, gate: bool) -> Rig {
    let mut rig = Rig::new(Relay::Watching);
    rig.sim.with(|world| {
        let entry = world.registry[0].body.as_mut().unwrap();
        entry["settings"] = serde_json::json!({"featureGates": {"StaticCapacity": gate}});
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.limits =
            serde_json::from_value(serde_json::json!({"nodes": limit.to_string()})).unwrap();
    });
    scale(&rig, replicas);
    rig.pass(secs(400)).await;
    rig
}

pub(crate) fn scale(rig: &Rig, replicas: i64) {
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.spec.replicas = Some(replicas);
    });
}

pub(crate) fn nodes(count: usize) -> impl Fn(&mut fakes::World) -> bool {
    move |world| world.account.alive().count() == count && consistent(world)
}

#[tokio::test]
async fn static_node_pool_has_its_nodes_without_pods() {
    let mut rig = with_replicas(3, 10, true).await;
    assert!(rig.sim.with(nodes(3)), "{:#?}", rig.transcript);
    rig.pass(secs(900)).await;
    assert!(
        rig.sim.with(nodes(3)),
        "empty nodes stay: {:#?}",
        rig.transcript
    );
    scale(&rig, 5);
    assert!(
        rig.until(secs(900), nodes(5)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    scale(&rig, 2);
    assert!(
        rig.until(secs(1_200), nodes(2)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    scale(&rig, 0);
    assert!(
        rig.until(secs(1_200), nodes(0)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    assert!(rig.sim.with(settled));
    transcript!(rig);
}

#[tokio::test]
async fn removed_node_of_a_static_node_pool_is_replaced() {
    let mut rig = with_replicas(2, 10, true).await;
    assert!(rig.sim.with(nodes(2)), "{:#?}", rig.transcript);
    let old = claim(&rig);
    delete_claim(&rig, &old.name);
    assert!(rig.until(secs(600), is_gone(&old)).await.is_some());
    assert!(
        rig.until(secs(600), nodes(2)).await.is_some(),
        "{:#?}",
        rig.transcript
    );
    transcript!(rig);
}

#[tokio::test]
async fn static_node_pool_limit_counts_terminating_nodes() {
    let mut rig = with_replicas(5, 3, true).await;
    assert!(rig.sim.with(nodes(3)), "{:#?}", rig.transcript);
    let old = claim(&rig);
    delete_claim(&rig, &old.name);
    for _ in 0..600 {
        rig.pass(secs(1)).await;
        assert!(rig.sim.with(|world| world.api.node_claims.len() <= 3));
    }
    assert!(rig.sim.with(nodes(3)), "{:#?}", rig.transcript);
    transcript!(rig);
}

#[tokio::test]
async fn static_node_pool_has_no_nodes_without_the_gate() {
    let rig = with_replicas(3, 10, false).await;
    assert!(rig.sim.with(nodes(0)), "{:#?}", rig.transcript);
    transcript!(rig);
}
