//! NodeOverlays that are valid but have no effect.

use model::Snapshot;
use planner::OverlayProblem;
use turns::gated::NODE_OVERLAY;

use super::hints::KnownLabels;

/// Warnings about such NodeOverlays, each with the reason and the remedy.
pub(super) fn notes(snapshot: &Snapshot, known: &KnownLabels) -> Vec<String> {
    if snapshot.settings.feature_gates.get(NODE_OVERLAY) != Some(&true) {
        return Vec::new();
    }
    let problems = planner::ineffective_overlays(snapshot).into_iter();
    let notes = problems.map(|(name, problem)| {
        let hints = match &problem {
            OverlayProblem::Unmet(requirement) => {
                known.of_requirements(std::slice::from_ref(*requirement))
            }
            OverlayProblem::Conflict { .. }
            | OverlayProblem::UnmetTogether
            | OverlayProblem::SetsNothing => Vec::new(),
        };
        let text = match hints.is_empty() {
            true => problem.to_string(),
            false => hints.join("; "),
        };
        format!("NodeOverlay {name} applies nowhere: {text}")
    });
    notes.collect()
}
