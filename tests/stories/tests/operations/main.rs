//! Controls by which people hold Whittle back, and work that is never delayed (docs/design.md#never-delayed).

#![expect(clippy::unwrap_used, reason = "helpers of tests panic on failure")]

mod alarms;
mod approving;
mod caps;
mod default_spread;
mod deletion_costs;
mod device_claims;
mod holding;
mod idle;
mod pausing;
mod shadowing;
mod status;

use api::names::annotation::MODE;
use fakes::World;
use jiff::SignedDuration;
use model::ledger::{Pause, PauseLevel, PauseScope};
use stories::{Relay, Rig, all_bound, secs};

/// A cluster of bound pods with no work left.
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

/// Messages of the events with this reason.
fn event_messages(rig: &Rig, reason: &str) -> Vec<String> {
    rig.sim.with(|world| {
        let events = world.api.events.iter();
        let own = events.filter(|event| event.reason == reason);
        own.map(|event| event.message.clone()).collect()
    })
}

/// Pauses the cluster, one of its NodePools, or the account, from now on.
fn pause(world: &mut World, by: &str, scope: PauseScope, level: PauseLevel, time: SignedDuration) {
    let pause = Pause {
        scope: scope.clone(),
        owner: by.into(),
        level,
        reason: "a migration".into(),
        since: world.now,
        until: world.now + time,
    };
    match scope {
        PauseScope::Account => world.ledger.pauses.push(pause),
        PauseScope::Cluster | PauseScope::NodePool(_) => {
            world.ledger.of(&Rig::cluster()).pauses.push(pause);
        }
    }
}

/// Sets the mode of all NodePools.
fn mode(rig: &Rig, mode: Option<&str>) {
    rig.sim.with(|world| {
        for pool in world.api.node_pools.values_mut() {
            let annotations = &mut pool.metadata.annotations;
            match mode {
                Some(mode) => annotations.insert(MODE.to_owned(), mode.to_owned()),
                None => annotations.remove(MODE),
            };
        }
    });
}
