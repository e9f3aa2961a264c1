//! Where the relay's view of a cluster is: a full state and what came after it, in the stack's bucket.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Lane, ids::ClusterName, ledger::RelayCounter};

/// Names one version of a view. Wakes and the relay's heartbeat carry the newest; it may choose what is read, and is never
/// believed without the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewPointer {
    /// Of the relay's process: versions are counted anew in each.
    pub epoch: String,
    pub version: u64,
    /// The version that is a full state; those after it, up to `version`, tell what changed.
    pub full: u64,
    /// SHA-256 of the last of these objects, in hexadecimal. Each names the digest of the one before it.
    pub digest: String,
    /// By the relay's clock, renewed with each heartbeat: then this was all that had happened.
    pub at: Timestamp,
    /// The lanes' change counters as of this version (docs/protocol.md#l6).
    pub counters: BTreeMap<String, u64>,
}

impl ViewPointer {
    /// The changes that this version shows.
    pub fn counter(&self, lane: Lane) -> RelayCounter {
        RelayCounter {
            epoch: self.epoch.clone(),
            seq: self.counters.get(lane.as_str()).copied().unwrap_or(0),
        }
    }
}

impl fmt::Display for ViewPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} of {}", self.version, self.epoch)
    }
}

/// The name of a version in the bucket.
pub fn object_name(cluster: &ClusterName, epoch: &str, version: u64) -> String {
    format!("views/{cluster}/{epoch}/{version:010}.json.zst")
}
