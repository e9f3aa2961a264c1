//! CapacityBuffers and NodeOverlays: functions read them only where a feature gate is on.

use serde::Deserialize;

use super::facts::{Facts, ObjectFacts};
use super::meta::{Condition, Meta, null_is_empty};
use super::{Digest, Watched};
use crate::change::What;
use crate::kind::Kind;

/// The part that is kept of either: generation moves with every change of the spec and when deletion begins. What turns write into
/// their status is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatedDigest {
    generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CapacityBuffer {
    metadata: Meta,
    status: CapacityBufferStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CapacityBufferStatus {
    #[serde(deserialize_with = "null_is_empty")]
    conditions: Vec<Condition>,
}

impl Watched for CapacityBuffer {
    const KIND: Kind = Kind::CapacityBuffer;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::CapacityBuffer(GatedDigest {
            generation: self.metadata.generation,
        })
    }

    fn facts(&self) -> Option<Facts> {
        let facts = ObjectFacts::new(&self.metadata, &self.status.conditions);
        Some(Facts::Other(facts))
    }
}

pub fn buffer_differences(old: Option<&GatedDigest>, new: Option<&GatedDigest>) -> Vec<What> {
    let changed = (old != new).then_some(What::BufferChanged);
    changed.into_iter().collect()
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeOverlay {
    metadata: Meta,
}

impl Watched for NodeOverlay {
    const KIND: Kind = Kind::NodeOverlay;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::NodeOverlay(GatedDigest {
            generation: self.metadata.generation,
        })
    }
}

pub fn overlay_differences(old: Option<&GatedDigest>, new: Option<&GatedDigest>) -> Vec<What> {
    let changed = (old != new).then_some(What::OverlayChanged);
    changed.into_iter().collect()
}
