use serde::Serialize;

/// Totals of one sweep, for its log line.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
    pub clusters: usize,
    /// Clusters at rest, of which only the rows read for all clusters together were read.
    pub at_rest: usize,
    /// `cluster/lane: reason`.
    pub woken: Vec<String>,
    /// Instances, NodeClaims, launch templates and instance profiles that were collected.
    pub collected: Vec<String>,
    /// Problems that need a person: leader Leases of other holders, the brake, entries that cannot be read.
    pub alarms: Vec<String>,
    pub problems: Vec<String>,
    /// Number of relays that have fallen silent although their cluster has nodes.
    pub silent: u64,
    /// Warnings that stop nothing, such as old prices or a relay of an unknown version.
    pub warnings: Vec<String>,
}

impl SweepReport {
    pub(crate) fn absorb(&mut self, other: Self) {
        self.at_rest += other.at_rest;
        self.woken.extend(other.woken);
        self.collected.extend(other.collected);
        self.alarms.extend(other.alarms);
        self.problems.extend(other.problems);
        self.warnings.extend(other.warnings);
        self.silent += other.silent;
    }
}
