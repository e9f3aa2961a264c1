//! Which lanes a change concerns: one table, `change × situation → (lane, pace)`.
//!
//! | change | lanes |
//! |---|---|
//! | pod unschedulable; node to be emptied (disrupted taint, deletion) | provisioner, batched (docs/spec/scheduling.md#batching) |
//! | pod bound, ended or gone | terminator on a draining node; else lifecycle (when its node was last used) and disruption |
//! | last pod of a node gone | lifecycle, which wakes disruption when the node may be consolidated |
//! | pod Ready | terminator while anything drains: its PodDisruptionBudget may allow the next eviction |
//! | pod unready, do-not-disrupt changed | terminator on a draining node |
//! | node, NodeClaim | lifecycle; terminator while it is deleting or reboots; disruption when it is initialized, may be chosen or is gone |
//! | NodePool | lifecycle, disruption (budgets, policy), provisioner if pods wait; housekeeper (static capacity) |
//! | EC2NodeClass | lifecycle for its spec; provisioner if pods wait and disruption for what it resolves to |
//! | PodDisruptionBudget, VolumeAttachment gone | terminator while anything drains |
//! | DaemonSet, CSINode | provisioner if pods wait; disruption |
//! | CapacityBuffer | lifecycle, which resolves it and wakes the provisioner; disruption (room that nobody needs) |
//! | NodeOverlay | lifecycle (its status); provisioner if pods wait; disruption (prices) |
//!
//! A lane is left out where it has nothing to do (no drain, no pod waiting): an idle cluster's chatter must not start
//! functions. If the relay has not seen yet what would make the change matter, seeing that wakes the lane.

use model::Lane;

use crate::change::{Place, Situation, What};

/// How soon a lane hears of a change. All of them count in the lane's counter at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// When the window of pending pods closes.
    Batched,
    /// At once, with what else comes in the coalescing window.
    Prompt,
    /// As [`Pace::Prompt`], but at most every [`crate::outbox::SPACING`].
    Spaced,
    /// Only by its counter: the sweep wakes the lane within a minute.
    Counted,
}

/// One lane that a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concern {
    pub lane: Lane,
    pub pace: Pace,
}

/// The lanes a change concerns, each at most once.
pub fn route(what: What, situation: Situation) -> Vec<Concern> {
    use Lane::{Disruption, Housekeeper, Lifecycle, Provisioner, Terminator};
    use Pace::{Batched, Counted, Prompt, Spaced};

    let Situation {
        place,
        draining,
        waiting,
    } = situation;
    let on_draining = place == Place::Draining;
    let mut concerns = Vec::new();
    let mut add = |condition: bool, lane, pace| {
        if condition {
            concerns.push(Concern { lane, pace });
        }
    };
    match what {
        What::PodUnschedulable | What::NodeDisrupted => add(true, Provisioner, Batched),
        What::PodMoved { daemon } => {
            add(on_draining, Terminator, Prompt);
            add(!daemon && place == Place::Managed, Lifecycle, Spaced);
            add(!daemon && !on_draining, Disruption, Counted);
        }
        What::NodeEmptied => add(place == Place::Managed, Lifecycle, Prompt),
        What::PodReady => add(draining, Terminator, Prompt),
        What::PodUnready => add(on_draining, Terminator, Prompt),
        What::PodProtectionChanged => {
            add(on_draining, Terminator, Prompt);
            add(!on_draining, Disruption, Counted);
        }
        What::NodeAppeared => {
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        What::NodeChanged => {
            add(on_draining || place == Place::Managed, Lifecycle, Prompt);
            add(on_draining, Terminator, Prompt);
            add(!on_draining, Disruption, Counted);
        }
        What::NodeDraining => {
            add(true, Lifecycle, Prompt);
            add(true, Terminator, Prompt);
            add(true, Disruption, Counted);
        }
        What::NodeGone { managed } => {
            add(managed, Lifecycle, Prompt);
            add(managed, Terminator, Prompt);
            add(true, Disruption, Counted);
            add(managed, Housekeeper, Counted);
        }
        What::NodeClaimAppeared => {
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        What::NodeClaimChanged { deleting } => {
            add(true, Lifecycle, Prompt);
            add(deleting, Terminator, Prompt);
        }
        What::NodeClaimInitialized => add(true, Disruption, Prompt),
        What::NodeClaimRebooting => add(true, Terminator, Prompt),
        What::NodeClaimEligibilityChanged => add(true, Disruption, Counted),
        What::NodeClaimDeleting => {
            add(true, Provisioner, Batched);
            add(true, Lifecycle, Prompt);
            add(true, Terminator, Prompt);
            add(true, Disruption, Counted);
            add(true, Housekeeper, Counted);
        }
        What::NodeClaimGone => {
            // It counted against its NodePool's limits.
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
            add(true, Housekeeper, Counted);
        }
        What::NodePoolChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Prompt);
            add(true, Housekeeper, Counted);
        }
        What::NodePoolReadyChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Disruption, Counted);
            add(true, Housekeeper, Counted);
        }
        What::NodeClassChanged => add(true, Lifecycle, Prompt),
        What::NodeClassResolved | What::DaemonSetChanged | What::VolumeLimitsChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Disruption, Counted);
        }
        What::BudgetAllows | What::BudgetChanged => {
            add(draining, Terminator, Prompt);
            add(true, Disruption, Counted);
        }
        What::VolumeDetached => {
            add(
                on_draining || (draining && place == Place::Unknown),
                Terminator,
                Prompt,
            );
        }
        What::BufferChanged => {
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        What::OverlayChanged => {
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Prompt);
            add(true, Disruption, Counted);
        }
        What::FirstListed => {
            add(waiting, Provisioner, Prompt);
            add(true, Lifecycle, Spaced);
            add(draining, Terminator, Prompt);
        }
    }
    concerns
}

#[cfg(test)]
mod tests;
