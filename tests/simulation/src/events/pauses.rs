//! Pauses and shadow mode of NodePools, set and ended by users.

use api::names::annotation::MODE;
use fakes::World;
use jiff::Timestamp;
use model::{
    Lane,
    ledger::{Pause, PauseLevel, PauseScope},
};

const WHO: &str = "ann";

pub(super) fn pause(world: &mut World, level: PauseLevel, scope: &PauseScope, until: Timestamp) {
    let pause = Pause {
        scope: scope.clone(),
        owner: WHO.to_owned(),
        level,
        reason: "a migration".to_owned(),
        since: world.now,
        until,
    };
    let now = world.now;
    let all = pauses(world, scope);
    if let Ok(put) = Pause::put(all, pause, now) {
        *all = put;
    }
}

/// Removes all pauses, as `whittle resume` does.
pub(super) fn resume(world: &mut World) {
    let now = world.now;
    let scopes = [PauseScope::Account, PauseScope::Cluster];
    for scope in &scopes {
        pauses(world, scope).clear();
    }
    for lane in Lane::WOKEN {
        let cluster = world.cluster.clone();
        world.ledger.of(&cluster).make_due(lane, now);
    }
}

fn pauses<'a>(world: &'a mut World, scope: &PauseScope) -> &'a mut Vec<Pause> {
    match scope {
        PauseScope::Account => &mut world.ledger.pauses,
        PauseScope::Cluster | PauseScope::NodePool(_) => {
            let cluster = world.cluster.clone();
            &mut world.ledger.of(&cluster).pauses
        }
    }
}

/// Switches a NodePool to shadow mode or back.
pub(super) fn watch(world: &mut World, pool: &str, only: bool) {
    let Some(pool) = world.api.node_pools.get_mut(pool) else {
        return;
    };
    let annotations = &mut pool.metadata.annotations;
    if only {
        annotations.insert(MODE.to_owned(), "shadow".to_owned());
    } else {
        annotations.remove(MODE);
    }
}
