//! Number of changes that concerned each lane since the process started.

use std::collections::BTreeMap;

use model::Lane;

/// Number of changes per lane. A lane whose last full look recorded the current count has nothing new to do (docs/protocol.md#l5,
/// docs/protocol.md#l6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters(BTreeMap<Lane, u64>);

impl Counters {
    /// Lanes that changes of the cluster can concern; the interruption lane gets its notices from EventBridge.
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
