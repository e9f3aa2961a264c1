//! Routing of changes to lanes, as one table: `change × context → (lane, urgency)`.
//!
//! | change | lanes |
//! |---|---|
//! | pod unschedulable; node with pods to be placed elsewhere (disrupted taint, deletion) | provisioner, batched (docs/spec/scheduling.md#batching) |
//! | pod bound, ended or gone | terminator on a draining node; else lifecycle (for the last use of its node) and disruption |
//! | last pod of a node gone | lifecycle, which wakes disruption once the node may be consolidated |
//! | pod Ready | terminator while anything drains: its PodDisruptionBudget may allow the next eviction |
//! | pod unready, do-not-disrupt changed | terminator on a draining node |
//! | node, NodeClaim | lifecycle; terminator while it is being deleted or rebooted; disruption when it is initialized, becomes a candidate or is gone |
//! | NodePool | lifecycle, disruption (budgets, policy), provisioner if pods wait; housekeeper (static capacity) |
//! | EC2NodeClass | lifecycle for its spec; provisioner if pods wait and disruption for its status |
//! | PodDisruptionBudget, VolumeAttachment gone | terminator while anything drains |
//! | DaemonSet, CSINode | provisioner if pods wait; disruption |
//! | CapacityBuffer | lifecycle, which resolves it and wakes the provisioner; disruption (unneeded headroom) |
//! | NodeOverlay | lifecycle (its status); provisioner if pods wait; disruption (prices) |
//!
//! A lane is omitted if it has nothing to do (no drain, no unschedulable pod), so that routine changes of an idle cluster start
//! no functions. If a later observation makes the change relevant, that observation wakes the lane.

use model::Lane;

use crate::change::{ChangeContext, ChangeKind, NodeState};

/// Urgency of a change for a lane. In any case, the lane's counter is incremented immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// The lane is woken when the batching window closes.
    Batched,
    /// The lane is woken immediately, together with other changes of the coalescing window.
    Prompt,
    /// Like [`Urgency::Prompt`], but at most every [`crate::outbox::SPACING`].
    Spaced,
    /// Only the counter is incremented: the sweep wakes the lane within a minute.
    Counted,
}

/// A lane that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concern {
    pub lane: Lane,
    pub urgency: Urgency,
}

/// Returns the lanes that a change concerns, each at most once.
pub fn route(kind: ChangeKind, context: ChangeContext) -> Vec<Concern> {
    use Lane::{Disruption, Housekeeper, Lifecycle, Provisioner, Terminator};
    use Urgency::{Batched, Counted, Prompt, Spaced};

    let ChangeContext {
        node,
        draining,
        waiting,
    } = context;
    let on_draining = node == NodeState::Draining;
    let mut concerns = Vec::new();
    let mut add = |condition: bool, lane, urgency| {
        if condition {
            concerns.push(Concern { lane, urgency });
        }
    };
    match kind {
        ChangeKind::PodUnschedulable | ChangeKind::NodeDisrupted => add(true, Provisioner, Batched),
        ChangeKind::PodMoved { daemon } => {
            add(on_draining, Terminator, Prompt);
            add(!daemon && node == NodeState::Managed, Lifecycle, Spaced);
            add(!daemon && !on_draining, Disruption, Counted);
        }
        ChangeKind::NodeEmptied => add(node == NodeState::Managed, Lifecycle, Prompt),
        ChangeKind::PodReady => add(draining, Terminator, Prompt),
        ChangeKind::PodUnready => add(on_draining, Terminator, Prompt),
        ChangeKind::PodProtectionChanged => {
            add(on_draining, Terminator, Prompt);
            add(!on_draining, Disruption, Counted);
        }
        ChangeKind::NodeAppeared => {
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::NodeChanged => {
            add(on_draining || node == NodeState::Managed, Lifecycle, Prompt);
            add(on_draining, Terminator, Prompt);
            add(!on_draining, Disruption, Counted);
        }
        ChangeKind::NodeDraining => {
            add(true, Lifecycle, Prompt);
            add(true, Terminator, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::NodeGone { managed } => {
            add(managed, Lifecycle, Prompt);
            add(managed, Terminator, Prompt);
            add(true, Disruption, Counted);
            add(managed, Housekeeper, Counted);
        }
        ChangeKind::NodeClaimAppeared => {
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::NodeClaimChanged { deleting } => {
            add(true, Lifecycle, Prompt);
            add(deleting, Terminator, Prompt);
        }
        ChangeKind::NodeClaimInitialized => add(true, Disruption, Prompt),
        ChangeKind::NodeClaimRebooting => add(true, Terminator, Prompt),
        ChangeKind::NodeClaimEligibilityChanged => add(true, Disruption, Counted),
        ChangeKind::NodeClaimDeleting => {
            add(true, Provisioner, Batched);
            add(true, Lifecycle, Prompt);
            add(true, Terminator, Prompt);
            add(true, Disruption, Counted);
            add(true, Housekeeper, Counted);
        }
        ChangeKind::NodeClaimGone => {
            // The NodeClaim no longer counts towards its NodePool's limits.
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
            add(true, Housekeeper, Counted);
        }
        ChangeKind::NodePoolChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Prompt);
            add(true, Housekeeper, Counted);
        }
        ChangeKind::NodePoolReadyChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Disruption, Counted);
            add(true, Housekeeper, Counted);
        }
        ChangeKind::NodeClassChanged => add(true, Lifecycle, Prompt),
        ChangeKind::NodeClassResolved
        | ChangeKind::DaemonSetChanged
        | ChangeKind::VolumeLimitsChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::BudgetAllows | ChangeKind::BudgetChanged => {
            add(draining, Terminator, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::VolumeDetached => {
            add(
                on_draining || (draining && node == NodeState::Unknown),
                Terminator,
                Prompt,
            );
        }
        ChangeKind::BufferChanged => {
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::OverlayChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        ChangeKind::FirstListed => {
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Spaced);
            add(draining, Terminator, Prompt);
        }
    }
    concerns
}

#[cfg(test)]
mod tests;
