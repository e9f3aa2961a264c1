//! Selection of the views of a backtest.

use anyhow::{Result, bail};
use clap::Args;
use model::{ClusterName, Lane, Snapshot};
use ports::journal::JournalQuery;
use turns::Report;

use crate::{
    journal::source::Source,
    moment::{self, Moment},
};

/// Time span of a backtest, and its resolution.
#[derive(Args)]
pub(crate) struct TimeSpan {
    /// Start of the time span: a time such as 2026-08-22T12:00:00Z, or an age such as 7d
    #[arg(long, default_value = "7d", value_parser = moment::parse)]
    since: Moment,
    /// End of the time span, a time or an age such as 2h30m; defaults to now
    #[arg(long, value_parser = moment::parse)]
    until: Option<Moment>,
    /// Use at most N views of the cluster, spread evenly over the time span
    #[arg(long, value_name = "N", default_value_t = 200)]
    views: usize,
}

/// Upper bound on searched records, which are all held in memory: a turn each minute makes 43,200 in 30 days.
const RECORDS_MAX: usize = 100_000;

/// The turns with a snapshot, oldest first; of too many, a selection spread evenly over the time span.
pub(crate) async fn turns_with_snapshots(
    source: &Source,
    cluster: &ClusterName,
    stretch: &TimeSpan,
) -> Result<Vec<Report>> {
    let now = moment::now();
    let from = stretch.since.before(now)?;
    let until = stretch.until.map_or(Ok(now), |until| until.before(now))?;
    let wanted = JournalQuery {
        about: None,
        from,
        until,
        most: RECORDS_MAX,
    };
    let mut reports = Vec::new();
    for entry in source.latest(cluster, &wanted).await? {
        match Report::read(&entry) {
            Ok(report) if is_whole(&report) => reports.push(report),
            Ok(_) => {}
            Err(error) => eprintln!("whittle: {:#}", anyhow::Error::from(error)),
        }
    }
    reports.reverse();
    if reports.len() < 2 {
        bail!(
            "the journal of cluster {cluster} keeps {} views between {from:.0} and {until:.0}, and two are the least: one is kept every \
             hour, so that a longer time has more",
            reports.len()
        );
    }
    Ok(spread(reports, stretch.views))
}

/// Whether a turn read all pods: the provisioner reads them only when one is pending.
fn is_whole(report: &Report) -> bool {
    report.snapshot.is_some() && (report.lane == Lane::Disruption || report.pods > 0)
}

fn spread(reports: Vec<Report>, most: usize) -> Vec<Report> {
    let (count, most) = (reports.len(), most.max(2));
    if count <= most {
        return reports;
    }
    let last = count - 1;
    let wanted = (0..most).map(|index| index * last / (most - 1));
    let wanted: std::collections::BTreeSet<usize> = wanted.collect();
    let reports = reports.into_iter().enumerate();
    let chosen = reports.filter(|(index, _)| wanted.contains(index));
    chosen.map(|(_, report)| report).collect()
}

/// The snapshot of a turn; `None`, with a warning, if the snapshot has expired.
pub(crate) async fn open(source: &Source, report: &Report) -> Option<Snapshot> {
    match source.snapshot(report).await {
        Ok(snapshot) => Some(snapshot),
        Err(error) => {
            eprintln!("whittle: {error:#}");
            None
        }
    }
}
