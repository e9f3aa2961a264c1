//! Crash sweep of node lifecycles: a process crashes at any port call, before or after the call took effect. The next process
//! reaches the state of a run without a crash, and no instance is launched twice. `tests/crash.rs` sweeps scaling up and down.
//!
//! A port call has a crash point before and one after it. Odd strides hit both kinds and keep the sweep within a few seconds.

use std::future::Future;

use fakes::{CrashPoint, World};
use model::{launch::InstanceState, ledger::Absence, node::ConditionStatus};
use stories::{Rig, add_stray, all_bound, consistent, secs, settled};

use crate::{
    by_hand, change_claim, change_pods, claim, delete_claim, deleted_clusters, node, registration,
    serving, serving_apart, static_capacity, termination,
};

/// Seconds that cover timeouts, garbage collection and the sweep.
const PATIENCE: i64 = 20 * 60;

/// End state of a cluster, without names that differ between runs.
#[derive(Debug, PartialEq, Eq)]
struct End {
    launched: usize,
    alive: usize,
    claims: usize,
    nodes: usize,
    bound: usize,
    /// Number of intents and claims in the ledger.
    rows: (usize, usize),
}

fn end(world: &mut World) -> End {
    let bound = world.api.pods.values();
    let bound = bound.filter(|pod| pod.node_name.is_some()).count();
    let rows = world.ledger.of(&Rig::cluster());
    End {
        rows: (rows.intents.len(), rows.claims.len()),
        launched: world.account.instances.len(),
        alive: world.account.alive().count(),
        claims: world.api.node_claims.len(),
        nodes: world.api.nodes.len(),
        bound,
    }
}

/// Runs a scenario once without a crash and then with one at every `stride`th point.
async fn sweep<F: Future<Output = Rig>>(
    stride: usize,
    begin: impl Fn() -> F,
    happens: impl Fn(&Rig),
    over: impl Fn(&mut World) -> bool,
) {
    let run = async |point: u64| {
        let mut rig = begin().await;
        rig.sim.with(|world| {
            // Consolidation is switched off in these scenarios.
            let pool = world.api.node_pools.get_mut("default").unwrap();
            pool.spec.disruption.consolidate_after =
                serde_json::from_value("Never".into()).unwrap();
            world.crash_point = CrashPoint::at(point);
        });
        happens(&rig);
        let is_over = |world: &mut World| over(world) && consistent(world) && settled(world);
        let took = rig.until(secs(PATIENCE), is_over).await;
        let passed = rig.sim.with(|world| world.crash_point.passed());
        let state = rig.sim.with(end);
        let Rig { transcript, .. } = &rig;
        assert!(
            took.is_some(),
            "point {point}: {state:?}\n{transcript:#?}\n{:#?}",
            rig.errors
        );
        // Cleanup that no event triggers ends within this time.
        rig.pass(secs(180)).await;
        (passed, rig.sim.with(end), rig.transcript)
    };
    let (points, expected, _) = run(u64::MAX).await;
    assert!(points > 100, "{points}");
    for point in (1..=points).step_by(stride) {
        let (_, found, transcript) = run(point).await;
        assert_eq!(found, expected, "point {point}: {transcript:#?}");
    }
}

/// The first NodeClaim of the scenario is gone, and its pods run on another node.
fn moved(world: &mut World) -> bool {
    let first = world.api.created.first();
    let gone = first.is_some_and(|name| !world.api.node_claims.contains_key(name));
    gone && all_bound(world)
}

#[tokio::test]
async fn crash_during_a_drain() {
    let delete = |rig: &Rig| delete_claim(rig, &claim(rig).name);
    sweep(17, || serving(2), delete, moved).await;
}

#[tokio::test]
async fn crash_during_the_termination_of_a_deleted_node() {
    let delete = |rig: &Rig| {
        let name = node(rig);
        rig.sim
            .with(|world| world.api.request_node_deletion(&name, world.now));
    };
    sweep(17, || serving(1), delete, moved).await;
}

#[tokio::test]
async fn crash_during_a_repair() {
    let begin = || async {
        let mut rig = registration::with_repair(1).await;
        let name = node(&rig);
        rig.sim.with(|world| world.api.silent.insert(name));
        rig.pass(secs(1_830)).await;
        rig
    };
    sweep(37, begin, |_| {}, moved).await;
}

#[tokio::test]
async fn crash_during_scale_up_of_a_static_node_pool() {
    let grow = |rig: &Rig| static_capacity::scale(rig, 3);
    let grown = |world: &mut World| world.api.nodes.len() == 3;
    sweep(
        17,
        || static_capacity::with_replicas(0, 10, true),
        grow,
        grown,
    )
    .await;
}

#[tokio::test]
async fn crash_during_scale_down_of_a_static_node_pool() {
    let shrink = |rig: &Rig| static_capacity::scale(rig, 1);
    let shrunk = |world: &mut World| world.api.nodes.len() == 1;
    sweep(
        17,
        || static_capacity::with_replicas(3, 10, true),
        shrink,
        shrunk,
    )
    .await;
}

#[tokio::test]
async fn crash_during_the_launch_of_a_manual_node_claim() {
    let apply = |rig: &Rig| by_hand::apply(rig, "by-hand", |_| {});
    let joined = |world: &mut World| world.api.nodes.len() == 2;
    sweep(17, || serving(1), apply, joined).await;
}

#[tokio::test]
async fn crash_during_collection_of_an_instance() {
    let lose = |rig: &Rig| _ = rig.sim.with(add_stray);
    let collected =
        |world: &mut World| !world.account.instances[&"i-stray".into()].state.is_alive();
    sweep(37, || serving(8), lose, collected).await;
}

#[tokio::test]
async fn crash_during_collection_of_a_ready_node() {
    let lose = |rig: &Rig| {
        let name = claim(rig).name;
        rig.sim.with(|world| world.api.node_claims.remove(&name));
    };
    let replaced = |world: &mut World| world.account.instances.len() == 5 && all_bound(world);
    sweep(37, || serving_apart(4), lose, replaced).await;
}

#[tokio::test]
async fn crash_during_collection_of_a_node_claim() {
    let lose = |rig: &Rig| {
        let lost = claim(rig).status.provider_id;
        rig.sim.with(|world| {
            let id = lost.rsplit('/').next().unwrap().into();
            let instance = world.account.instances.get_mut(&id).unwrap();
            instance.state = InstanceState::Terminated;
            instance.private_dns = None;
            let mut nodes = world.api.nodes.values_mut();
            let node = nodes.find(|node| node.provider_id == lost);
            node.unwrap().ready.status = ConditionStatus::Unknown;
        });
    };
    sweep(37, || serving(4), lose, moved).await;
}

#[tokio::test]
async fn crash_during_an_expiration() {
    let age = |rig: &Rig| {
        let name = claim(rig).name;
        change_claim(rig, &name, |claim| {
            claim.spec.expire_after = Some("5m".into());
        });
    };
    sweep(37, || serving(1), age, moved).await;
}

#[tokio::test]
async fn crash_during_a_drain_cut_off_by_the_termination_grace_period() {
    let demand = |rig: &Rig| {
        let name = claim(rig).name;
        change_claim(rig, &name, |claim| {
            claim.spec.termination_grace_period = Some("5m".into());
        });
        change_pods(rig, |pod| {
            pod.annotations
                .insert("karpenter.sh/do-not-disrupt".into(), "true".into());
        });
        delete_claim(rig, &name);
    };
    sweep(37, || serving(1), demand, moved).await;
}

#[tokio::test]
async fn crash_during_deletion_of_a_node_pool() {
    let delete = |rig: &Rig| {
        termination::delete_node_pool(rig);
        rig.scale(0);
    };
    sweep(
        37,
        || serving(3),
        delete,
        |world| world.api.node_claims.is_empty(),
    )
    .await;
}

#[tokio::test]
async fn crash_after_an_external_termination() {
    let end = |rig: &Rig| termination::end_instance(rig, &claim(rig));
    sweep(37, || serving(2), end, moved).await;
}

#[tokio::test]
async fn crash_during_collection_of_a_deleted_cluster() {
    for point in 1.. {
        let mut rig = serving(2).await;
        deleted_clusters::delete_cluster(&rig, true);
        let died = rig.sim.with(|world| {
            let now = world.now;
            world.ledger.of(&Rig::cluster()).sweep.cluster_gone = Some(Absence {
                since: now - secs(24 * deleted_clusters::HOUR),
                last: now,
            });
            world.crash_point = CrashPoint::at(point);
            |world: &mut fakes::World| world.crash_point.is_reached()
        });
        let dies = rig.until(secs(90), died).await.is_some();
        rig.pass(secs(120)).await;
        assert_eq!(
            deleted_clusters::alive(&rig),
            0,
            "point {point}: {:#?}",
            rig.transcript
        );
        if !dies {
            break;
        }
    }
}
