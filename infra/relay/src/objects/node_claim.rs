//! NodeClaims. Which component set a condition determines the lanes that are woken.

use serde::Deserialize;

use super::meta::{Condition, Meta, NodeClassRef, is_true, null_is_empty};
use super::metric_data::{MetricData, ObjectData};
use super::{Digest, WatchedObject, fingerprint};
use crate::change::ChangeKind;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeClaim {
    metadata: Meta,
    spec: NodeClaimSpec,
    status: NodeClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeClaimSpec {
    node_class_ref: NodeClassRef,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeClaimStatus {
    #[serde(rename = "providerID")]
    provider_id: String,
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
}

/// Digest of a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaimDigest {
    ours: bool,
    deleting: bool,
    initialized: bool,
    rebooting: bool,
    /// The part that the lifecycle lane acts on. Conditions that the lane sets itself are excluded, because each of its turns
    /// would wake the next.
    lifecycle: u64,
    /// The part that the disruption lane uses to select candidates: Consolidatable, Drifted, and the reason of a disruption in
    /// progress.
    eligibility: u64,
}

impl WatchedObject for NodeClaim {
    const KIND: Kind = Kind::NodeClaim;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let condition = |name: &str| {
            let mut conditions = status.conditions.iter();
            let condition = conditions.find(|condition| condition.name == name)?;
            Some((&condition.status, &condition.reason))
        };
        Digest::NodeClaim(NodeClaimDigest {
            ours: spec.node_class_ref.is_ours(),
            deleting: metadata.is_deleting(),
            initialized: is_true(&status.conditions, "Initialized"),
            rebooting: is_true(&status.conditions, "Rebooting"),
            lifecycle: fingerprint(&(
                metadata.generation,
                &metadata.labels,
                metadata.deciding_annotations(),
                &metadata.finalizers,
                &status.provider_id,
                condition("Launched"),
            )),
            eligibility: fingerprint(&(
                condition("Consolidatable"),
                condition("Drifted"),
                condition("DisruptionReason"),
            )),
        })
    }

    fn metric_data(&self) -> Option<MetricData> {
        let metric_data = ObjectData::new(&self.metadata, &self.status.conditions);
        Some(MetricData::Other(metric_data))
    }
}

pub fn differences(
    old: Option<&NodeClaimDigest>,
    new: Option<&NodeClaimDigest>,
) -> Vec<ChangeKind> {
    let mut changes = Vec::new();
    match (old, new) {
        (Some(old), None) if old.ours => changes.push(ChangeKind::NodeClaimGone),
        (old, Some(new)) if new.ours => {
            match old {
                None => changes.push(ChangeKind::NodeClaimAppeared),
                Some(old) if old.lifecycle != new.lifecycle => {
                    changes.push(ChangeKind::NodeClaimChanged {
                        deleting: new.deleting,
                    })
                }
                Some(_) => {}
            }
            if new.initialized && !old.is_some_and(|old| old.initialized) {
                changes.push(ChangeKind::NodeClaimInitialized);
            }
            if new.rebooting && !old.is_some_and(|old| old.rebooting) {
                changes.push(ChangeKind::NodeClaimRebooting);
            }
            if old.is_some_and(|old| old.eligibility != new.eligibility) {
                changes.push(ChangeKind::NodeClaimEligibilityChanged);
            }
            if new.deleting && !old.is_some_and(|old| old.deleting) {
                changes.push(ChangeKind::NodeClaimDeleting);
            }
        }
        (Some(_) | None, Some(_) | None) => {}
    }
    changes
}
