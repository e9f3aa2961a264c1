//! DaemonSets and CSINodes: they change how much of a node pods can use.

use serde::Deserialize;

use super::meta::{Meta, null_is_empty};
use super::{Digest, Watched, fingerprint};
use crate::change::What;
use crate::kind::Kind;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    metadata: Meta,
}

/// What is kept of a DaemonSet: its generation moves with its pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetDigest {
    generation: i64,
}

impl Watched for DaemonSet {
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
) -> Vec<What> {
    (old != new)
        .then_some(What::DaemonSetChanged)
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

/// What is kept of a CSINode: which drivers attach how many volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiNodeDigest {
    drivers: u64,
}

impl Watched for CsiNode {
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

pub fn csi_node_differences(old: Option<&CsiNodeDigest>, new: Option<&CsiNodeDigest>) -> Vec<What> {
    (old != new)
        .then_some(What::VolumeLimitsChanged)
        .into_iter()
        .collect()
}
