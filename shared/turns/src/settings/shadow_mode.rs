//! The annotation by which a NodePool is in shadow mode (`whittle.sh/mode: shadow`).

use api::{NodePool, names::annotation::MODE};
use jiff::Timestamp;
use model::ledger::{Pause, PauseLevel, PauseScope};
use ports::cluster::Listed;

const SHADOW: &str = "shadow";
const ACTIVE: &str = "active";

/// Pauses for NodePools in shadow mode. A NodePool that cannot be read, or whose mode cannot be, is paused, too.
pub(crate) fn pauses(pools: &Listed<NodePool>, now: Timestamp) -> Vec<Pause> {
    let unreadable = pools.unreadable.iter();
    let unreadable = unreadable.map(|pool| shadow_pause(&pool.name, "it cannot be read", now));
    let readable = pools.items.iter().filter_map(|pool| {
        let mode = pool.metadata.annotations.get(MODE)?;
        let because = "planned changes are only recorded in the journal";
        (mode != ACTIVE).then(|| shadow_pause(&pool.metadata.name, because, now))
    });
    readable.chain(unreadable).collect()
}

fn shadow_pause(pool: &str, because: &str, now: Timestamp) -> Pause {
    Pause {
        scope: PauseScope::NodePool(pool.into()),
        owner: format!("annotation {MODE}"),
        level: PauseLevel::All,
        reason: because.to_owned(),
        since: now,
        until: Pause::INDEFINITE,
    }
}

/// Warning about a NodePool with an invalid mode.
pub(crate) fn mode_warning(pool: &NodePool) -> Option<String> {
    let mode = pool.metadata.annotations.get(MODE)?;
    let known = mode == SHADOW || mode == ACTIVE;
    (!known).then(|| {
        format!(
            "annotation {MODE} is {mode:?}: expected {SHADOW} or {ACTIVE}; until it is corrected, the NodePool is only planned for"
        )
    })
}
