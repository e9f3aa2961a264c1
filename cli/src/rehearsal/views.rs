//! Which views of a stretch of time a rehearsal goes through.

use anyhow::{Result, bail};
use jiff::Timestamp;
use model::{ClusterName, Lane, Snapshot};
use ports::journal::Wanted;
use turns::Report;

use crate::journal::source::Source;

/// So many records are looked through.
const RECORDS_MAX: usize = 100_000;

/// The turns whose views are kept, oldest first; of more than `most` such that are spread over the time.
pub(crate) async fn kept(
    source: &Source,
    cluster: &ClusterName,
    from: Timestamp,
    until: Timestamp,
    most: usize,
) -> Result<Vec<Report>> {
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
    Ok(spread(reports, most))
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
