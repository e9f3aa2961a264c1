//! Crash sweep of scaling: a process crashes at any port call, before or after the call took effect, and the cluster ends in the
//! same state once a process runs again.

use fakes::{CrashPoint, Tokens};
use stories::{Relay, Rig, all_bound, all_gone, consistent, secs, settled};

/// Seconds that cover timeouts (5 min), garbage collection (two sweeps) and the sweep.
const PATIENCE: i64 = 20 * 60;

/// Scales up with a process that crashes at `point`, and expects every pod to be bound and nothing to be left over.
async fn scale_up(point: u64, tokens: Tokens, relay: Relay) -> u64 {
    let mut rig = Rig::ready(relay).await;
    rig.sim.with(|world| {
        world.account.tokens = tokens;
        if tokens == Tokens::Ignored {
            // The lookup of launched instances finds nothing in time, so calls are repeated and launch twice.
            world.account.describe_lag = secs(150);
        }
        world.crash_point = CrashPoint::at(point);
    });
    rig.scale(9);
    let bound = rig.until(secs(PATIENCE), all_bound).await;
    let passed = rig.sim.with(|world| world.crash_point.passed());
    assert!(
        bound.is_some(),
        "point {point}: not every pod runs\n{:#?}\n{:#?}",
        rig.transcript,
        rig.errors
    );
    let clean = rig
        .until(secs(PATIENCE), |world| consistent(world) && settled(world))
        .await;
    assert!(
        clean.is_some(),
        "point {point}: objects are left\n{:#?}\n{}",
        rig.transcript,
        state(&rig)
    );
    assert!(
        rig.sim.with(all_bound),
        "point {point}: pods lost their nodes again\n{:#?}",
        rig.transcript
    );
    passed
}

async fn scale_down(point: u64) -> u64 {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(5);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(20)).await;
    rig.sim
        .with(|world| world.crash_point = CrashPoint::at(point));
    rig.scale(0);
    let gone = rig.until(secs(PATIENCE), all_gone).await;
    let passed = rig.sim.with(|world| world.crash_point.passed());
    assert!(
        gone.is_some(),
        "point {point}: nodes are left\n{:#?}\n{}",
        rig.transcript,
        state(&rig)
    );
    assert!(rig.sim.with(settled), "point {point}: {}", state(&rig));
    passed
}

fn state(rig: &Rig) -> String {
    rig.sim.with(|world| {
        let instances: Vec<String> = world
            .account
            .instances
            .values()
            .map(|instance| format!("{} {:?}", instance.id, instance.state))
            .collect();
        let claims: Vec<String> = world
            .api
            .node_claims
            .values()
            .map(|claim| format!("{} {}", claim.name, claim.status.provider_id))
            .collect();
        let rows = world.ledger.of(&Rig::cluster());
        let intents: Vec<String> = rows
            .intents
            .values()
            .map(|intent| format!("{} {:?}", intent.name(), intent.state))
            .collect();
        format!("{instances:#?}\n{claims:#?}\n{intents:#?}")
    })
}

#[tokio::test]
async fn crash_at_any_point_of_a_scale_up_leaves_the_same_cluster() {
    let points = scale_up(u64::MAX, Tokens::Honoured, Relay::Watching).await;
    assert!(points > 100, "{points}");
    for point in 1..=points.min(POINTS_MAX) {
        scale_up(point, Tokens::Honoured, Relay::Watching).await;
    }
}

#[tokio::test]
async fn crash_on_a_cloud_that_ignores_client_tokens_leaves_the_same_cluster() {
    let points = scale_up(u64::MAX, Tokens::Ignored, Relay::Watching).await;
    for point in 1..=points.min(POINTS_MAX) {
        scale_up(point, Tokens::Ignored, Relay::Watching).await;
    }
}

#[tokio::test]
async fn crash_that_only_the_sweep_notices_leaves_the_same_cluster() {
    let points = scale_up(u64::MAX, Tokens::Honoured, Relay::Dead).await;
    for point in (1..=points.min(POINTS_MAX)).step_by(3) {
        scale_up(point, Tokens::Honoured, Relay::Dead).await;
    }
}

#[tokio::test]
async fn crash_at_any_point_of_a_scale_down_leaves_nothing() {
    let points = scale_down(u64::MAX).await;
    for point in (1..=points).step_by(2) {
        scale_down(point).await;
    }
}

/// Launches happen in the first turns; later points only repeat idle turns.
const POINTS_MAX: u64 = 600;
