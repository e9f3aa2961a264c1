//! A change that may concern a lane, and the situation in which it is judged.

use crate::objects::Key;

/// One change of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub what: What,
    pub key: Key,
    /// The object, `namespace/name` for pods and `kind/name` else; unknown where it vanished unseen.
    pub object: Option<String>,
    /// The node the object sits on, or is.
    pub node: Option<Key>,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A pod waits for capacity, or changed while it waits.
    PodUnschedulable,
    /// A pod was bound, ended, is ending or is gone.
    PodMoved {
        daemon: bool,
    },
    /// A node lost its last pod that is no daemon's.
    NodeEmptied,
    PodReady,
    PodUnready,
    /// Its `karpenter.sh/do-not-disrupt` annotation changed.
    PodProtectionChanged,
    /// A Node is new, or got its provider ID.
    NodeAppeared,
    NodeChanged,
    /// Its pods are to be placed elsewhere.
    NodeDisrupted,
    /// A managed Node is being deleted.
    NodeDraining,
    NodeGone {
        managed: bool,
    },
    NodeClaimAppeared,
    NodeClaimChanged {
        deleting: bool,
    },
    NodeClaimInitialized,
    NodeClaimEligibilityChanged,
    /// A NodeClaim whose node is to be rebooted in place.
    NodeClaimRebooting,
    NodeClaimDeleting,
    NodeClaimGone,
    /// A NodePool of ours came, went, or has another spec.
    NodePoolChanged,
    NodePoolReadyChanged,
    /// An EC2NodeClass came, is going, went, or has another spec.
    NodeClassChanged,
    /// An EC2NodeClass has another status.
    NodeClassResolved,
    /// A PodDisruptionBudget allows an eviction again.
    BudgetAllows,
    /// A PodDisruptionBudget came, went, or has another spec.
    BudgetChanged,
    VolumeDetached,
    DaemonSetChanged,
    VolumeLimitsChanged,
    /// A CapacityBuffer came, is going, went, or has another spec.
    BufferChanged,
    /// A NodeOverlay came, is going, went, or has another spec.
    OverlayChanged,
    /// All objects of a kind were read for the first time: whatever happened before was not seen.
    FirstListed,
}

impl What {
    /// The wake's `reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::PodUnschedulable => "pods-unschedulable",
            Self::PodMoved { .. } => "pods-moved",
            Self::NodeEmptied => "node-emptied",
            Self::PodReady => "pod-ready",
            Self::PodUnready => "pod-unready",
            Self::PodProtectionChanged => "pod-protection-changed",
            Self::NodeAppeared => "node-appeared",
            Self::NodeChanged => "node-changed",
            Self::NodeDisrupted => "node-disrupted",
            Self::NodeDraining => "node-draining",
            Self::NodeGone { .. } => "node-gone",
            Self::NodeClaimAppeared => "nodeclaim-appeared",
            Self::NodeClaimChanged { .. } => "nodeclaim-changed",
            Self::NodeClaimInitialized => "nodeclaim-initialized",
            Self::NodeClaimEligibilityChanged => "nodeclaim-eligibility-changed",
            Self::NodeClaimRebooting => "nodeclaim-rebooting",
            Self::NodeClaimDeleting => "nodeclaim-deleting",
            Self::NodeClaimGone => "nodeclaim-gone",
            Self::NodePoolChanged => "nodepool-changed",
            Self::NodePoolReadyChanged => "nodepool-ready-changed",
            Self::NodeClassChanged => "nodeclass-changed",
            Self::NodeClassResolved => "nodeclass-resolved",
            Self::BudgetAllows => "pdb-allows",
            Self::BudgetChanged => "pdb-changed",
            Self::VolumeDetached => "volume-detached",
            Self::DaemonSetChanged => "daemonset-changed",
            Self::VolumeLimitsChanged => "volume-limits-changed",
            Self::BufferChanged => "buffer-changed",
            Self::OverlayChanged => "overlay-changed",
            Self::FirstListed => "relay-started",
        }
    }

    /// Whether this is true of an object as it stands, so that the first list tells it as well. Everything else is a
    /// transition, and the first list must not pass for one (docs/spec/lifecycle.md#pod-events).
    pub fn is_standing(self) -> bool {
        matches!(self, Self::PodUnschedulable | Self::NodeDisrupted)
    }
}

/// What the relay knows of the node a change is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Unknown,
    /// A node without a NodeClaim of ours.
    Unmanaged,
    Managed,
    /// A managed node that is being deleted or rebooted.
    Draining,
}

/// The cluster around a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    pub place: Place,
    /// Some managed node is being drained.
    pub draining: bool,
    /// Some pod waits for capacity.
    pub waiting: bool,
}
