//! Incremental reading of new records in a journal.

use std::collections::BTreeSet;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Lane, ids::TurnId};
use ports::{JournalEntry, journal::JournalQuery};

use super::source::Source;

/// Overlap between reads: a turn is recorded when it ends, with the time it began.
const RECORDING_DELAY_MAX: SignedDuration = SignedDuration::from_mins(6);

pub(crate) struct Follow {
    from: Timestamp,
    /// Records that the next read finds again.
    known: BTreeSet<(Timestamp, TurnId, Lane)>,
}

impl Follow {
    pub(crate) fn since(from: Timestamp) -> Self {
        Self {
            from,
            known: BTreeSet::new(),
        }
    }

    /// The latest records that no earlier read returned, at most `most`, oldest first.
    pub(crate) async fn read_new(
        &mut self,
        source: &Source,
        cluster: &ClusterName,
        until: Timestamp,
        most: usize,
    ) -> Result<Vec<JournalEntry>> {
        let wanted = JournalQuery {
            about: None,
            from: self.from,
            until,
            most,
        };
        let mut found = source.latest(cluster, &wanted).await?;
        found.retain(|entry| {
            let known = (entry.at, entry.turn.clone(), entry.lane);
            self.known.insert(known)
        });
        found.reverse();
        let from = self.from.max(until - RECORDING_DELAY_MAX);
        self.known.retain(|(at, ..)| *at >= from);
        self.from = from;
        Ok(found)
    }
}
