//! DaemonSets and CSINodes, which change how much of a node pods can use.

use serde::Deserialize;

use super::meta::{Meta, null_is_empty};
use super::{Digest, WatchedObject, fingerprint};
use crate::change::ChangeKind;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    metadata: Meta,
}

/// Digest of a DaemonSet: its generation changes with its pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetDigest {
    generation: i64,
}

impl WatchedObject for DaemonSet {
    const KIND: Kind = Kind::DaemonSet;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::DaemonSet(DaemonSetDigest {
            generation: self.metadata.generation,
        })
    }
}

pub fn daemon_set_differences(
    old: Option<&DaemonSetDigest>,
    new: Option<&DaemonSetDigest>,
) -> Vec<ChangeKind> {
    (old != new)
        .then_some(ChangeKind::DaemonSetChanged)
        .into_iter()
        .collect()
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    metadata: Meta,
    spec: CsiNodeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    #[serde(deserialize_with = "null_is_empty")]
    drivers: Vec<Driver>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct Driver {
    name: String,
    #[serde(deserialize_with = "null_is_empty")]
    allocatable: Allocatable,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
struct Allocatable {
    count: Option<i64>,
}

/// Digest of a CSINode: the volume limits of its drivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNodeDigest {
    drivers: u64,
}

impl WatchedObject for CsiNode {
    const KIND: Kind = Kind::CsiNode;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn digest(&self) -> Digest {
        Digest::CsiNode(CsiNodeDigest {
            drivers: fingerprint(&self.spec.drivers),
        })
    }
}

pub fn csi_node_differences(
    old: Option<&CsiNodeDigest>,
    new: Option<&CsiNodeDigest>,
) -> Vec<ChangeKind> {
    (old != new)
        .then_some(ChangeKind::VolumeLimitsChanged)
        .into_iter()
        .collect()
}
