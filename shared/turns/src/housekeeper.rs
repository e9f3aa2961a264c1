//! The sweep over all clusters: mirrors the registry, and visits each cluster that is not at rest, to hold its leader Lease, wake lanes
//! that are not provably quiet and collect garbage. One cluster in trouble never keeps the others waiting.

mod keep;
mod mirror;
mod rest;
mod visit;

use std::collections::BTreeSet;

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, ids::TurnId};
use ports::{LedgerError, ledger::Glance};
use serde::Serialize;

use self::{
    mirror::mirror,
    visit::{fit, unserved, visit},
};
use crate::{
    TurnError, World, heartbeats::Heartbeat, interruption, metrics, reach, relay_version::Fit,
};

/// What one sweep came to, for its log line.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
    pub clusters: usize,
    /// Clusters of which nothing was asked but what all are asked together.
    pub at_rest: usize,
    /// `cluster/lane: reason`.
    pub woken: Vec<String>,
    /// Instances, NodeClaims, launch templates and instance profiles that were collected.
    pub collected: Vec<String>,
    /// What needs a person: foreign leaders, the brake, entries that cannot be read.
    pub alarms: Vec<String>,
    pub problems: Vec<String>,
    /// How many relays have fallen silent although their cluster has nodes.
    pub silent: u64,
    /// What everything works in spite of, such as old prices or a relay of an unknown version.
    pub complaints: Vec<String>,
}

/// Wakes of one sweep are spread over this.
const SPREAD: SignedDuration = SignedDuration::from_secs(45);

/// So many clusters are visited together: one whose API server is slow keeps none of the others waiting.
const VISITED_AT_ONCE: usize = 32;

impl SweepReport {
    fn absorb(&mut self, other: Self) {
        self.at_rest += other.at_rest;
        self.woken.extend(other.woken);
        self.collected.extend(other.collected);
        self.alarms.extend(other.alarms);
        self.problems.extend(other.problems);
        self.complaints.extend(other.complaints);
        self.silent += other.silent;
    }
}

/// One sweep.
pub async fn housekeep(world: &World, turn: &TurnId) -> Result<SweepReport, TurnError> {
    let mut report = SweepReport::default();
    // What concerns the account is done by one housekeeper alone, which needs no way out of a VPC for it.
    let is_public = world.reach == reach::PUBLIC;
    let entries = match is_public {
        false => Vec::new(),
        true => world.registry.entries().await.unwrap_or_else(|error| {
            // The ledger knows the clusters of the last time.
            report.problems.push(format!("registry: {error}"));
            Vec::new()
        }),
    };
    let clusters = world.ledger.clusters().await?.into_iter();
    let registered = entries.iter().map(|entry| entry.cluster.clone());
    let clusters: BTreeSet<ClusterName> = clusters.chain(registered).collect();
    world.heartbeats.keep(&clusters);
    let asked = world.clock.now();
    let seen = world.ledger.glances(&clusters).await;
    // What concerns no cluster goes on.
    let seen = seen.unwrap_or_else(|error| {
        let all = clusters.iter();
        all.map(|cluster| (cluster.clone(), Err(error.clone())))
            .collect()
    });
    let mirrored = mirror(world, entries, &seen, &mut report).await;
    let count = seen.len();
    report.clusters = count;
    let each = seen
        .into_iter()
        .enumerate()
        .map(|(index, (cluster, seen))| {
            let place = place(index, count);
            let is_changed = mirrored.changed.contains(&cluster);
            Box::pin(async move {
                let mut report = SweepReport::default();
                let must = is_changed || is_restless(world, &cluster, seen, asked, &mut report);
                if must && let Err(error) = visit(world, &cluster, turn, place, &mut report).await {
                    report.problems.push(format!("{cluster}: {error}"));
                }
                report
            })
        });
    let mut swept = stream::iter(each).buffered(VISITED_AT_ONCE);
    while let Some(swept) = swept.next().await {
        report.absorb(swept);
    }
    match Box::pin(interruption::poll(world, turn)).await {
        Ok(outcomes) => {
            let failed = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
            let failed = failed.map(|error| format!("an instance in trouble: {error}"));
            report.problems.extend(failed);
        }
        Err(error) => report.problems.push(format!("instance status: {error}")),
    }
    // Last, because wakes do not wait for it.
    if is_public && count > 0 {
        let now = world.clock.now();
        let prices = world.upkeep.renew_prices(mirrored.look_up, now).await;
        report.complaints.extend(prices);
        metrics::publish_spending(world, mirrored.price);
    }
    metrics::publish_alarms(world, report.alarms.len());
    metrics::publish_silent(world, report.silent);
    tracing::info!(
        clusters = report.clusters,
        at_rest = report.at_rest,
        woken = report.woken.join(", "),
        collected = report.collected.join(", "),
        alarms = report.alarms.join("; "),
        problems = report.problems.join("; "),
        complaints = report.complaints.join("; "),
        "sweep"
    );
    Ok(report)
}

/// Clusters take turns over the minute.
fn place(index: usize, clusters: usize) -> SignedDuration {
    let (index, clusters) = (
        i64::try_from(index).unwrap_or(0),
        i64::try_from(clusters).unwrap_or(1).max(1),
    );
    SignedDuration::from_secs(SPREAD.as_secs() * index / clusters)
}

/// Whether a cluster must be visited, by what was seen of all clusters together. `asked` is from before they were read.
fn is_restless(
    world: &World,
    cluster: &ClusterName,
    seen: Result<Glance, LedgerError>,
    asked: Timestamp,
    report: &mut SweepReport,
) -> bool {
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => {
            report.problems.push(format!("{cluster}: {error}"));
            return false;
        }
    };
    // Nobody has registered it, or its entry cannot be read.
    let Some(meta) = &seen.meta else {
        return false;
    };
    if reach::of(meta) != world.reach {
        unserved(world, cluster, meta, &seen.lanes, report);
        return false;
    }
    let beat = seen.beat.as_ref();
    let sighting = world.heartbeats.look(cluster, beat, &seen.memory, asked);
    let now = world.clock.now();
    let is_too_old = beat.is_some_and(|beat| matches!(fit(beat), Fit::TooOld(_)));
    let heard = sighting.heartbeat(now) == Heartbeat::Fresh && !is_too_old;
    let why = rest::unrest(&seen, meta, heard, now);
    report.at_rest += usize::from(why.is_none());
    why.is_some()
}
