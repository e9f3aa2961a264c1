//! Node repair (gate `NodeRepair`; docs/disruption.md): which node conditions count, how long they are tolerated, and how many
//! nodes of a NodePool may have them.
//!
//! Unhealthy nodes are replaced under budgets like voluntary disruptions (`disrupt::repair`), or with `legacyNodeRepair`
//! deleted by force (`lifecycle::repair`).

mod breaker;
mod evaluation;
mod evidence;
mod policies;
mod reboots;

use api::names::annotation::DO_NOT_REPAIR;
use model::{node::Node, node_claim::NodeClaim, snapshot::Settings};

use self::breaker::BLOCKED_ABOVE_PERCENT;
pub use self::evidence::{Failures, failures};
pub(crate) use self::{
    breaker::{Breaker, Count},
    evaluation::{DueRepair, Evaluation, conditions},
    evidence::FailureEvidence,
    policies::{POLICIES, RepairAction},
    reboots::{Reboots, with_another},
};

/// Mode of node repair in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Off,
    /// Forced deletions, without budgets.
    Legacy,
    /// Disruptions under budgets, with replacements first.
    Voluntary,
}

impl Mode {
    pub(crate) fn from_settings(settings: &Settings) -> Self {
        match (
            settings.feature_gates.get("NodeRepair"),
            settings.legacy_node_repair,
        ) {
            (Some(true), true) => Self::Legacy,
            (Some(true), false) => Self::Voluntary,
            (Some(false) | None, _) => Self::Off,
        }
    }
}

/// Whether the annotation `karpenter.sh/do-not-repair` of the Node or its NodeClaim is `true`. Other values are ignored.
pub(crate) fn is_refused(node: &Node, claim: Option<&NodeClaim>) -> bool {
    let of_claim = claim.map(|claim| &claim.annotations);
    let mut annotations = [&node.annotations].into_iter().chain(of_claim);
    annotations
        .any(|annotations| annotations.get(DO_NOT_REPAIR).map(String::as_str) == Some("true"))
}
