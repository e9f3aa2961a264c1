//! The frame of every turn: takes the lane's lease, records the outcome, and schedules the next turn (docs/protocol.md#lanes).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::{
    Batch, ClusterName, Lane, Wake,
    ids::TurnId,
    ledger::{Cursor, Lease, Meta},
};
use ports::{
    CloudError, Cluster, LedgerError,
    ledger::{LaneEnd, Taken},
    queue::DELAY_MAX,
    with_causes,
};

use crate::{
    Entry, EntryError, Outcome, Report, TurnError, World,
    context::Turn,
    lanes::{TurnResult, disruption, lifecycle, provisioner, terminator},
    report::{events, journal, metrics, notifications, status},
    settings::{entry, reach},
};

/// Backoff after a failure; it doubles after each further one, up to the longest.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(5);
const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(5);
/// Time before a notice's deadline within which a failed lane is retried without backoff.
const URGENT_WITHIN: SignedDuration = SignedDuration::from_mins(5);
/// Interval of sweeps. Later due times are left to the sweep; earlier ones need a timer.
const SWEEP_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Runs one turn of a lane, unless one is under way, which is followed by another then. After `deadline` it begins nothing;
/// [`crate::budget`] returns how long a turn should have. An error means that not even the failure could be recorded.
pub async fn run(
    world: &World,
    cluster: &ClusterName,
    lane: Lane,
    id: &TurnId,
    deadline: Timestamp,
) -> Result<Report, TurnError> {
    let wake = Wake::new(cluster.clone(), lane, "unasked");
    woken(world, &wake, id, deadline).await
}

/// [`run`] for a wake, whose hints may choose the objects to read.
pub async fn woken(
    world: &World,
    wake: &Wake,
    id: &TurnId,
    deadline: Timestamp,
) -> Result<Report, TurnError> {
    let (cluster, lane) = (&wake.cluster, wake.lane);
    let now = world.clock.now();
    let meta = world.ledger.meta(cluster).await?;
    // The sweep that mirrors its entry wakes all of its lanes: losing this wake loses nothing.
    let Some(meta) = meta.filter(|meta| !entry::is_unregistered(meta)) else {
        let report = Report {
            outcome: Outcome::Unregistered,
            ..Report::new(cluster, lane, id, now)
        };
        report.log();
        return Ok(report);
    };
    let reach = reach::of_cluster(&meta);
    if reach != world.reach {
        // The functions of the cluster's reach are woken by their own sweep: a redelivered wake would end here again.
        let elsewhere = format!(
            "cluster {cluster} has the reach {reach}, but this function serves {}: its relay must be given the queues of its own reach",
            world.reach
        );
        let report = Report {
            outcome: Outcome::Elsewhere(elsewhere),
            ..Report::new(cluster, lane, id, now)
        };
        report.log();
        return Ok(report);
    }
    let lease = Lease {
        owner: id.clone(),
        until: deadline + executor::LEASE_MARGIN,
    };
    let held = || {
        let report = Report {
            outcome: Outcome::Held,
            ..Report::new(cluster, lane, id, now)
        };
        report.log();
        Ok(report)
    };
    let mut batch = wake.batch;
    if batch == Batch::Open
        && let Some(lease) = lease_of(world, cluster, lane).await?
    {
        if lease.is_live(now) {
            // Marking the lease for another turn would make the turn under way end the batch.
            return held();
        }
        // A turn that died left a full look undone.
        batch = Batch::Closed;
    }
    let wake = &Wake {
        batch,
        ..wake.clone()
    };
    let row = match world.ledger.take_lane(cluster, lane, &lease, now).await? {
        Taken::Mine(row) => row,
        Taken::Held => return held(),
    };
    // An entry that cannot be read fails the turn, which reports it.
    let entry = Entry::read(&meta.registry);
    let destinations = match &entry {
        Ok(entry) => entry.destinations.clone(),
        Err(_) => Vec::new(),
    };
    // A turn is a large state machine; boxed, it does not enlarge its callers.
    let cursor = row.cursor.clone();
    let turn = Box::pin(turn(world, wake, id, (meta, entry), cursor, now, deadline));
    let without_snapshot = |report, cursor| TurnResult {
        report,
        full_look: None,
        snapshot: None,
        cursor,
    };
    let (done, api) = match turn.await {
        Ok(done) => done,
        Err(TurnError::Cloud(error @ CloudError::Postponed { until, .. })) => {
            let mut report = Report::new(cluster, lane, id, now);
            report.outcome = Outcome::Postponed(error.to_string());
            report.run_again_at(until);
            (without_snapshot(report, row.cursor), None)
        }
        Err(error) => {
            let mut report = Report::new(cluster, lane, id, now);
            report.outcome = Outcome::Failed(with_causes(&error));
            let wait = match is_urgent(world, cluster, lane).await {
                true => FIRST_RETRY,
                false => retry_after(row.failures),
            };
            report.run_again_at(world.clock.now() + wait);
            (without_snapshot(report, row.cursor), None)
        }
    };
    let TurnResult {
        mut report,
        full_look,
        snapshot,
        cursor,
    } = done;
    if let Some(due) = row.due.filter(|_| wake.batch == Batch::Open) {
        // The full look that was due is not done.
        report.run_again_at(due);
    }
    let error = match &report.outcome {
        Outcome::Failed(error) => Some(error.clone()),
        Outcome::Done
        | Outcome::Held
        | Outcome::Unregistered
        | Outcome::Elsewhere(_)
        | Outcome::Postponed(_) => None,
    };
    let now = world.clock.now();
    let end = LaneEnd {
        now,
        due: report.due,
        error,
        partial: wake.batch == Batch::Open,
        full_look,
        cursor,
    };
    let ended = world.ledger.end_lane(cluster, lane, id, &end).await?;
    if ended.again {
        world
            .wakes
            .send(
                &Wake::new(cluster.clone(), lane, "again"),
                SignedDuration::ZERO,
            )
            .await?;
    } else if let Err(error) = set_timer(world, cluster, lane, report.due, now).await {
        // The due time is in the ledger, where the sweep finds it.
        report
            .problems
            .push(format!("timer of the next turn not set: {error}"));
    }
    report.woken_at = wake.sent_at;
    let gauges = status::gauges(&report, snapshot.as_ref().filter(|_| api.is_some()));
    journal::record_turn(world, &mut report, snapshot).await;
    let drafts = notifications::of_report(&report);
    if let Err(error) = notifications::enqueue(world, cluster, &destinations, drafts).await {
        report
            .problems
            .push(format!("notifications not queued: {error}"));
    }
    metrics::publish_alarm_counts(world, &report);
    let measured = std::mem::take(&mut report.metrics);
    metrics::publish(world, cluster, measured.clone());
    if let Some(api) = api.filter(|_| world.clock.now() < deadline) {
        let warning = status::publish(&*api, lane, &measured, gauges).await;
        report.warnings.extend(warning);
    }
    report.log();
    Ok(report)
}

/// Runs the lane's turn. Also returns the cluster's API, if the turn may be reported to it.
async fn turn(
    world: &World,
    wake: &Wake,
    id: &TurnId,
    (meta, entry): (Meta, Result<Entry, EntryError>),
    cursor: Option<Cursor>,
    now: Timestamp,
    deadline: Timestamp,
) -> Result<(TurnResult, Option<Arc<dyn Cluster>>), TurnError> {
    let (cluster, lane) = (&wake.cluster, wake.lane);
    let entry = entry.map_err(|source| TurnError::Entry {
        cluster: cluster.clone(),
        source,
    })?;
    let api = world.clusters.connect(cluster, &meta.registry).await?;
    let turn = Turn {
        world,
        cluster,
        lane,
        id,
        meta,
        entry,
        api,
        now,
        deadline,
        view: wake.view.clone(),
        batch: wake.batch,
        cursor,
    };
    let before = turn.api.traffic();
    let mut done = match lane {
        Lane::Provisioner => provisioner::turn(&turn).await,
        Lane::Lifecycle => lifecycle::turn(&turn).await,
        // The largest future of all, boxed so that the others do not take its size.
        Lane::Disruption => Box::pin(disruption::turn(&turn)).await,
        Lane::Terminator => terminator::turn(&turn).await,
        // These two handle events and all clusters; as lanes they have nothing to do.
        Lane::Interruption | Lane::Housekeeper => Ok(TurnResult {
            report: turn.report(),
            full_look: None,
            snapshot: None,
            cursor: None,
        }),
    }?;
    let refused = done.report.take_failures();
    events::post(&turn, &refused, &mut done.report).await;
    done.report.reads.traffic = turn.api.traffic().since(before);
    let may_act = turn.may_act();
    Ok((done, may_act.then_some(turn.api)))
}

/// Sends the lane a delayed wake for a due time before the next sweep; only one at a time, unless another is due sooner.
async fn set_timer(
    world: &World,
    cluster: &ClusterName,
    lane: Lane,
    due: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), TurnError> {
    let Some(due) = due.filter(|due| *due < now + SWEEP_INTERVAL) else {
        return Ok(());
    };
    let due = due.max(now);
    if world.ledger.set_timer(cluster, lane, now, due).await? {
        let delay = due.duration_since(now).min(DELAY_MAX);
        world
            .wakes
            .send(&Wake::new(cluster.clone(), lane, "timer"), delay)
            .await?;
    }
    Ok(())
}

async fn lease_of(
    world: &World,
    cluster: &ClusterName,
    lane: Lane,
) -> Result<Option<Lease>, LedgerError> {
    let lanes = world.ledger.lanes(cluster).await?;
    let row = lanes.into_iter().find(|(known, _)| *known == lane);
    Ok(row.and_then(|(_, row)| row.lease))
}

/// Whether an instance ends soon, so that there is no time to back off.
async fn is_urgent(world: &World, cluster: &ClusterName, lane: Lane) -> bool {
    if !matches!(lane, Lane::Terminator | Lane::Provisioner) {
        return false;
    }
    let now = world.clock.now();
    let soon = |at: Timestamp| at > now && at < now + URGENT_WITHIN;
    match world.ledger.notices(cluster).await {
        Ok(notices) => notices
            .iter()
            .any(|notice| notice.deadline.is_some_and(soon)),
        // Without an answer from the ledger, the lane backs off.
        Err(_) => false,
    }
}

fn retry_after(failures: u32) -> SignedDuration {
    (FIRST_RETRY * 2_i32.pow(failures.min(6))).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_lane_backs_off_exponentially() {
        let waits: Vec<i64> = (0..8)
            .map(|failures| retry_after(failures).as_secs())
            .collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
    }
}
