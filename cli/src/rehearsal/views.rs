//! Which views of a stretch of time a rehearsal goes through.

use anyhow::{Result, bail};
use clap::Args;
use model::{ClusterName, Lane, Snapshot};
use ports::journal::Wanted;
use turns::Report;

use crate::{
    journal::source::Source,
    moment::{self, Moment},
};

/// Which time, and how closely it is looked at.
#[derive(Args)]
pub(crate) struct Stretch {
    /// Since when: a time such as 2026-08-22T12:00:00Z, or how long ago, such as 7d.
    #[arg(long, default_value = "7d", value_parser = moment::parse)]
    since: Moment,
    /// Until when, in the same forms; without it, now.
    #[arg(long, value_parser = moment::parse)]
    until: Option<Moment>,
    /// So many views of the cluster are gone through at most, spread over the time.
    #[arg(long, default_value_t = 200)]
    views: usize,
}

/// So many records are looked through.
const RECORDS_MAX: usize = 100_000;

/// The turns whose views are kept, oldest first; of too many such that are spread over the time.
pub(crate) async fn kept(
    source: &Source,
    cluster: &ClusterName,
    stretch: &Stretch,
) -> Result<Vec<Report>> {
    let now = moment::now();
    let from = stretch.since.before(now)?;
    let until = stretch.until.map_or(Ok(now), |until| until.before(now))?;
    let wanted = Wanted {
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

/// The provisioner looks at pods only where one waits.
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
    let kept = reports.filter(|(index, _)| wanted.contains(index));
    kept.map(|(_, report)| report).collect()
}

/// What a turn saw; `None`, and a word about it, where it is not kept any more.
pub(crate) async fn open(source: &Source, report: &Report) -> Option<Snapshot> {
    match source.snapshot(report).await {
        Ok(snapshot) => Some(snapshot),
        Err(error) => {
            eprintln!("whittle: {error:#}");
            None
        }
    }
}
