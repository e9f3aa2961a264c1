//! Crash sweep of disruption: a function crashes at any port call, before or after the call took effect. The pod ends on the right
//! node and nothing is left over.

use api::conditions::types::INITIALIZED;
use fakes::{CrashPoint, World};
use stories::{Rig, all_bound, consistent, secs, settled};

use crate::{no_node_is_marked, outdated, oversized, rebooting, repairing, states, types};

/// Seconds that cover expired leases (5 min), launches that end 5 min later, and commands that end after 10 min.
const PATIENCE: i64 = 45 * 60;

/// Each call has a point before and one after it; an odd stride covers both kinds.
const STRIDE: usize = 7;
/// Stride of scenarios that start with minutes of tolerance, which makes each run slower.
const LONG_STRIDE: usize = 37;

/// Whether the cluster has the state that the scenario leads to, and nothing is left over.
fn over(world: &mut World, is_reached: impl Fn(&mut World) -> bool) -> bool {
    is_reached(world)
        && all_bound(world)
        && consistent(world)
        && settled(world)
        && states(world).iter().all(|state| state.is_over())
        && no_node_is_marked(world)
}

/// Runs the scenario with a crash at this point. Returns the number of points passed.
async fn run(mut rig: Rig, point: u64, is_reached: impl Fn(&mut World) -> bool) -> u64 {
    rig.sim
        .with(|world| world.crash_point = CrashPoint::at(point));
    let took = rig
        .until(secs(PATIENCE), |world| over(world, &is_reached))
        .await;
    let passed = rig.sim.with(|world| world.crash_point.passed());
    assert!(
        took.is_some(),
        "point {point}: {:?} {:?}\n{:#?}",
        types(&rig),
        rig.sim.with(states),
        rig.transcript
    );
    passed
}

async fn consolidate(point: u64) -> u64 {
    let ends = |world: &mut World| {
        let kinds: Vec<_> = world
            .account
            .alive()
            .map(|instance| instance.instance_type.clone())
            .collect();
        kinds == ["m5.large"]
    };
    run(oversized().await, point, ends).await
}

async fn drift(point: u64) -> u64 {
    let ends = |world: &mut World| {
        let mut claims = world.api.node_claims.values();
        claims.all(|claim| claim.labels.contains_key("team")) && world.account.alive().count() == 1
    };
    run(outdated().await, point, ends).await
}

/// Replaces an unready node whose pods may not be disrupted.
async fn repair(point: u64) -> u64 {
    let mut rig = repairing::repairing().await;
    let sick = repairing::silence(&rig);
    rig.pass(secs(1_790)).await;
    let ends = |world: &mut World| {
        !world.api.node_claims.contains_key(&sick.name) && world.account.alive().count() == 3
    };
    run(rig, point, ends).await
}

/// Reboots a node. EC2 is asked once, and no other node is launched.
async fn reboot(point: u64) -> u64 {
    let (mut rig, sick) = rebooting::failing().await;
    rig.pass(secs(580)).await;
    let launched = rig.sim.with(|world| world.account.instances.len());
    let ends = |world: &mut World| {
        let Some(claim) = world.api.node_claims.get(&sick.name) else {
            return false;
        };
        let mut taints = world.api.nodes.values().flat_map(|node| &node.taints);
        let marks = claim
            .annotations
            .keys()
            .filter(|key| key.contains("reboot"));
        claim.is_true(INITIALIZED)
            && marks.eq(["whittle.sh/reboots"])
            && taints.all(|taint| taint.key != "karpenter.sh/rebooting")
            && rebooting::reason(world, &sick).as_deref() == Some("RebootSucceeded")
            && rebooting::reboots(world, &sick) == 1
            && world.account.instances.len() == launched
    };
    run(rig, point, ends).await
}

/// Runs a scenario without a crash, and then with one at every `stride`th point.
async fn sweep(stride: usize, scenario: impl AsyncFn(u64) -> u64) {
    let points = scenario(u64::MAX).await;
    assert!(points > 300, "{points}");
    for point in (1..=points).step_by(stride) {
        scenario(point).await;
    }
}

#[tokio::test]
async fn crash_at_any_point_of_a_consolidation_leaves_the_same_cluster() {
    sweep(STRIDE, consolidate).await;
}

#[tokio::test]
async fn crash_at_any_point_of_a_drift_replacement_leaves_the_same_cluster() {
    sweep(STRIDE, drift).await;
}

#[tokio::test]
async fn crash_at_any_point_of_a_repair_leaves_the_same_cluster() {
    sweep(LONG_STRIDE, repair).await;
}

#[tokio::test]
async fn crash_at_any_point_of_a_reboot_leaves_the_same_cluster() {
    sweep(LONG_STRIDE, reboot).await;
}
