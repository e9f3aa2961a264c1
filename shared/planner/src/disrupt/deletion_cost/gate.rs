use model::snapshot::Settings;

/// Feature gate of pod deletion costs.
pub const GATE: &str = "PodDeletionCostManagement";

pub(crate) fn is_on(settings: &Settings) -> bool {
    settings.feature_gates.get(GATE) == Some(&true)
}
