//! Liveness of relays (docs/protocol.md#l6). A heartbeat shows only as a change of the relay's ledger row. A reader remembers the
//! content of the row and, by its own clock, the time of the last read; if the next read finds other content, the relay was alive
//! between the two. An old read does not date the heartbeat well enough, so only recent reads prove that the relay is alive.
//!
//! A process that sweeps each minute keeps its reads in memory and writes nothing. A process that has just started knows what
//! the last visit of the cluster recorded in the ledger.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName,
    ledger::{RelayBeat, SweepMemory},
};

/// Age below which a changed row proves liveness. A relay beats every 25 s and counts as dead after 90 s, counted from the read
/// that found its row changed, which comes a minute after the read of the row before.
const CHANGED_WITHIN: SignedDuration = SignedDuration::from_secs(60 + 90);
/// Time after which a relay whose row does not change counts as silent: it may have missed something.
const SILENT_AFTER: SignedDuration = SignedDuration::from_secs(90);

/// Liveness of a relay by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heartbeat {
    Fresh,
    /// The row was not read recently, so the time of its change is unknown.
    Unproven,
    Silent,
}

/// Reads of a relay's row so far, by the reader's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BeatObservation {
    row: Option<RelayBeat>,
    /// First read that returned the current row.
    since: Timestamp,
    /// Last read of the row.
    seen_at: Timestamp,
    /// Last read that returned another row.
    other_seen_at: Option<Timestamp>,
}

impl BeatObservation {
    /// Adds a read of the row to earlier ones, which may have returned the same row or another.
    fn after(others: &[&Self], row: Option<&RelayBeat>, now: Timestamp) -> Self {
        let is_same = |other: &&&Self| other.row.as_ref() == row;
        let since = others.iter().filter(is_same).map(|other| other.since).min();
        let other_seen_at = others.iter().filter_map(|other| {
            if is_same(&other) {
                other.other_seen_at
            } else {
                Some(other.seen_at)
            }
        });
        Self {
            row: row.cloned(),
            since: since.unwrap_or(now),
            seen_at: now,
            other_seen_at: other_seen_at.max(),
        }
    }

    /// The reads that the last visit recorded.
    fn of(memory: &SweepMemory) -> Option<Self> {
        let since = memory.beat_since?;
        Some(Self {
            row: memory.beat.clone(),
            since,
            seen_at: memory.beat_seen_at.unwrap_or(since),
            other_seen_at: memory.other_beat_seen_at,
        })
    }

    pub(crate) fn store_in(self, memory: &mut SweepMemory) {
        memory.beat = self.row;
        memory.beat_since = Some(self.since);
        memory.beat_seen_at = Some(self.seen_at);
        memory.other_beat_seen_at = self.other_seen_at;
    }

    pub(crate) fn heartbeat(&self, now: Timestamp) -> Heartbeat {
        // A time in the future comes from a wrong clock.
        let is_late = |at: Timestamp| now.duration_since(at).abs() < CHANGED_WITHIN;
        if self.row.is_none() {
            Heartbeat::Silent
        } else if self.other_seen_at.is_some_and(is_late) {
            Heartbeat::Fresh
        } else if now.duration_since(self.since) < SILENT_AFTER {
            Heartbeat::Unproven
        } else {
            Heartbeat::Silent
        }
    }
}

/// This process's reads of relays' rows.
#[derive(Debug, Default)]
pub struct Heartbeats(Mutex<BTreeMap<ClusterName, BeatObservation>>);

impl Heartbeats {
    /// Remembers a read of a relay's row. `now` is taken before the read.
    pub(crate) fn observe(
        &self,
        cluster: &ClusterName,
        row: Option<&RelayBeat>,
        memory: &SweepMemory,
        now: Timestamp,
    ) -> BeatObservation {
        let mut observations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, noted) = (observations.get(cluster), BeatObservation::of(memory));
        let others: Vec<&BeatObservation> = own.into_iter().chain(&noted).collect();
        let observation = BeatObservation::after(&others, row, now);
        observations.insert(cluster.clone(), observation.clone());
        observation
    }

    /// Forgets all other clusters.
    pub(crate) fn retain(&self, clusters: &BTreeSet<ClusterName>) {
        let mut observations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        observations.retain(|cluster, _| clusters.contains(cluster));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// Reads of one process: the second of each, and the beat that it returns.
    fn heartbeats_of(
        process: &Heartbeats,
        memory: &SweepMemory,
        reads: &[(i64, &str)],
    ) -> Vec<Heartbeat> {
        let read = |(now, beat): &(i64, &str)| {
            let row = RelayBeat {
                beat_at: (*beat).to_owned(),
                ..RelayBeat::default()
            };
            let observation = process.observe(&"demo".into(), Some(&row), memory, at(*now));
            observation.heartbeat(at(*now))
        };
        reads.iter().map(read).collect()
    }

    /// Memory that a visit records which reads this beat.
    fn left_by_visit(now: i64, beat: &str) -> SweepMemory {
        let mut memory = SweepMemory::default();
        let row = RelayBeat {
            beat_at: beat.to_owned(),
            ..RelayBeat::default()
        };
        BeatObservation::after(&[], Some(&row), at(now)).store_in(&mut memory);
        memory
    }

    use Heartbeat::{Fresh, Silent, Unproven};

    #[test]
    fn l6_relay_is_alive_while_each_read_finds_its_row_changed() {
        let process = Heartbeats::default();
        let reads = [(0, "a"), (60, "b"), (120, "c"), (180, "d")];
        let heartbeats = heartbeats_of(&process, &SweepMemory::default(), &reads);
        assert_eq!(heartbeats, [Unproven, Fresh, Fresh, Fresh]);
    }

    #[test]
    fn l6_silence_is_measured_by_the_readers_clock_since_the_row_changed() {
        let process = Heartbeats::default();
        let reads = [(0, "a"), (60, "b"), (149, "b"), (150, "b"), (210, "c")];
        let heartbeats = heartbeats_of(&process, &SweepMemory::default(), &reads);
        assert_eq!(heartbeats, [Unproven, Fresh, Fresh, Silent, Fresh]);
    }

    #[test]
    fn l6_change_between_distant_reads_proves_nothing() {
        let process = Heartbeats::default();
        let reads = [(0, "a"), (60, "b"), (600, "c"), (660, "c"), (690, "c")];
        let heartbeats = heartbeats_of(&process, &SweepMemory::default(), &reads);
        assert_eq!(heartbeats, [Unproven, Fresh, Unproven, Unproven, Silent]);
    }

    #[test]
    fn l6_new_process_trusts_the_last_visit_for_a_limited_time() {
        let memory = left_by_visit(0, "a");
        let of_another = |now| heartbeats_of(&Heartbeats::default(), &memory, &[(now, "b")]);
        assert_eq!(of_another(149), [Fresh]);
        assert_eq!(of_another(150), [Unproven]);
        let same = heartbeats_of(&Heartbeats::default(), &memory, &[(90, "a")]);
        assert_eq!(same, [Silent], "for longer than it may be");
    }

    #[test]
    fn l6_alternating_processes_share_their_reads_through_the_ledger() {
        let process = Heartbeats::default();
        assert_eq!(
            heartbeats_of(&process, &SweepMemory::default(), &[(0, "a")]),
            [Unproven]
        );
        assert_eq!(
            heartbeats_of(&process, &left_by_visit(60, "b"), &[(120, "c")]),
            [Fresh],
            "it changed after the other process read it"
        );
        assert_eq!(
            heartbeats_of(&process, &left_by_visit(180, "c"), &[(300, "c")]),
            [Silent],
            "both saw the same row, three minutes apart"
        );
    }

    #[test]
    fn l6_relay_without_a_row_is_silent() {
        let process = Heartbeats::default();
        let nothing = SweepMemory::default();
        let read = |now| process.observe(&"demo".into(), None, &nothing, at(now));
        assert_eq!(read(0).heartbeat(at(0)), Silent);
        assert_eq!(
            heartbeats_of(&process, &nothing, &[(60, "a")]),
            [Fresh],
            "its first beat is no older than the look before"
        );
    }

    #[test]
    fn l6_read_in_the_future_proves_nothing() {
        let process = Heartbeats::default();
        assert_eq!(
            heartbeats_of(&process, &left_by_visit(1_000, "a"), &[(0, "b")]),
            [Unproven],
            "a clock is wrong"
        );
    }
}
