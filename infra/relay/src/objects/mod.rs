//! For each kind: the decoded part of an object, the digest that is kept of it, and which differences count as a change.
//!
//! Watched objects are decoded directly into these slim structs, which skip everything else. Only digests outlive their event, so
//! 50,000 pods take a few MiB.

pub mod capacity;
pub mod gated;
mod key;
pub mod meta;
pub mod metric_data;
pub mod node;
pub mod node_claim;
pub mod node_class;
pub mod node_pool;
pub mod pod;
pub mod pod_disruption_budget;
pub mod volume_attachment;
pub mod whole_pod;

use serde::de::DeserializeOwned;

pub use self::key::Key;
use self::key::fingerprint;
use crate::change::ChangeKind;
use crate::kind::Kind;
use meta::Meta;
use metric_data::MetricData;

/// The slim form of a watched kind.
pub trait WatchedObject: DeserializeOwned + Send + 'static {
    const KIND: Kind;
    fn meta(&self) -> &Meta;
    fn digest(&self) -> Digest;

    /// Data for `/metrics`, if the kind has any.
    fn metric_data(&self) -> Option<MetricData> {
        None
    }

    /// The complete pod as functions use it, if the object is a pod that was decoded for that.
    fn into_whole_pod(self) -> Option<Box<model::pod::Pod>>
    where
        Self: Sized,
    {
        None
    }
}

/// The part of an object that the relay stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Digest {
    Pod(pod::PodDigest),
    Node(node::NodeDigest),
    NodeClaim(node_claim::NodeClaimDigest),
    NodePool(node_pool::NodePoolDigest),
    NodeClass(node_class::NodeClassDigest),
    PodDisruptionBudget(pod_disruption_budget::BudgetDigest),
    VolumeAttachment(volume_attachment::AttachmentDigest),
    DaemonSet(capacity::DaemonSetDigest),
    CsiNode(capacity::CsiNodeDigest),
    CapacityBuffer(gated::GatedDigest),
    NodeOverlay(gated::GatedDigest),
}

impl Digest {
    /// The object's node, or the node itself.
    pub fn node(&self) -> Option<Key> {
        match self {
            Self::Pod(pod) => pod.node,
            Self::Node(node) => Some(Key::node(&node.name)),
            Self::VolumeAttachment(attachment) => Some(attachment.node),
            Self::NodeClaim(_)
            | Self::NodePool(_)
            | Self::NodeClass(_)
            | Self::PodDisruptionBudget(_)
            | Self::DaemonSet(_)
            | Self::CsiNode(_)
            | Self::CapacityBuffer(_)
            | Self::NodeOverlay(_) => None,
        }
    }
}

/// Changes between two digests of an object; `None` before its creation and after its deletion.
pub fn differences(old: Option<&Digest>, new: Option<&Digest>) -> Vec<ChangeKind> {
    macro_rules! between {
        ($variant:ident, $differences:path) => {{
            let pick = |digest| match digest {
                &Digest::$variant(ref digest) => Some(digest),
                _ => None,
            };
            $differences(old.and_then(pick), new.and_then(pick))
        }};
    }
    match new.or(old) {
        None => Vec::new(),
        Some(Digest::Pod(_)) => between!(Pod, pod::differences),
        Some(Digest::Node(_)) => between!(Node, node::differences),
        Some(Digest::NodeClaim(_)) => between!(NodeClaim, node_claim::differences),
        Some(Digest::NodePool(_)) => between!(NodePool, node_pool::differences),
        Some(Digest::NodeClass(_)) => between!(NodeClass, node_class::differences),
        Some(Digest::PodDisruptionBudget(_)) => {
            between!(PodDisruptionBudget, pod_disruption_budget::differences)
        }
        Some(Digest::VolumeAttachment(_)) => {
            between!(VolumeAttachment, volume_attachment::differences)
        }
        Some(Digest::DaemonSet(_)) => between!(DaemonSet, capacity::daemon_set_differences),
        Some(Digest::CsiNode(_)) => between!(CsiNode, capacity::csi_node_differences),
        Some(Digest::CapacityBuffer(_)) => between!(CapacityBuffer, gated::buffer_differences),
        Some(Digest::NodeOverlay(_)) => between!(NodeOverlay, gated::overlay_differences),
    }
}

#[cfg(test)]
mod tests;
