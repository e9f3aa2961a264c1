//! Decisions about NodePools in shadow mode, which are reported and not carried out.

use std::collections::BTreeSet;

use model::{
    NodePoolName, Snapshot,
    journal::Line,
    ledger::{Pause, PauseLevel, PauseScope},
};

use crate::report::subjects::subjects;

/// The NodePools in shadow mode, and the snapshot without their pauses; `None` if no NodePool is in shadow mode.
fn without_shadow_pauses(snapshot: &Snapshot) -> Option<(BTreeSet<NodePoolName>, Snapshot)> {
    let for_good = |pause: &&Pause| pause.until == Pause::INDEFINITE;
    let permanent = snapshot.pauses.iter().filter(for_good);
    let pools: BTreeSet<NodePoolName> = permanent
        .filter_map(|pause| match &pause.scope {
            PauseScope::NodePool(name) => Some(name.clone()),
            PauseScope::Account | PauseScope::Cluster => None,
        })
        .collect();
    if pools.is_empty() {
        return None;
    }
    let mut lifted = snapshot.clone();
    lifted.pauses.retain(|pause| !for_good(&pause));
    let (level, now) = (PauseLevel::All, snapshot.now);
    for pool in &mut lifted.node_pools {
        let paused = |pauses: &[Pause]| {
            Pause::of_pool(pauses, Some(&pool.name), level, now).map(|paused| paused.to_string())
        };
        let before = paused(&snapshot.pauses);
        if before.is_some() && pool.not_ready == before {
            pool.not_ready = paused(&lifted.pauses);
        }
    }
    Some((pools, lifted))
}

/// Launches that would be made for NodePools in shadow mode.
pub(crate) fn launches(snapshot: &Snapshot, share: planner::Share) -> Vec<Line> {
    let Some((pools, lifted)) = without_shadow_pauses(snapshot) else {
        return Vec::new();
    };
    let plan = planner::provision(&lifted, share);
    let would = plan.actions.iter().filter(|planned| {
        let launch = planned.action.launch();
        launch.is_some_and(|launch| pools.contains(&launch.node_pool))
    });
    would.map(Line::from).collect()
}

/// Disruptions that would be made for NodePools in shadow mode.
pub(crate) fn disruptions(snapshot: &Snapshot, share: planner::Share) -> Vec<Line> {
    let Some((pools, lifted)) = without_shadow_pauses(snapshot) else {
        return Vec::new();
    };
    let concerned = |command: &planner::Command| {
        command.targets().any(|target| {
            let mut claims = lifted.node_claims.iter();
            let claim = claims.find(|claim| claim.name == target.name);
            claim
                .and_then(|claim| claim.node_pool())
                .is_some_and(|pool| pools.contains(&pool))
        })
    };
    let commands = planner::disrupt_within(&lifted, share, &BTreeSet::new()).commands;
    let would = commands.iter().filter(|command| concerned(command));
    would
        .map(|command| Line::new(command.because.as_str(), subjects(command)))
        .collect()
}
