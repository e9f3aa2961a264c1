//! What the journal has: decisions, and what turns saw.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, ids::TurnId};
use ports::{JournalEntry, journal::Wanted};
use turns::Report;

use super::{PAUSE, decisions, hub::Hub, watch};
use crate::{
    journal::source::Source,
    moment::{self, Moment},
};

/// Records that are read at once; older ones are left out.
const RECORDS: usize = 5_000;
/// Of what turns saw, so many moments make the curve of costs.
const MOMENTS: usize = 200;
/// A turn is recorded when it ends, under the time it began.
const LATE: SignedDuration = SignedDuration::from_mins(6);

pub(super) struct Recorded {
    pub(super) source: Source,
    pub(super) cluster: ClusterName,
    pub(super) since: Moment,
    /// Without it, what is recorded from now on is shown, too.
    pub(super) until: Option<Timestamp>,
}

impl Recorded {
    pub(super) async fn run(self, hub: Arc<Hub>) {
        let mut known = BTreeSet::new();
        let mut from = None;
        loop {
            match Box::pin(self.look(&hub, &mut known, from)).await {
                Ok(until) => from = Some(until - LATE),
                Err(error) => hub.trouble(format!("{error:#}; it is tried again")),
            }
            if self.until.is_some() && from.is_some() {
                return std::future::pending().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Shows what is new; returns until when that is.
    async fn look(
        &self,
        hub: &Hub,
        known: &mut BTreeSet<TurnId>,
        from: Option<Timestamp>,
    ) -> Result<Timestamp> {
        let until = self.until.unwrap_or_else(moment::now);
        let wanted = Wanted {
            about: None,
            from: from.map_or_else(|| self.since.before(until), Ok)?,
            until,
            most: RECORDS,
        };
        let mut found = self.source.latest(&self.cluster, &wanted).await?;
        found.retain(|entry| !known.contains(&entry.turn));
        found.reverse();
        let reports: Result<Vec<Report>, _> = found.iter().map(Report::read).collect();
        let reports = reports?;
        hub.decided(reports.iter().flat_map(decisions::of_report).collect());
        let with_sight: Vec<&Report> = reports
            .iter()
            .filter(|report| report.snapshot.is_some())
            .collect();
        let every = with_sight.len().div_ceil(MOMENTS).max(1);
        // The newest is among them.
        let mut shown: Vec<&Report> = with_sight.into_iter().rev().step_by(every).collect();
        shown.reverse();
        for report in shown {
            let snapshot = self.source.snapshot(report).await?;
            let seen = tokio::task::spawn_blocking(move || watch::seen(&snapshot, Vec::new()));
            hub.show(seen.await.context("planning ended early")?);
        }
        known.extend(found.into_iter().map(|entry: JournalEntry| entry.turn));
        Ok(until)
    }
}
