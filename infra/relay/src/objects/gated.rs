//! CapacityBuffers and NodeOverlays, which functions read only behind a feature gate.

use serde::Deserialize;

use super::meta::{Condition, Meta, null_is_empty};
use super::metric_data::{MetricData, ObjectData};
use super::{Digest, WatchedObject};
use crate::change::ChangeKind;
use crate::kind::Kind;

/// Digest of both kinds: the generation changes with the spec and when deletion begins. Status changes by turns do not count.
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

impl WatchedObject for CapacityBuffer {
    const KIND: Kind = Kind::CapacityBuffer;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::CapacityBuffer(GatedDigest {
            generation: self.metadata.generation,
        })
    }

    fn metric_data(&self) -> Option<MetricData> {
        let metric_data = ObjectData::new(&self.metadata, &self.status.conditions);
        Some(MetricData::Other(metric_data))
    }
}

pub fn buffer_differences(old: Option<&GatedDigest>, new: Option<&GatedDigest>) -> Vec<ChangeKind> {
    let changed = (old != new).then_some(ChangeKind::BufferChanged);
    changed.into_iter().collect()
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeOverlay {
    metadata: Meta,
}

impl WatchedObject for NodeOverlay {
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

pub fn overlay_differences(
    old: Option<&GatedDigest>,
    new: Option<&GatedDigest>,
) -> Vec<ChangeKind> {
    let changed = (old != new).then_some(ChangeKind::OverlayChanged);
    changed.into_iter().collect()
}
