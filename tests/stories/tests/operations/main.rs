//! How people hold Whittle back, and what they cannot hold back (DESIGN §7.10).

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do, by panicking"
)]

mod alarming;
mod approving;
mod guarding;
mod holding;
mod pausing;
mod resting;
mod shadowing;
mod telling;

use fakes::World;
use stories::{Relay, Rig, all_bound, secs};

/// Pods on nodes, and nothing more to do.
async fn in_service(replicas: usize) -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(replicas);
    let bound = rig.until(secs(300), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(30)).await;
    rig
}

fn alive(world: &mut World) -> usize {
    world.account.alive().count()
}

/// The messages of events with this reason.
fn told(rig: &Rig, reason: &str) -> Vec<String> {
    rig.sim.with(|world| {
        let events = world.api.events.iter();
        let own = events.filter(|event| event.reason == reason);
        own.map(|event| event.message.clone()).collect()
    })
}
