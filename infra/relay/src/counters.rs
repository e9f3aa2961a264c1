//! How often each lane was concerned, since this process began.

use std::collections::BTreeMap;

use model::Lane;

/// Per lane, the number of changes that concerned it. A lane that has looked since then is quiet (docs/protocol.md#l5,
/// docs/protocol.md#l6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(BTreeMap<Lane, u64>);

impl Counters {
    /// Lanes that changes of the cluster can concern; notices reach the interruption lane through EventBridge.
    pub const LANES: [Lane; 5] = [
        Lane::Provisioner,
        Lane::Lifecycle,
        Lane::Disruption,
        Lane::Terminator,
        Lane::Housekeeper,
    ];

    pub fn bump(&mut self, lane: Lane) {
        *self.0.entry(lane).or_default() += 1;
    }

    pub fn get(&self, lane: Lane) -> u64 {
        self.0.get(&lane).copied().unwrap_or_default()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Lane, u64)> {
        self.0.iter().map(|(lane, count)| (*lane, *count))
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self(Self::LANES.into_iter().map(|lane| (lane, 0)).collect())
    }
}
