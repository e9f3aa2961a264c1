//! Changes of the cluster that may concern a lane, and the context in which they are routed.

use crate::objects::Key;

/// One change of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: ChangeKind,
    pub key: Key,
    /// The object, as `namespace/name` for pods and `kind/name` otherwise; `None` if the object was deleted between two lists.
    pub object: Option<String>,
    /// The object's node, or the node itself.
    pub node: Option<Key>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A pod became unschedulable, or changed while it was.
    PodUnschedulable,
    /// A pod was bound, ended, is terminating or was deleted.
    PodMoved {
        daemon: bool,
    },
    /// A node lost its last pod that belongs to no DaemonSet.
    NodeEmptied,
    PodReady,
    PodUnready,
    /// A pod's `karpenter.sh/do-not-disrupt` annotation changed.
    PodProtectionChanged,
    /// A Node was created, or got its provider ID.
    NodeAppeared,
    NodeChanged,
    /// A Node's pods have to be placed elsewhere.
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
    /// A managed NodePool was created, deleted, or its spec changed.
    NodePoolChanged,
    NodePoolReadyChanged,
    /// An EC2NodeClass was created, is being deleted, was deleted, or its spec changed.
    NodeClassChanged,
    /// The status of an EC2NodeClass changed.
    NodeClassResolved,
    /// A PodDisruptionBudget allows an eviction again.
    BudgetAllows,
    /// A PodDisruptionBudget was created, deleted, or its spec changed.
    BudgetChanged,
    VolumeDetached,
    DaemonSetChanged,
    VolumeLimitsChanged,
    /// A CapacityBuffer was created, is being deleted, was deleted, or its spec changed.
    BufferChanged,
    /// A NodeOverlay was created, is being deleted, was deleted, or its spec changed.
    OverlayChanged,
    /// The first list of a kind is complete; earlier changes were not observed.
    FirstListed,
}

impl ChangeKind {
    /// Value of the wake's `reason`.
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

    /// Returns whether the change describes an object's current state, so that the first list reports it as well. All other kinds
    /// are transitions, and the first list must not report them (docs/spec/lifecycle.md#pod-events).
    pub fn is_current_state(self) -> bool {
        matches!(self, Self::PodUnschedulable | Self::NodeDisrupted)
    }
}

/// Whether the node that a change concerns is managed by Whittle, and whether it is draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    Unknown,
    /// A node without one of Whittle's NodeClaims.
    Unmanaged,
    Managed,
    /// A managed node that is being deleted or rebooted.
    Draining,
}

/// Facts about the cluster that decide which lanes a change wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeContext {
    pub node: NodeState,
    /// Whether any managed node is draining.
    pub draining: bool,
    /// Whether any pod is unschedulable.
    pub waiting: bool,
}
