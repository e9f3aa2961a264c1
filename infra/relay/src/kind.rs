//! The kinds that the relay watches.

use std::fmt;

/// A watched kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pod,
    Node,
    NodeClaim,
    NodePool,
    Ec2NodeClass,
    PodDisruptionBudget,
    VolumeAttachment,
    DaemonSet,
    CsiNode,
    CapacityBuffer,
    NodeOverlay,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Pod,
        Self::Node,
        Self::NodeClaim,
        Self::NodePool,
        Self::Ec2NodeClass,
        Self::PodDisruptionBudget,
        Self::VolumeAttachment,
        Self::DaemonSet,
        Self::CsiNode,
        Self::CapacityBuffer,
        Self::NodeOverlay,
    ];

    /// Returns whether functions read the kind only behind a feature gate. Its CRD may be missing, and turns that read it run
    /// each minute regardless of the relay, so it does not block heartbeats.
    pub fn is_gated(self) -> bool {
        matches!(self, Self::CapacityBuffer | Self::NodeOverlay)
    }

    /// URL path of all objects of this kind.
    pub fn path(self) -> &'static str {
        match self {
            Self::Pod => "/api/v1/pods",
            Self::Node => "/api/v1/nodes",
            Self::NodeClaim => "/apis/karpenter.sh/v1/nodeclaims",
            Self::NodePool => "/apis/karpenter.sh/v1/nodepools",
            Self::Ec2NodeClass => "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
            Self::PodDisruptionBudget => "/apis/policy/v1/poddisruptionbudgets",
            Self::VolumeAttachment => "/apis/storage.k8s.io/v1/volumeattachments",
            Self::DaemonSet => "/apis/apps/v1/daemonsets",
            Self::CsiNode => "/apis/storage.k8s.io/v1/csinodes",
            Self::CapacityBuffer => "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers",
            Self::NodeOverlay => "/apis/karpenter.sh/v1alpha1/nodeoverlays",
        }
    }

    /// The plural resource name, as in RBAC rules, logs and metrics.
    pub fn resource(self) -> &'static str {
        self.path().rsplit('/').next().unwrap_or_default()
    }

    /// The lower-case singular, as kubectl and Karpenter's events write it before a name.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Node => "node",
            Self::NodeClaim => "nodeclaim",
            Self::NodePool => "nodepool",
            Self::Ec2NodeClass => "ec2nodeclass",
            Self::PodDisruptionBudget => "poddisruptionbudget",
            Self::VolumeAttachment => "volumeattachment",
            Self::DaemonSet => "daemonset",
            Self::CsiNode => "csinode",
            Self::CapacityBuffer => "capacitybuffer",
            Self::NodeOverlay => "nodeoverlay",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource())
    }
}
