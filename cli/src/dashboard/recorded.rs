//! Contents of the journal: decisions, and the snapshots of turns.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use model::ClusterName;
use turns::Report;

use super::{INTERVAL, decisions, document, hub::Hub, watch};
use crate::{
    journal::{follow::Follow, source::Source},
    moment,
};

/// Upper bound on the records read at once; older ones are left out.
const RECORDS_MAX: usize = 5_000;
/// Number of snapshots from which the cost curve is drawn.
const SNAPSHOTS_MAX: usize = 200;
/// Upper bound on the unreadable records that are named; the rest are counted, so that the page stays short.
const PROBLEMS_MAX: usize = 3;

pub(super) struct Recorded {
    pub(super) source: Source,
    pub(super) cluster: ClusterName,
    pub(super) since: Timestamp,
    /// End of the records to show; without it, new records are followed.
    pub(super) until: Option<Timestamp>,
}

impl Recorded {
    pub(super) async fn run(self, hub: Arc<Hub>) {
        let mut follow = Follow::since(self.since);
        loop {
            match Box::pin(self.observe(&hub, &mut follow)).await {
                Ok(()) if self.until.is_some() => return,
                Ok(()) => {}
                Err(error) => hub.report_problems(vec![format!("{error:#}; it is tried again")]),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Shows new records. Records that cannot be read, or whose snapshot is missing, are reported and skipped.
    async fn observe(&self, hub: &Hub, follow: &mut Follow) -> Result<()> {
        let until = self.until.unwrap_or_else(moment::now);
        let new = follow.read_new(&self.source, &self.cluster, until, RECORDS_MAX);
        let (mut reports, mut problems) = (Vec::new(), Vec::new());
        for entry in new.await? {
            match Report::read(&entry) {
                Ok(report) => reports.push(report),
                Err(error) => problems.push(format!("{:#}", anyhow::Error::from(error))),
            }
        }
        let with_sight: Vec<&Report> = reports
            .iter()
            .filter(|report| report.snapshot.is_some())
            .collect();
        let every = with_sight.len().div_ceil(SNAPSHOTS_MAX).max(1);
        // The newest record is always included.
        let mut shown: Vec<&Report> = with_sight.into_iter().rev().step_by(every).collect();
        shown.reverse();
        let mut newest = None;
        for report in shown {
            match self.source.snapshot(report).await {
                Ok(snapshot) => {
                    hub.show_cost(snapshot.now, &document::nodes(&snapshot));
                    newest = Some(snapshot);
                }
                Err(error) => problems.push(format!("{error:#}")),
            }
        }
        if let Some(snapshot) = newest {
            let observation =
                tokio::task::spawn_blocking(move || watch::observe_snapshot(&snapshot, Vec::new()));
            hub.show(observation.await.context("planning ended early")?);
        }
        let end = match self.until {
            Some(_) => reports.iter().map(|report| report.at).max(),
            None => Some(until),
        };
        if let Some(end) = end {
            hub.observed_until(end);
        }
        hub.decided(reports.iter().flat_map(decisions::of_report).collect());
        if !problems.is_empty() {
            let more = problems.len().saturating_sub(PROBLEMS_MAX);
            problems.truncate(PROBLEMS_MAX);
            if more > 0 {
                problems.push(format!("{more} more records cannot be shown"));
            }
            hub.report_problems(problems);
        }
        Ok(())
    }
}
