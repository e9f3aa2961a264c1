//! Deletions of hundreds of nodes, which exceed a single transaction of the ledger.

use std::collections::BTreeSet;

use fakes::TableFaults;
use stories::secs;

use crate::{
    count,
    static_capacity::{nodes, scale, with_replicas},
};

#[tokio::test]
async fn static_pool_shrinks_by_130_nodes_at_once() {
    let mut rig = with_replicas(150, 200, true).await;
    assert!(rig.sim.with(nodes(150)), "{:?}", rig.warnings);
    scale(&rig, 20);
    let shrunk = rig.until(secs(1_800), nodes(20)).await;
    assert!(shrunk.is_some(), "{:?} {:?}", rig.errors, rig.warnings);
    assert!(rig.errors.is_empty(), "{:?}", rig.errors);
}

#[tokio::test]
async fn claims_that_time_out_together_are_all_deleted() {
    let mut rig = with_replicas(0, 150, true).await;
    rig.sim.with(|world| world.api.closed = true);
    scale(&rig, 120);
    let launched = |world: &mut fakes::World| {
        let claims = world.api.node_claims.values();
        claims.filter(|claim| claim.is_true("Launched")).count() == 120
    };
    let took = rig.until(secs(600), launched).await;
    assert!(took.is_some(), "{:?} {:?}", rig.errors, rig.warnings);
    let late: BTreeSet<_> = rig
        .sim
        .with(|world| world.api.node_claims.keys().cloned().collect());
    let ended = |world: &mut fakes::World| {
        let claims = &world.api.node_claims;
        let mut late = late.iter().filter_map(|name| claims.get(name));
        late.all(|claim| claim.deleted_at.is_some())
    };
    let took = rig.until(secs(1_200), ended).await;
    assert!(took.is_some(), "{:?} {:?}", rig.errors, rig.warnings);
    // The pool launches no others, and the first are cleaned up.
    scale(&rig, 0);
    rig.sim.with(|world| world.calls.clear());
    let gone = |world: &mut fakes::World| {
        let claims = &world.api.node_claims;
        let mut alive = world.account.alive();
        alive.next().is_none() && !late.iter().any(|name| claims.contains_key(name))
    };
    let took = rig.until(secs(600), gone).await;
    assert!(took.is_some(), "{:?} {:?}", rig.errors, rig.warnings);
    for call in ["nodes", "terminate"] {
        let calls = count(&rig, call);
        assert!(calls < 100, "{call}: {calls}");
    }
}

#[tokio::test]
async fn deletions_above_the_partition_throughput_wait_and_none_fails() {
    let mut rig = stories::fleet(600).await;
    let begun = rig.transcript.len();
    rig.sim.with(|world| {
        world.ledger.table().set_faults(TableFaults {
            throttles: true,
            ..TableFaults::default()
        });
    });
    stories::wants_no_nodes(&rig);
    let ended = |world: &mut fakes::World| {
        let mut claims = world.api.node_claims.values();
        claims.all(|claim| claim.deleted_at.is_some())
    };
    let took = rig.until(secs(300), ended).await;
    assert!(took.is_some(), "{:?} {:?}", rig.errors, rig.warnings);
    let is_throttled = |line: &&String| line.contains("throttles");
    let reported: Vec<_> = rig.transcript[begun..]
        .iter()
        .filter(is_throttled)
        .collect();
    assert!(reported.is_empty(), "{reported:#?}");
    assert!(rig.errors.is_empty(), "{:?}", rig.errors);
    let counts = rig.sim.with(|world| world.ledger.table().counts());
    assert!(counts.pauses > 0, "{counts:?}: the limit was never met");
}
