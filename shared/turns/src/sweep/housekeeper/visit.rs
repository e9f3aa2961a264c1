//! A visit: the sweep's duties to one cluster that is not at rest. The visit holds the housekeeper's lane and reads everything
//! again.

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane, Wake, counted,
    ids::TurnId,
    ledger::{LaneRow, Lease, Meta, RelayBeat, SweepMemory},
};
use ports::ledger::{LaneEnd, Taken};

use super::{
    keep::{VisitContext, perform_duties},
    rest,
};
use crate::{
    Entry, SweepReport, TurnError, World,
    context::{heartbeats::Heartbeat, identity::EntriesByCluster, time_limit::within},
    report::notifications,
    settings::{entry, reach},
    sweep::{
        relay_version::{self, RelayCompatibility},
        shifts,
        wake_reason::wake_reason,
    },
};

/// Upper bound on a visit's calls to a cluster and to its account: a healthy API server answers all of them within two seconds,
/// and a sweep gets through more than a hundred that hang.
pub(super) const VISIT_TIME_MAX: SignedDuration = SignedDuration::from_secs(12);
/// Upper bound on sending one cluster's notifications: webhooks answer within a second or two.
const SENDING_TIME_MAX: SignedDuration = SignedDuration::from_secs(5);
/// Upper bound on the time that a visit's writes to the ledger take; a part of the lease.
const RECORDING_TIME_MAX: SignedDuration = SignedDuration::from_secs(5);

/// Visits a cluster. Wakes are delayed by `delay`.
pub(super) async fn visit(
    world: &World,
    cluster: &ClusterName,
    turn: &TurnId,
    entries: &EntriesByCluster,
    delay: SignedDuration,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let meta = world.ledger.meta(cluster).await?;
    let Some(meta) = meta.filter(|meta| reach::of_cluster(meta) == world.reach) else {
        return Ok(());
    };
    let lease = Lease {
        owner: turn.clone(),
        until: now + VISIT_TIME_MAX + SENDING_TIME_MAX + RECORDING_TIME_MAX,
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
    // Commits from here on are left to another visit.
    memory.generation = Some(meta.generation);
    let lanes = world.ledger.lanes(cluster).await?;
    let mut again = Vec::new();
    // Duties without the API server come first, because they work while it is down.
    let woken = match memory.cluster_gone.is_some() || entry::is_unregistered(&meta) {
        true => Ok(None),
        false => wake_lanes(world, cluster, &lanes, &mut memory, delay, report).await,
    };
    if let Err(error) = alarm_about_stuck_notices(world, cluster, &lanes, report).await {
        report.problems.push(format!("{cluster}: notices: {error}"));
    }
    let duties = async {
        if let Err(error) = shifts::poll(world, cluster, &meta).await {
            report
                .problems
                .push(format!("{cluster}: zonal shifts: {error}"));
        }
        let visited = VisitContext {
            cluster,
            turn,
            meta: &meta,
            lanes: &lanes,
            entries,
        };
        perform_duties(world, &visited, &mut memory, report).await
    };
    let duties = within(world, VISIT_TIME_MAX, Box::pin(duties))
        .await
        .flatten();
    let entry = Entry::read(&meta.registry).ok();
    let is_shifted = entry.as_ref().is_some_and(|entry| entry.zonal_shift);
    let destinations = entry.map(|entry| entry.destinations).unwrap_or_default();
    let send = notifications::send(world, cluster, &destinations, &mut memory, report);
    let sent = within(world, SENDING_TIME_MAX, send).await;
    let now = world.clock.now();
    match sent.and_then(|sent| sent.map_err(TurnError::from)) {
        Ok(waits) => again.extend(waits.then_some(now)),
        Err(error) => {
            again.push(now);
            report
                .problems
                .push(format!("{cluster}: notifications: {error}"));
        }
    }
    if memory != before {
        world.ledger.store_sweep_memory(cluster, &memory).await?;
    }
    let (beat, duties, error) = match (woken, duties) {
        (Ok(beat), Ok(duties)) => (beat, duties, None),
        (Err(error), _) | (_, Err(error)) => (None, None, Some(error.to_string())),
    };
    report
        .problems
        .extend(error.iter().map(|error| format!("{cluster}: {error}")));
    // Every sweep repeats alarms and problems as long as they last. ARC announces zonal shifts by no event, so they are polled.
    let has_messages = !report.alarms.is_empty() || !report.problems.is_empty();
    again
        .extend((has_messages || is_shifted || !memory.announced_shifts.is_empty()).then_some(now));
    again.extend(duties);
    again.push(rest::next_visit(cluster, now));
    let end = LaneEnd {
        now,
        due: again.into_iter().min(),
        full_look: error.is_none().then(|| rest::full_look(beat.as_ref())),
        error,
        partial: false,
        cursor: None,
    };
    world
        .ledger
        .end_lane(cluster, Lane::Housekeeper, turn, &end)
        .await?;
    Ok(())
}

/// Longest time without a full look before a cluster counts as unserved: every lane has a full look each ten minutes.
const UNSERVED_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// Raises an alarm for a cluster of another reach that no function serves.
pub(super) fn alarm_if_unserved(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
    lanes: &[(Lane, LaneRow)],
    report: &mut SweepReport,
) {
    if world.reach != reach::PUBLIC {
        return;
    }
    let now = world.clock.now();
    let is_served = lanes.iter().any(|(_, row)| {
        let is_fresh = |at: Timestamp| now.duration_since(at) < UNSERVED_AFTER;
        // A turn that fails makes its lane due again soon.
        row.last_full_look.is_some_and(is_fresh)
            || row.due.is_some_and(is_fresh)
            || row.lease.as_ref().is_some_and(|lease| lease.is_live(now))
    });
    if !is_served {
        report.alarms.push(format!(
            "{cluster}: no function serves its reach, {}: deploy with VpcLaneId, or infra/vpc-lane.yaml for a further VPC",
            reach::of_cluster(meta)
        ));
    }
}

/// Raises an alarm for interrupted nodes whose lane fails: their pods end with them unless a person intervenes.
async fn alarm_about_stuck_notices(
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
            "{cluster}: the nodes of {} cannot be drained: {}",
            counted(notices.len(), "recorded interruption"),
            row.last_error.as_deref().unwrap_or("no reason is known")
        ));
    }
    Ok(())
}

/// Wakes lanes that are not provably quiet. Returns the relay's row that this was decided by.
async fn wake_lanes(
    world: &World,
    cluster: &ClusterName,
    lanes: &[(Lane, LaneRow)],
    memory: &mut SweepMemory,
    delay: SignedDuration,
    report: &mut SweepReport,
) -> Result<Option<RelayBeat>, TurnError> {
    let read_at = world.clock.now();
    let beat = world.ledger.relay_beat(cluster).await?;
    let now = world.clock.now();
    let heartbeats = &world.heartbeats;
    let observation = heartbeats.observe(cluster, beat.as_ref(), memory, read_at);
    let mut heartbeat = observation.heartbeat(now);
    observation.store_in(memory);
    match beat.as_ref().map(compatibility_of) {
        Some(RelayCompatibility::TooOld(why)) => {
            report.alarms.push(format!("{cluster}: {why}"));
            heartbeat = Heartbeat::Silent;
        }
        Some(RelayCompatibility::Unknown(why)) => report.warnings.push(format!("{cluster}: {why}")),
        Some(RelayCompatibility::Supported) | None => {}
    }
    if heartbeat == Heartbeat::Silent && beat.is_some() && has_nodes(world, cluster).await? {
        report.silent += 1;
    }
    let relay_is_alive = heartbeat == Heartbeat::Fresh;
    for lane in Lane::WOKEN {
        let row = rest::row(lanes, lane);
        if let Some(reason) = wake_reason(lane, &row, beat.as_ref(), relay_is_alive, now) {
            world
                .wakes
                .send(&Wake::new(cluster.clone(), lane, reason), delay)
                .await?;
            report.woken.push(format!("{cluster}/{lane}: {reason}"));
        }
    }
    Ok(beat)
}

pub(super) fn compatibility_of(beat: &RelayBeat) -> RelayCompatibility {
    relay_version::compatibility(&beat.version, env!("CARGO_PKG_VERSION"))
}

/// Whether the cluster has nodes, on which a relay could run: rows of launches last as long as their NodeClaims
/// (docs/protocol.md#a1).
async fn has_nodes(world: &World, cluster: &ClusterName) -> Result<bool, TurnError> {
    Ok(!world.ledger.launched(cluster).await?.is_empty())
}
