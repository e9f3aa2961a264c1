//! For each kind: what is read of an object, the digest that is kept of it, and which differences count as a change.
//!
//! Watched objects are decoded straight into these slim structs, which skip everything else; nothing larger than a
//! digest outlives its event, so 50,000 pods take a few MiB.

pub mod capacity;
pub mod facts;
pub mod gated;
pub mod meta;
pub mod node;
pub mod node_claim;
pub mod node_class;
pub mod node_pool;
pub mod pod;
pub mod pod_disruption_budget;
pub mod volume_attachment;
pub mod whole_pod;

use std::hash::{DefaultHasher, Hash, Hasher};

use serde::de::DeserializeOwned;

use crate::change::What;
use crate::kind::Kind;
use facts::Facts;
use meta::Meta;

/// The slim form of one watched kind.
pub trait Watched: DeserializeOwned + Send + 'static {
    const KIND: Kind;
    fn meta(&self) -> &Meta;
    fn digest(&self) -> Digest;

    /// Parts that `/metrics` tells of, if there are any.
    fn facts(&self) -> Option<Facts> {
        None
    }

    /// The object as functions plan with it, where it is a pod that was read for that.
    fn into_whole_pod(self) -> Option<Box<model::pod::Pod>>
    where
        Self: Sized,
    {
        None
    }
}

/// Tells objects of one kind apart: a hash of namespace and name. Two of 50,000 objects share one with a chance below
/// one in a billion, and the price would be a missed wake, which the sweep makes good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(fingerprint(&(namespace, name)))
    }

    pub fn node(name: &str) -> Self {
        Self::new("", name)
    }
}

/// What the relay remembers of an object.
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
    /// The node an object sits on, or is.
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

/// What changed between two digests of one object; `None` before it existed and after it is gone.
pub fn differences(old: Option<&Digest>, new: Option<&Digest>) -> Vec<What> {
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

/// A hash that is compared only within this process.
fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
