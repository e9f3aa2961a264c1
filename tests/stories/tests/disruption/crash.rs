//! Crash sweep of disruption: a function crashes at any port call, before or after the call took effect. The pod ends on the right
//! node and nothing is left over.

use fakes::CrashPoint;
use stories::{all_bound, consistent, secs, settled};

use crate::{no_node_is_marked, outdated, oversized, states, types};

/// Seconds that cover expired leases (5 min), launches that end 5 min later, and commands that end after 10 min.
const PATIENCE: i64 = 45 * 60;

fn over(world: &mut fakes::World) -> bool {
    states(world).iter().all(|state| state.is_over())
}

async fn consolidate(point: u64) -> u64 {
    let mut rig = oversized().await;
    rig.sim
        .with(|world| world.crash_point = CrashPoint::at(point));
    let ends = |world: &mut fakes::World| {
        let kinds: Vec<_> = world
            .account
            .alive()
            .map(|instance| instance.instance_type.clone())
            .collect();
        kinds == ["m5.large"]
            && all_bound(world)
            && consistent(world)
            && settled(world)
            && over(world)
            && no_node_is_marked(world)
    };
    let took = rig.until(secs(PATIENCE), ends).await;
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

async fn drift(point: u64) -> u64 {
    let mut rig = outdated().await;
    rig.sim
        .with(|world| world.crash_point = CrashPoint::at(point));
    let ends = |world: &mut fakes::World| {
        let mut claims = world.api.node_claims.values();
        claims.all(|claim| claim.labels.contains_key("team"))
            && world.account.alive().count() == 1
            && all_bound(world)
            && consistent(world)
            && settled(world)
            && over(world)
            && no_node_is_marked(world)
    };
    let took = rig.until(secs(PATIENCE), ends).await;
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

#[tokio::test]
async fn crash_at_any_point_of_a_consolidation_leaves_the_same_cluster() {
    let points = consolidate(u64::MAX).await;
    assert!(points > 300, "{points}");
    for point in (1..=points).step_by(STRIDE) {
        consolidate(point).await;
    }
}

#[tokio::test]
async fn crash_at_any_point_of_a_drift_replacement_leaves_the_same_cluster() {
    let points = drift(u64::MAX).await;
    assert!(points > 300, "{points}");
    for point in (1..=points).step_by(STRIDE) {
        drift(point).await;
    }
}

/// Each call has a point before and one after it; an odd stride covers both kinds.
const STRIDE: usize = 7;
