//! Lanes: one turn at a time per function and cluster, and the time when the next is due (docs/protocol.md#lanes).

use std::sync::Arc;

use jiff::Timestamp;
use model::{
    ClusterName, Lane,
    ids::TurnId,
    ledger::{LaneRow, Lease, RelayCounter},
};
use ports::{
    LedgerError,
    ledger::{Ended, LaneEnd, Taken},
};

use crate::{
    key,
    row::{Row, json, readable},
    store::{Store, Written},
    table::{Key, Write},
};

/// Tries of a conditional write after reading the row; other turns write concurrently.
const TRIES: u32 = 8;

pub(crate) async fn take(
    table: &Store,
    cluster: &ClusterName,
    lane: Lane,
    lease: &Lease,
    now: Timestamp,
) -> Result<Taken, LedgerError> {
    let key = Key::lane(cluster, lane);
    for tries in 1..=TRIES {
        let before = table.get(&key).await?;
        // The due time is removed only as it was read, so that a wake requested in between is not lost.
        let due = before.as_ref().and_then(|row| row.number("due"));
        let take = match due {
            None => Write::update(&key, "SET #leaseOwner = :me, #leaseUntil = :until")
                .when(FREE_NOT_DUE),
            Some(due) => Write::update(
                &key,
                "SET #leaseOwner = :me, #leaseUntil = :until REMOVE #due",
            )
            .when(FREE_DUE)
            .value("due", due),
        };
        let take = take
            .value("me", lease.owner.as_str())
            .value("until", lease.until)
            .value("now", now);
        match table.write(take).await? {
            Written::Done(row) => {
                let mut row =
                    lane_row(&row.unwrap_or_else(|| Row::new(Arc::new(key.attributes()))));
                row.due = due.and_then(|due| Timestamp::from_millisecond(due).ok());
                return Ok(Taken::Mine(Box::new(row)));
            }
            Written::Refused(Some(row)) => {
                let Some(holder) = row
                    .lease()
                    .filter(|holder| holder.is_live(now) && holder.owner != lease.owner)
                else {
                    continue;
                };
                let ask = Write::update(&key, "SET #again = :yes")
                    .when("#leaseOwner = :holder AND #leaseUntil = :until")
                    .value("yes", true)
                    .value("holder", holder.owner.as_str())
                    .value("until", holder.until);
                if let Written::Done(_) = table.write(ask).await? {
                    return Ok(Taken::Held);
                }
            }
            Written::Refused(None) => {}
        }
        table.pause(tries).await;
    }
    Err(contended(&key))
}

const FREE_NOT_DUE: &str = "(attribute_not_exists(#leaseOwner) OR #leaseUntil <= :now OR #leaseOwner = :me) \
     AND attribute_not_exists(#due)";
const FREE_DUE: &str = "(attribute_not_exists(#leaseOwner) OR #leaseUntil <= :now OR #leaseOwner = :me) \
     AND #due = :due";

pub(crate) async fn end(
    table: &Store,
    cluster: &ClusterName,
    lane: Lane,
    turn: &TurnId,
    end: &LaneEnd,
) -> Result<Ended, LedgerError> {
    let key = Key::lane(cluster, lane);
    for tries in 1..=TRIES {
        let Some(row) = table.get(&key).await? else {
            return Ok(Ended { again: false });
        };
        if row.text("leaseOwner") != Some(turn.as_str()) {
            return Ok(Ended { again: false });
        }
        let again = row.flag("again");
        let asked = row.number("due");
        let own = if again { Some(end.now) } else { end.due }.map(Timestamp::as_millisecond);
        let due = [asked, own].into_iter().flatten().min();
        let release = release(&key, turn, &row, end, again, asked, due)?;
        if let Written::Done(_) = table.write(release).await? {
            return Ok(Ended { again });
        }
        table.pause(tries).await;
    }
    Err(contended(&key))
}

/// Update expression that ends a turn: the attributes that every turn writes and removes, plus the given clauses.
macro_rules! end_turn_expression {
    ($set:literal, $removed:literal) => {
        concat!(
            "SET #failures = :failures, #lastError = :error, #lastFullLook = :looked, #seenEpoch = :epoch, #seenSeq = :seq",
            $set,
            " REMOVE #leaseOwner, #leaseUntil, #again",
            $removed
        )
    };
}

/// The single update that ends a turn, on condition that no wake was requested since the row was read.
fn release(
    key: &Key,
    turn: &TurnId,
    row: &Row,
    end: &LaneEnd,
    again: bool,
    asked: Option<i64>,
    due: Option<i64>,
) -> Result<Write, LedgerError> {
    let failed_before = row.number("failures").unwrap_or(0);
    let (failures, error) = match &end.error {
        Some(error) => (failed_before.saturating_add(1), error.as_str()),
        None if end.partial => (failed_before, row.text("lastError").unwrap_or_default()),
        None => (0, ""),
    };
    let counter_seen = end.full_look.clone().or_else(|| counter(row));
    let looked_at = if end.full_look.is_some() {
        Some(end.now)
    } else {
        row.time("lastFullLook")
    };
    let expression = match (due, &end.cursor) {
        (Some(_), Some(_)) => end_turn_expression!(", #due = :newDue, #cursor = :cursor", ""),
        (Some(_), None) => end_turn_expression!(", #due = :newDue", ", #cursor"),
        (None, Some(_)) => end_turn_expression!(", #cursor = :cursor", ", #due"),
        (None, None) => end_turn_expression!("", ", #due, #cursor"),
    };
    let mut write = Write::update(key, expression);
    if let Some(due) = due {
        write = write.value("newDue", due);
    }
    if let Some(cursor) = &end.cursor {
        write = write.value("cursor", json(cursor)?);
    }
    let write = match (again, asked) {
        (true, Some(asked)) => write
            .when("#leaseOwner = :me AND #again = :yes AND #due = :asked")
            .value("yes", true)
            .value("asked", asked),
        (true, None) => write
            .when("#leaseOwner = :me AND #again = :yes AND attribute_not_exists(#due)")
            .value("yes", true),
        (false, Some(asked)) => write
            .when("#leaseOwner = :me AND attribute_not_exists(#again) AND #due = :asked")
            .value("asked", asked),
        (false, None) => write.when(
            "#leaseOwner = :me AND attribute_not_exists(#again) AND attribute_not_exists(#due)",
        ),
    };
    let RelayCounter { epoch, seq } = counter_seen.unwrap_or_default();
    Ok(write
        .value("me", turn.as_str())
        .value("failures", failures)
        .value("error", error)
        .value("looked", looked_at.map_or(0, Timestamp::as_millisecond))
        .value("epoch", epoch)
        .value("seq", seq))
}

pub(crate) async fn all(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<(Lane, LaneRow)>, LedgerError> {
    let rows = table.query(&key::partition(cluster), key::LANE).await?;
    // A lane that is unknown here belongs to functions of another version.
    let lane = |row: &Row| {
        let name = row.sort_key().strip_prefix(key::LANE).unwrap_or_default();
        let lane = serde_json::from_value(name.into());
        let lane = lane.map_err(|error: serde_json::Error| row.unreadable(error.to_string()))?;
        Ok((lane, lane_row(row)))
    };
    Ok(readable(&rows, lane).collect())
}

pub(crate) async fn make_due(
    table: &Store,
    cluster: &ClusterName,
    lane: Lane,
    when: Timestamp,
) -> Result<(), LedgerError> {
    // A refused write means that the lane is already due earlier.
    table
        .write(due(&Key::lane(cluster, lane), when))
        .await
        .map(drop)
}

fn due(key: &Key, when: Timestamp) -> Write {
    Write::update(key, "SET #due = :due")
        .when("attribute_not_exists(#due) OR #due > :due")
        .value("due", when)
}

/// Makes lanes due within a transaction, in which a refused condition would undo everything else: lanes that are not due earlier are
/// written, and of the others only the due time that was read is checked (docs/protocol.md#l4).
pub(crate) async fn due_in_transaction(
    table: &Store,
    cluster: &ClusterName,
    due_times: &[(Lane, Timestamp)],
) -> Result<Vec<Write>, LedgerError> {
    let mut earliest = std::collections::BTreeMap::<Lane, Timestamp>::new();
    for (lane, when) in due_times {
        earliest
            .entry(*lane)
            .and_modify(|due| *due = (*due).min(*when))
            .or_insert(*when);
    }
    let mut writes = Vec::new();
    for (lane, when) in earliest {
        let key = Key::lane(cluster, lane);
        let earlier = table
            .get(&key)
            .await?
            .and_then(|row| row.number("due"))
            .is_some_and(|due| due <= when.as_millisecond());
        writes.push(if earlier {
            Write::check(&key).when("#due <= :due").value("due", when)
        } else {
            due(&key, when)
        });
    }
    Ok(writes)
}

pub(crate) fn lane_row(row: &Row) -> LaneRow {
    LaneRow {
        lease: row.lease(),
        again: row.flag("again"),
        failures: row
            .number("failures")
            .and_then(|n| n.try_into().ok())
            .unwrap_or(0),
        last_error: row
            .text("lastError")
            .filter(|error| !error.is_empty())
            .map(str::to_owned),
        due: row.time("due"),
        last_full_look: row
            .time("lastFullLook")
            .filter(|at| *at > Timestamp::UNIX_EPOCH),
        seen: counter(row),
        // A cursor of another version that cannot be read counts as none.
        cursor: row.json("cursor").ok(),
    }
}

fn counter(row: &Row) -> Option<RelayCounter> {
    let looked = row.number("lastFullLook").is_some_and(|at| at > 0);
    looked.then(|| RelayCounter {
        epoch: row.text("seenEpoch").unwrap_or_default().to_owned(),
        seq: row.unsigned("seenSeq").unwrap_or(0),
    })
}

fn contended(key: &Key) -> LedgerError {
    LedgerError::Throttled {
        action: format!(
            "update {} / {}: other writers were faster {TRIES} times",
            key.pk, key.sk
        ),
    }
}
