//! NodePools with a fixed number of nodes (docs/spec/lifecycle.md#static-capacity).

use stories::{Relay, Rig, consistent, secs, settled, transcript};

use crate::{claim, delete_claim, is_gone};

/// A cluster whose only NodePool is to have so many nodes, and no more than `limit` at any time.
pub(crate) async fn with(replicas: i64, limit: i64, gate: bool) -> Rig {
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
async fn a_static_node_pool_has_its_nodes_without_any_pod() {
    let mut rig = with(3, 10, true).await;
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
async fn a_node_that_goes_is_made_good() {
    let mut rig = with(2, 10, true).await;
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
async fn its_limit_counts_nodes_that_are_leaving() {
    let mut rig = with(5, 3, true).await;
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
async fn without_the_gate_it_has_none() {
    let rig = with(3, 10, false).await;
    assert!(rig.sim.with(nodes(0)), "{:#?}", rig.transcript);
    transcript!(rig);
}
