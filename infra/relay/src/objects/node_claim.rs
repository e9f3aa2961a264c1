//! NodeClaims: who set a condition decides which lane has to look.

use serde::Deserialize;

use super::facts::{Facts, ObjectFacts};
use super::meta::{Condition, Meta, NodeClassRef, is_true, null_is_empty};
use super::{Digest, Watched, fingerprint};
use crate::change::What;
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

/// What is kept of a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaimDigest {
    ours: bool,
    deleting: bool,
    initialized: bool,
    rebooting: bool,
    /// What the lifecycle lane acts on. The conditions it writes itself are not part of it, or each of its turns would
    /// wake the next.
    lifecycle: u64,
    /// Whether the disruption lane may choose it: Consolidatable, Drifted, and the reason of a running disruption.
    eligibility: u64,
}

impl Watched for NodeClaim {
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

    fn facts(&self) -> Option<Facts> {
        let facts = ObjectFacts::new(&self.metadata, &self.status.conditions);
        Some(Facts::Other(facts))
    }
}

pub fn differences(old: Option<&NodeClaimDigest>, new: Option<&NodeClaimDigest>) -> Vec<What> {
    let mut changes = Vec::new();
    match (old, new) {
        (Some(old), None) if old.ours => changes.push(What::NodeClaimGone),
        (old, Some(new)) if new.ours => {
            match old {
                None => changes.push(What::NodeClaimAppeared),
                Some(old) if old.lifecycle != new.lifecycle => {
                    changes.push(What::NodeClaimChanged {
                        deleting: new.deleting,
                    })
                }
                Some(_) => {}
            }
            if new.initialized && !old.is_some_and(|old| old.initialized) {
                changes.push(What::NodeClaimInitialized);
            }
            if new.rebooting && !old.is_some_and(|old| old.rebooting) {
                changes.push(What::NodeClaimRebooting);
            }
            if old.is_some_and(|old| old.eligibility != new.eligibility) {
                changes.push(What::NodeClaimEligibilityChanged);
            }
            if new.deleting && !old.is_some_and(|old| old.deleting) {
                changes.push(What::NodeClaimDeleting);
            }
        }
        (Some(_) | None, Some(_) | None) => {}
    }
    changes
}
