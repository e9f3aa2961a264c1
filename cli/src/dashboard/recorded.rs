//! Contents of the journal: decisions, and the snapshots of turns.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use model::{ClusterName, Snapshot};
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
const NAMED_MAX: usize = 3;

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
        let mut skipped = Skipped::default();
        loop {
            let is_read = self.read_once(&hub, &mut follow, &mut skipped).await;
            if is_read && self.until.is_some() {
                return;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Shows new records, or the problem that prevents it; returns whether there is none.
    async fn read_once(&self, hub: &Hub, follow: &mut Follow, skipped: &mut Skipped) -> bool {
        let read = Box::pin(self.observe(hub, follow, skipped)).await;
        let problem = read
            .as_ref()
            .err()
            .map(|error| format!("{error:#}; it is tried again"));
        hub.report_problems(problem.into_iter().collect());
        read.is_ok()
    }

    /// Shows new records. Records that cannot be read, or whose snapshot is missing, are noted and skipped.
    async fn observe(&self, hub: &Hub, follow: &mut Follow, skipped: &mut Skipped) -> Result<()> {
        let until = self.until.unwrap_or_else(moment::now);
        let new = follow.read_new(&self.source, &self.cluster, until, RECORDS_MAX);
        let mut reports = Vec::new();
        for entry in new.await? {
            match Report::read(&entry) {
                Ok(report) => reports.push(report),
                Err(error) => skipped.add(format!("{:#}", anyhow::Error::from(error))),
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
        let mut newest: Option<Snapshot> = None;
        for report in shown {
            match self.source.snapshot(report).await {
                Ok(snapshot) => {
                    hub.show_cost(snapshot.now, &document::nodes(&snapshot));
                    // A turn that began later may have read the cluster earlier.
                    if newest
                        .as_ref()
                        .is_none_or(|newest| newest.now <= snapshot.now)
                    {
                        newest = Some(snapshot);
                    }
                }
                Err(error) => skipped.add(format!("{error:#}")),
            }
        }
        let notes = skipped.notes();
        hub.note(notes.clone());
        if let Some(snapshot) = newest {
            let observation =
                tokio::task::spawn_blocking(move || watch::observe_snapshot(&snapshot, notes));
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
        Ok(())
    }
}

/// Records that are not shown. Each record is read once, so the reasons are kept for as long as the page is served.
#[derive(Default)]
struct Skipped {
    named: Vec<String>,
    more: usize,
}

impl Skipped {
    fn add(&mut self, why: String) {
        match self.named.len() < NAMED_MAX {
            true => self.named.push(why),
            false => self.more += 1,
        }
    }

    fn notes(&self) -> Vec<String> {
        let more = match self.more {
            0 => None,
            more => Some(format!("{more} more records cannot be shown")),
        };
        self.named.iter().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use model::Lane;
    use ports::JournalEntry;

    use super::*;
    use crate::{dashboard::document, journal::Directory};

    /// Problems and notes of the page.
    fn shown(hub: &Hub) -> (Vec<String>, Vec<String>) {
        let answer = hub.after(None).unwrap();
        let document: serde_json::Value = serde_json::from_str(&answer.text.unwrap()).unwrap();
        let texts = |field: &str| serde_json::from_value(document[field].clone()).unwrap();
        (texts("problems"), texts("notes"))
    }

    #[tokio::test]
    async fn problem_ends_with_the_next_read_and_skipped_records_stay_noted() {
        let folder = tempfile::tempdir().unwrap();
        let at = Timestamp::UNIX_EPOCH;
        let open = || Box::new(Directory::open(folder.path()).unwrap());
        let recorded = Recorded {
            source: Source {
                journal: open(),
                archive: open(),
            },
            cluster: "demo".into(),
            since: at,
            until: Some(Timestamp::MAX),
        };
        let source = document::Source {
            kind: "journal",
            name: "demo".to_owned(),
        };
        let (hub, mut follow) = (Hub::new(source, at), Follow::since(at));
        let mut skipped = Skipped::default();

        assert!(!recorded.read_once(&hub, &mut follow, &mut skipped).await);
        let (problems, notes) = shown(&hub);
        let [problem] = &problems[..] else {
            panic!("{problems:?}");
        };
        assert!(problem.ends_with("; it is tried again"), "{problem}");
        assert_eq!(notes, Vec::<String>::new());

        let mut file = std::fs::File::create(folder.path().join("demo.jsonl")).unwrap();
        for number in 0..5 {
            let entry = JournalEntry {
                turn: format!("turn-{number}").as_str().into(),
                at,
                lane: Lane::Provisioner,
                about: [].into(),
                body: serde_json::Value::Null,
            };
            writeln!(file, "{}", serde_json::to_string(&entry).unwrap()).unwrap();
        }
        // The second read finds nothing new.
        for _ in 0..2 {
            assert!(recorded.read_once(&hub, &mut follow, &mut skipped).await);
            let (problems, notes) = shown(&hub);
            assert_eq!(problems, Vec::<String>::new());
            assert_eq!(notes.len(), NAMED_MAX + 1, "{notes:?}");
            assert_eq!(notes[NAMED_MAX], "2 more records cannot be shown");
        }
    }
}
