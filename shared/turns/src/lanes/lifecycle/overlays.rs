//! Conditions of NodeOverlays: whether they apply (docs/spec/lifecycle.md#node-overlay).

use api::{
    ConditionSet, NodeOverlay, conditions::types, karpenter::NodeOverlayStatus, validation::Problem,
};
use jiff::Timestamp;
use model::Lane;

use crate::{
    Report, TurnError,
    context::Turn,
    observe::{Observed, gated::CONFLICT},
};

/// Writes outdated statuses of overlays, and wakes the lanes that plan by prices.
pub(crate) async fn update_status(
    turn: &Turn<'_>,
    observed: &Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    let conflicting = planner::conflicting_overlays(&observed.snapshot);
    let mut changed = false;
    for overlay in &observed.gated.overlays {
        let name = &overlay.metadata.name;
        let status = status(overlay, conflicting.contains(name.as_str()), turn.now);
        if overlay.status.as_ref() == Some(&status) {
            continue;
        }
        let written = turn.api.update_node_overlay_status(name, &status).await;
        changed |= written.is_ok();
        if !report.may_continue_after_unseen(&format!("NodeOverlay {name}"), written) {
            break;
        }
    }
    if changed {
        turn.wake(Lane::Provisioner, "overlays-changed").await?;
        turn.wake(Lane::Disruption, "overlays-changed").await?;
    }
    Ok(())
}

fn status(overlay: &NodeOverlay, conflicts: bool, now: Timestamp) -> NodeOverlayStatus {
    let mut status = overlay.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let condition_types = types::node_overlay();
    let mut set = ConditionSet::new(&condition_types, &mut conditions, &overlay.metadata, now);
    let problems = api::validation::node_overlay(overlay);
    let kind = types::VALIDATION_SUCCEEDED;
    if !problems.is_empty() {
        let problems: Vec<String> = problems.iter().map(Problem::to_string).collect();
        set.set_false(kind, "RuntimeValidation", &problems.join("; "));
    } else if conflicts {
        set.set_false(kind, CONFLICT, "conflict with another overlay");
    } else {
        set.set_true(kind);
    }
    status.conditions = Some(conditions);
    status
}
