//! State of turns outside the protocol: nominations, markers of one-time events, the sweep's notes, notifications.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, Lane, Notification,
    ledger::{RelayBeat, SweepMemory},
    plan::Expected,
};
use ports::LedgerError;

use crate::{
    key,
    row::{NewRow, Row, readable},
    store::{Store, Written},
    table::{Key, Write},
};

const NOMINATED: &str = "NOMINATED#";
const ONCE: &str = "ONCE#";
/// Nominations written concurrently.
const CONCURRENCY: usize = 16;

/// Prefix of the name of a NodeClaim whose Node does not exist yet. No Node's name contains a slash.
const NODE_CLAIM_PREFIX: &str = "nodeclaim/";

pub(crate) fn nomination(cluster: &ClusterName, expected: &Expected) -> Key {
    let name = match expected {
        Expected::Node(name) => name.to_string(),
        Expected::NodeClaim(name) => format!("{NODE_CLAIM_PREFIX}{name}"),
    };
    Key {
        pk: key::partition(cluster),
        sk: format!("{NOMINATED}{name}"),
    }
}

pub(crate) fn nominated(row: &Row) -> Option<(Expected, Timestamp)> {
    let name = row.sort_key().strip_prefix(NOMINATED)?;
    let expected = match name.strip_prefix(NODE_CLAIM_PREFIX) {
        Some(claim) => Expected::NodeClaim(claim.into()),
        None => Expected::Node(name.into()),
    };
    Some((expected, row.time("until")?))
}

pub(crate) async fn nominate(
    table: &Store,
    cluster: &ClusterName,
    expected: &BTreeMap<Expected, Timestamp>,
) -> Result<(), LedgerError> {
    // Collected before the first await, so that the future is `Send`.
    let writes: Vec<_> = expected
        .iter()
        .map(|(expected, until)| {
            let key = nomination(cluster, expected);
            let write = Write::update(&key, "SET #until = :until, #expires = :expires")
                .when("attribute_not_exists(#until) OR #until < :until")
                .value("until", *until)
                .value("expires", until.as_second());
            table.write(write)
        })
        .collect();
    let writes = stream::iter(writes).buffer_unordered(CONCURRENCY);
    writes.try_for_each(|_| async { Ok(()) }).await
}

pub(crate) async fn nominations(
    table: &Store,
    cluster: &ClusterName,
    now: Timestamp,
) -> Result<BTreeMap<Expected, Timestamp>, LedgerError> {
    let rows = table.query(&key::partition(cluster), NOMINATED).await?;
    let found = rows.iter().filter_map(nominated);
    Ok(found.filter(|(_, until)| *until > now).collect())
}

pub(crate) fn once_key(cluster: &ClusterName, what: &str) -> Key {
    Key {
        pk: key::partition(cluster),
        sk: format!("{ONCE}{what}"),
    }
}

pub(crate) async fn once(
    table: &Store,
    cluster: &ClusterName,
    what: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, LedgerError> {
    let key = once_key(cluster, what);
    let write = Write::put(&key, NewRow::new(&key).with("until", until).expires(until))
        .when("attribute_not_exists(#until) OR #until <= :now")
        .value("now", now);
    Ok(matches!(table.write(write).await?, Written::Done(_)))
}

pub(crate) async fn set_timer(
    table: &Store,
    cluster: &ClusterName,
    lane: Lane,
    now: Timestamp,
    due: Timestamp,
) -> Result<bool, LedgerError> {
    let key = once_key(cluster, &format!("timer/{lane}"));
    let write = Write::put(&key, NewRow::new(&key).with("until", due).expires(due))
        .when("attribute_not_exists(#until) OR #until <= :now OR #until > :due")
        .value("now", now)
        .value("due", due);
    Ok(matches!(table.write(write).await?, Written::Done(_)))
}

pub(crate) async fn said(
    table: &Store,
    cluster: &ClusterName,
    prefix: &str,
    now: Timestamp,
) -> Result<BTreeSet<String>, LedgerError> {
    let prefix = format!("{ONCE}{prefix}");
    let rows = table.query(&key::partition(cluster), &prefix).await?;
    // DynamoDB deletes expired rows with a delay.
    let holds = rows
        .iter()
        .filter(|row| row.time("until").is_some_and(|until| until > now));
    let keys = holds.filter_map(|row| row.sort_key().strip_prefix(ONCE));
    Ok(keys.map(str::to_owned).collect())
}

pub(crate) async fn sweep_memory(
    table: &Store,
    cluster: &ClusterName,
) -> Result<SweepMemory, LedgerError> {
    let row = table.get(&Key::sweep(cluster)).await?;
    sweep_of(row.as_ref())
}

/// Decodes the housekeeper's notes; empty without a row.
pub(crate) fn sweep_of(row: Option<&Row>) -> Result<SweepMemory, LedgerError> {
    row.map_or_else(|| Ok(SweepMemory::default()), |row| row.json("body"))
}

pub(crate) async fn store_sweep_memory(
    table: &Store,
    cluster: &ClusterName,
    memory: &SweepMemory,
) -> Result<(), LedgerError> {
    let key = Key::sweep(cluster);
    let memory = memory.clone().bounded();
    table
        .write(Write::put(&key, NewRow::new(&key).json("body", &memory)?))
        .await
        .map(drop)
}

const OUTBOX: &str = "OUTBOX#";
/// A notification that was sent is kept this long, so that late duplicates are recognized.
const NOTIFICATION_RETENTION: SignedDuration = SignedDuration::from_hours(24);

pub(crate) fn outbox(cluster: &ClusterName, notification: &Notification) -> Key {
    Key {
        pk: key::partition(cluster),
        sk: format!("{OUTBOX}{}", notification.id),
    }
}

pub(crate) fn notification_row(
    key: &Key,
    notification: &Notification,
) -> Result<NewRow, LedgerError> {
    let expires_at = notification
        .at
        .saturating_add(NOTIFICATION_RETENTION)
        .unwrap_or(notification.at);
    let row = NewRow::new(key).json("body", notification)?;
    Ok(row.with("done", false).expires(expires_at))
}

pub(crate) async fn put_notifications(
    table: &Store,
    cluster: &ClusterName,
    notifications: &[Notification],
) -> Result<(), LedgerError> {
    for notification in notifications {
        let key = outbox(cluster, notification);
        let row = notification_row(&key, notification)?;
        let write = Write::put(&key, row).when("attribute_not_exists(#pk)");
        table.write(write).await?;
    }
    Ok(())
}

pub(crate) async fn notifications(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Vec<Notification>, LedgerError> {
    let rows = table.query(&key::partition(cluster), OUTBOX).await?;
    let open = rows.iter().filter(|row| !row.flag("done"));
    Ok(readable(open, |row| row.json("body")).collect())
}

pub(crate) async fn finish_notification(
    table: &Store,
    cluster: &ClusterName,
    notification: &Notification,
) -> Result<(), LedgerError> {
    let write = Write::update(&outbox(cluster, notification), "SET #done = :yes")
        .when("attribute_exists(#pk)")
        .value("yes", true);
    table.write(write).await.map(drop)
}

pub(crate) async fn relay_beat(
    table: &Store,
    cluster: &ClusterName,
) -> Result<Option<RelayBeat>, LedgerError> {
    let row = table.get(&Key::relay(cluster)).await?;
    Ok(row.as_ref().map(beat_of))
}

pub(crate) fn beat_of(row: &Row) -> RelayBeat {
    let text = |name: &str| row.text(name).unwrap_or_default().to_owned();
    let counters = row.numbers("counters");
    let counters = counters
        .map(|(lane, count)| (lane.clone(), count))
        .collect();
    RelayBeat {
        epoch: text("epoch"),
        beat_at: text("beatAt"),
        version: text("version"),
        counters,
        // A view that cannot be read counts as none: the pods are listed instead.
        view: row
            .text("view")
            .and_then(|text| serde_json::from_str(text).ok()),
    }
}
