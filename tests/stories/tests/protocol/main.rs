//! The protocol, rule by rule, over whole turns. Rules of single writes are tested in `fakes::laws`; pure functions are tested
//! beside their code.

mod addresses;
mod collecting;
mod committing;
mod gathering;
mod lanes;
mod launching;
mod observing;
mod sweeping;

use fakes::CrashPoint;
use jiff::Timestamp;
use model::Lane;
use stories::{Relay, Rig, secs};

fn at(world: &fakes::World, seconds: i64) -> Timestamp {
    world.now + secs(seconds)
}

/// Runs one turn of a lane now, regardless of pending wakes.
#[expect(
    clippy::unwrap_used,
    reason = "a turn that cannot be run has failed the test"
)]
async fn run(rig: &mut Rig, lane: Lane) -> turns::Report {
    let turn = rig.next_turn();
    turns::run(&rig.world, &Rig::cluster(), lane, &turn, rig.deadline(lane))
        .await
        .unwrap()
}

/// A cluster with pending pods in which only the test sends wakes.
async fn with_pending_pods(pods: usize) -> Rig {
    let rig = Rig::ready(Relay::Dead).await;
    rig.scale(pods);
    rig.sim.advance(secs(1));
    rig.sim.take_wakes();
    rig
}

/// Runs a provisioner that crashes right after its first call of this name took effect.
async fn crash_after_first(rig: &mut Rig, call: &'static str) -> u64 {
    rig.sim.with(|world| {
        world.calls.clear();
        world.crash_after = Some(call);
    });
    let turn = rig.next_turn();
    let died = turns::run(
        &rig.world,
        &Rig::cluster(),
        Lane::Provisioner,
        &turn,
        rig.deadline(Lane::Provisioner),
    )
    .await;
    assert!(died.is_err(), "{died:?}");
    rig.sim.with(|world| {
        let passed = world.crash_point.passed();
        world.crash_point = CrashPoint::default();
        passed
    })
}
