//! The sweep over all clusters: mirrors the registry, and visits each cluster that is not at rest, to hold its leader Lease, wake lanes
//! that are not provably quiet and collect garbage.
//!
//! A cluster that fails or answers slowly delays no other cluster by more than its slot among the concurrent visits: visits end in any
//! order, each within a time limit, and each sweep begins with other clusters. Duties towards the account wait for no visit.

mod keep;
mod mirror;
mod rest;
mod visit;

use std::collections::BTreeSet;

use futures::{StreamExt, future::join, stream};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, Lane, counted, ids::TurnId, ledger::Meta, singular_or_plural};
use ports::{LedgerError, ledger::ClusterSummary};

use self::{
    mirror::{ClusterSummaries, MirrorResult, mirror},
    visit::{alarm_if_unserved, compatibility_of, visit},
};
use crate::{
    SweepReport, TurnError, World,
    context::{
        heartbeats::Heartbeat,
        identity::EntriesByCluster,
        time_limit::{budget, within},
    },
    interruption,
    report::metrics,
    settings::{entry, reach},
    sweep::{leader, relay_version::RelayCompatibility},
};

/// Period over which the wakes of one sweep are spread.
const SPREAD: SignedDuration = SignedDuration::from_secs(45);

/// Upper bound on clusters that are visited at the same time: connections and lists of that many fit the function's memory.
const CONCURRENT_VISITS: usize = 32;

/// Latest start of a visit, from the sweep's start: a visit that starts then and uses all of its time ends before the sweep's
/// time does.
const LATEST_START: SignedDuration = SignedDuration::from_secs(28);

/// Runs one sweep.
pub async fn housekeep(world: &World, turn: &TurnId) -> Result<SweepReport, TurnError> {
    let mut report = SweepReport::default();
    let begun = world.clock.now();
    // Duties towards the account are done by the public housekeeper alone, which needs no way out of a VPC for them.
    let is_public = world.reach == reach::PUBLIC;
    let entries = match is_public {
        false => None,
        true => world.registry.entries().await.map_or_else(
            |error| {
                // The ledger still has the clusters of the last sweep.
                report.problems.push(format!("registry: {error}"));
                None
            },
            Some,
        ),
    };
    let clusters = world.ledger.clusters().await?.into_iter();
    let registered = entries.iter().flatten();
    let registered = registered.map(|entry| entry.cluster.clone());
    let clusters: BTreeSet<ClusterName> = clusters.chain(registered).collect();
    world.heartbeats.retain(&clusters);
    let read_at = world.clock.now();
    let summaries = world.ledger.cluster_summaries(&clusters).await;
    // Work for the whole account continues.
    let summaries = summaries.unwrap_or_else(|error| {
        let all = clusters.iter();
        all.map(|cluster| (cluster.clone(), Err(error.clone())))
            .collect()
    });
    let mirrored = mirror(world, entries, &summaries, &mut report).await;
    let count = summaries.len();
    report.clusters = count;
    let account = Box::pin(perform_account_duties(world, turn, &mirrored, count, begun));
    let visits = visit_clusters(world, turn, &mirrored.changed, summaries, read_at, begun);
    let (account_report, cluster_report) = join(account, visits).await;
    report.absorb(account_report);
    report.absorb(cluster_report);
    metrics::publish_alarms(world, report.alarms.len());
    metrics::publish_silent(world, report.silent);
    tracing::info!(
        clusters = report.clusters,
        at_rest = report.at_rest,
        woken = report.woken.join(", "),
        collected = report.collected.join(", "),
        alarms = report.alarms.join("; "),
        problems = report.problems.join("; "),
        warnings = report.warnings.join("; "),
        took = world.clock.now().duration_since(begun).as_secs(),
        "sweep ended"
    );
    Ok(report)
}

/// Duties of the account rather than of one cluster: impaired instances, prices, and spending.
async fn perform_account_duties(
    world: &World,
    turn: &TurnId,
    mirrored: &MirrorResult,
    clusters: usize,
    begun: Timestamp,
) -> SweepReport {
    let mut report = SweepReport::default();
    let renews = world.reach == reach::PUBLIC && clusters > 0;
    if renews {
        metrics::publish_spending(world, mirrored.price);
    }
    let poll = within(
        world,
        time_left(world, begun),
        Box::pin(interruption::poll(world, turn)),
    );
    match poll.await.flatten() {
        Ok(outcomes) => {
            let failed = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
            let failed = failed.map(|error| format!("impaired instance: {error}"));
            report.problems.extend(failed);
        }
        Err(error) => report.problems.push(format!("instance status: {error}")),
    }
    if renews {
        let now = world.clock.now();
        let renewal = world.upkeep.renew_prices(mirrored.look_up, now);
        match within(world, time_left(world, begun), renewal).await {
            Ok(warnings) => report.warnings.extend(warnings),
            Err(error) => report.problems.push(format!("prices: {error}")),
        }
    }
    report
}

/// Visits the clusters that are not at rest, in this minute's order, as long as the sweep's time lasts. `read_at` is the time
/// before anything was read of them.
async fn visit_clusters(
    world: &World,
    turn: &TurnId,
    changed: &BTreeSet<ClusterName>,
    summaries: ClusterSummaries,
    read_at: Timestamp,
    begun: Timestamp,
) -> SweepReport {
    let mut report = SweepReport::default();
    let identified = &EntriesByCluster::of(&summaries);
    let count = summaries.len();
    let mut clusters: Vec<_> = summaries.into_iter().enumerate().collect();
    clusters.rotate_left(first_index(begun, count));
    let to_visit = clusters
        .into_iter()
        .filter_map(|(index, (cluster, summary))| {
            let is_changed = changed.contains(&cluster);
            let must = is_changed || needs_visit(world, &cluster, summary, read_at, &mut report);
            must.then(|| (visit_delay(index, count), cluster))
        });
    let to_visit: Vec<(SignedDuration, ClusterName)> = to_visit.collect();
    let mut left: BTreeSet<ClusterName> = to_visit
        .iter()
        .map(|(_, cluster)| cluster.clone())
        .collect();
    let each = to_visit.into_iter().map(|(place, cluster)| {
        Box::pin(async move {
            let mut report = SweepReport::default();
            let waited = world.clock.now().duration_since(begun);
            if waited > LATEST_START {
                return None;
            }
            // A visit that had to wait is not delayed once more.
            let delay = (place - waited).max(SignedDuration::ZERO);
            if let Err(error) = visit(world, &cluster, turn, identified, delay, &mut report).await {
                report.problems.push(format!("{cluster}: {error}"));
            }
            Some((cluster, report))
        })
    });
    let mut visits = stream::iter(each).buffer_unordered(CONCURRENT_VISITS);
    let all = async {
        while let Some(visited) = visits.next().await {
            if let Some((cluster, visited)) = visited {
                left.remove(&cluster);
                report.absorb(visited);
            }
        }
    };
    let cut_off = within(world, time_left(world, begun), all).await.err();
    if !left.is_empty() {
        let why = cut_off.map_or_else(String::new, |late| format!(" ({late})"));
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        report.problems.push(format!(
            "{} {} not visited in time; the next sweep begins with other clusters{why}: {}",
            counted(left.len(), "cluster"),
            singular_or_plural(&left.len(), "is", "are"),
            left.join(", ")
        ));
    }
    report
}

/// Whether a leader Lease that could not be given up has lapsed since the registry lost a cluster's entry.
fn lease_has_lapsed(meta: &Meta, now: Timestamp) -> bool {
    let since = entry::unlisted_since(&meta.registry);
    since.is_some_and(|since| now.duration_since(since) > leader::DURATION * 2)
}

/// Time left to a sweep, which ends before its function does.
fn time_left(world: &World, begun: Timestamp) -> SignedDuration {
    let spent = world.clock.now().duration_since(begun);
    (budget(Lane::Housekeeper) - spent).max(SignedDuration::ZERO)
}

/// Index in the order of clusters at which a minute's sweep begins. The next minute begins [`CONCURRENT_VISITS`] places later:
/// even if all of them are slow a sweep gets further than that, so that every cluster is visited.
fn first_index(begun: Timestamp, clusters: usize) -> usize {
    let minute = usize::try_from(begun.as_second() / 60).unwrap_or(0);
    minute.wrapping_mul(CONCURRENT_VISITS) % clusters.max(1)
}

/// Delay of a cluster's visit, which spreads visits over the minute.
fn visit_delay(index: usize, clusters: usize) -> SignedDuration {
    let (index, clusters) = (
        i64::try_from(index).unwrap_or(0),
        i64::try_from(clusters).unwrap_or(1).max(1),
    );
    SignedDuration::from_secs(SPREAD.as_secs() * index / clusters)
}

/// Whether a cluster must be visited, by the rows that were read for all clusters together. `read_at` is the time before they
/// were read.
fn needs_visit(
    world: &World,
    cluster: &ClusterName,
    summary: Result<ClusterSummary, LedgerError>,
    read_at: Timestamp,
    report: &mut SweepReport,
) -> bool {
    let summary = match summary {
        Ok(summary) => summary,
        Err(error) => {
            report.problems.push(format!("{cluster}: {error}"));
            return false;
        }
    };
    let now = world.clock.now();
    // The cluster is not registered, or its entry cannot be read.
    let Some(meta) = &summary.meta else {
        return false;
    };
    if reach::of_cluster(meta) != world.reach {
        alarm_if_unserved(world, cluster, meta, &summary.lanes, report);
        return false;
    }
    if entry::is_unregistered(meta) && (summary.memory.released || lease_has_lapsed(meta, now)) {
        report.at_rest += 1;
        return false;
    }
    let beat = summary.beat.as_ref();
    let observation = world
        .heartbeats
        .observe(cluster, beat, &summary.memory, read_at);
    let is_too_old =
        beat.is_some_and(|beat| matches!(compatibility_of(beat), RelayCompatibility::TooOld(_)));
    let relay_is_alive = observation.heartbeat(now) == Heartbeat::Fresh && !is_too_old;
    let why = rest::visit_reason(&summary, meta, relay_is_alive, now);
    report.at_rest += usize::from(why.is_none());
    why.is_some()
}
