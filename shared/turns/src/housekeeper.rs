//! The sweep over all clusters: mirrors the registry, holds the leader Leases, wakes lanes that are not provably quiet and
//! collects garbage. One cluster in trouble never keeps the others waiting.

mod keep;
mod mirror;

use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane, Wake,
    ids::TurnId,
    ledger::{LaneRow, Lease, Meta, SweepMemory},
};
use ports::ledger::{LaneEnd, Taken};
use serde::Serialize;

use self::{
    keep::keep,
    mirror::{Mirrored, mirror},
};
use crate::{
    Entry, TurnError, World, budget, interruption, metrics, notifications, reach,
    relay_version::{self, Fit},
    shifts, sweep,
};

/// What one sweep came to, for its log line.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SweepReport {
    pub clusters: usize,
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

/// So many clusters are looked at together: one whose API server is slow keeps none of the others waiting.
const SWEPT_AT_ONCE: usize = 32;

impl SweepReport {
    fn absorb(&mut self, other: Self) {
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
    let mirrored = match is_public {
        false => Mirrored::default(),
        true => match mirror(world, &mut report).await {
            Ok(mirrored) => mirrored,
            Err(error) => {
                // The ledger knows the clusters of the last time.
                report.problems.push(format!("registry: {error}"));
                Mirrored::default()
            }
        },
    };
    let clusters = world.ledger.clusters().await?;
    let count = clusters.len();
    report.clusters = count;
    let each = clusters.into_iter().enumerate().map(|(index, cluster)| {
        let place = place(index, count);
        Box::pin(async move {
            let mut report = SweepReport::default();
            if let Err(error) = one(world, &cluster, turn, place, &mut report).await {
                report.problems.push(format!("{cluster}: {error}"));
            }
            report
        })
    });
    let mut swept = stream::iter(each).buffered(SWEPT_AT_ONCE);
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

async fn one(
    world: &World,
    cluster: &ClusterName,
    turn: &TurnId,
    delay: SignedDuration,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let Some(meta) = world.ledger.meta(cluster).await? else {
        return Ok(());
    };
    if reach::of(&meta) != world.reach {
        return unserved(world, cluster, &meta, report).await;
    }
    let lease = Lease {
        owner: turn.clone(),
        until: now + budget(Lane::Housekeeper),
    };
    if world
        .ledger
        .take_lane(cluster, Lane::Housekeeper, &lease, now)
        .await?
        == Taken::Held
    {
        return Ok(());
    }
    let before = world.ledger.sweep_memory(cluster).await?;
    let mut memory = before.clone();
    let lanes = world.ledger.lanes(cluster).await?;
    // First what needs no API server: it works while that is down.
    let woken = match memory.cluster_gone {
        Some(_) => Ok(()),
        None => wake_restless(world, cluster, &lanes, &mut memory, delay, report).await,
    };
    if let Err(error) = stuck_notices(world, cluster, &lanes, report).await {
        report.problems.push(format!("{cluster}: notices: {error}"));
    }
    if let Err(error) = shifts::poll(world, cluster, &meta).await {
        report
            .problems
            .push(format!("{cluster}: zonal shifts: {error}"));
    }
    let kept = keep(world, cluster, turn, &meta, &lanes, &mut memory, report).await;
    let destinations = Entry::read(&meta.registry).map(|entry| entry.destinations);
    let destinations = destinations.unwrap_or_default();
    if let Err(error) =
        notifications::send(world, cluster, &destinations, &mut memory, report).await
    {
        report
            .problems
            .push(format!("{cluster}: notifications: {error}"));
    }
    if memory != before {
        world.ledger.store_sweep_memory(cluster, &memory).await?;
    }
    let error = woken.and(kept).err().map(|error| error.to_string());
    report
        .problems
        .extend(error.iter().map(|error| format!("{cluster}: {error}")));
    let end = LaneEnd {
        now: world.clock.now(),
        due: None,
        error,
        full_look: None,
        cursor: None,
    };
    world
        .ledger
        .end_lane(cluster, Lane::Housekeeper, turn, &end)
        .await?;
    Ok(())
}

/// Every lane looks at everything every ten minutes; in a quarter of an hour one of them has.
const SERVED_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// Tells of a cluster of another reach for which nobody works.
async fn unserved(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    if world.reach != reach::PUBLIC {
        return Ok(());
    }
    let now = world.clock.now();
    let lanes = world.ledger.lanes(cluster).await?;
    let is_served = lanes.iter().any(|(_, row)| {
        let is_fresh = |at: Timestamp| now.duration_since(at) < SERVED_WITHIN;
        // A turn that fails is due again soon.
        row.last_full_look.is_some_and(is_fresh)
            || row.due.is_some_and(is_fresh)
            || row.lease.as_ref().is_some_and(|lease| lease.is_live(now))
    });
    if !is_served {
        report.alarms.push(format!(
            "{cluster}: no function serves its reach, {}: deploy with VpcLaneId, or infra/vpc-lane.yaml for a further VPC",
            reach::of(meta)
        ));
    }
    Ok(())
}

/// Interrupted nodes whose lane fails: their pods die with them unless somebody sees to it.
async fn stuck_notices(
    world: &World,
    cluster: &ClusterName,
    lanes: &[(Lane, LaneRow)],
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let failing = lanes
        .iter()
        .find(|(lane, row)| *lane == Lane::Terminator && row.failures > 0);
    let Some((_, row)) = failing else {
        return Ok(());
    };
    let notices = world.ledger.notices(cluster).await?;
    if !notices.is_empty() {
        report.alarms.push(format!(
            "{cluster}: {} interruptions are on record and their nodes cannot be drained: {}",
            notices.len(),
            row.last_error.as_deref().unwrap_or("no reason is known")
        ));
    }
    Ok(())
}

async fn wake_restless(
    world: &World,
    cluster: &ClusterName,
    lanes: &[(Lane, LaneRow)],
    memory: &mut SweepMemory,
    delay: SignedDuration,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let beat = world.ledger.relay_beat(cluster).await?;
    let fit = beat
        .as_ref()
        .map(|beat| relay_version::fit(&beat.version, env!("CARGO_PKG_VERSION")));
    let heard = sweep::is_heard(beat.as_ref(), memory, now);
    let heard = match fit {
        Some(Fit::TooOld(why)) => {
            report.alarms.push(format!("{cluster}: {why}"));
            false
        }
        Some(Fit::Unknown(why)) => {
            report.complaints.push(format!("{cluster}: {why}"));
            heard
        }
        Some(Fit::Supported) | None => heard,
    };
    if !heard && beat.is_some() && has_nodes(world, cluster).await? {
        report.silent += 1;
    }
    for lane in Lane::WOKEN {
        let row = lanes
            .iter()
            .find(|(other, _)| *other == lane)
            .map(|(_, row)| row.clone())
            .unwrap_or_default();
        if let Some(reason) = sweep::restless(lane, &row, beat.as_ref(), heard, now) {
            world
                .wakes
                .send(&Wake::new(cluster.clone(), lane, reason), delay)
                .await?;
            report.woken.push(format!("{cluster}/{lane}: {reason}"));
        }
    }
    Ok(())
}

/// Whether there is anything for a relay to run on: rows of launches last as long as their NodeClaims (PROTOCOL A1).
async fn has_nodes(world: &World, cluster: &ClusterName) -> Result<bool, TurnError> {
    Ok(!world.ledger.launched(cluster).await?.is_empty())
}
