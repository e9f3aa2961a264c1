//! Location of the relay's view of a cluster in the stack's bucket: a full state and the changes after it.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Lane, ids::ClusterName, ledger::RelayCounter};

/// Pointer to one version of a view. Wakes and the relay's heartbeat carry the newest. It may choose what is read, and
/// is never believed without the digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewPointer {
    /// Identifies the relay's process; each process counts versions from the beginning.
    pub epoch: String,
    pub version: u64,
    /// The version that is a full state. The versions after it, up to `version`, contain changes only.
    pub full: u64,
    /// SHA-256 digest of the last of these objects, in hexadecimal. Each object contains the digest of the previous
    /// one.
    pub digest: String,
    /// Time by the relay's clock at which the view was complete; renewed with each heartbeat.
    pub at: Timestamp,
    /// The lanes' change counters as of this version (docs/protocol.md#l6).
    pub counters: BTreeMap<String, u64>,
}

impl ViewPointer {
    /// A lane's change counter as of this version.
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

/// Key of a version's object in the bucket.
pub fn object_name(cluster: &ClusterName, epoch: &str, version: u64) -> String {
    format!("views/{cluster}/{epoch}/{version:010}.json.zst")
}
