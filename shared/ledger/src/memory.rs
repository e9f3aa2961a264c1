//! What turns remember besides the protocol: nominations, things said once, the sweep's notes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, NodeName, Notification,
    ledger::{RelayBeat, SweepMemory},
};
use ports::LedgerError;

use crate::{
    key::{self, Key},
    row::{NewRow, Row},
    table::{Table, Write, Written},
};

const NOMINATED: &str = "NOMINATED#";
const ONCE: &str = "ONCE#";

pub(crate) async fn nominate(
    table: &Table,
    cluster: &ClusterName,
    nodes: &BTreeMap<NodeName, Timestamp>,
) -> Result<(), LedgerError> {
    for (node, until) in nodes {
        let key = Key {
            pk: key::partition(cluster),
            sk: format!("{NOMINATED}{node}"),
        };
        let write = Write::update(&key, "SET #until = :until, #expires = :expires")
            .when("attribute_not_exists(#until) OR #until < :until")
            .value("until", *until)
            .value("expires", until.as_second());
        table.write(write).await?;
    }
    Ok(())
}

pub(crate) async fn nominations(
    table: &Table,
    cluster: &ClusterName,
    now: Timestamp,
) -> Result<BTreeMap<NodeName, Timestamp>, LedgerError> {
    let rows = table.query(&key::partition(cluster), NOMINATED).await?;
    let nominated = |row: &Row| {
        Some((
            row.sort_key().strip_prefix(NOMINATED)?.into(),
            row.time("until")?,
        ))
    };
    Ok(rows
        .iter()
        .filter_map(nominated)
        .filter(|(_, until)| *until > now)
        .collect())
}

pub(crate) async fn once(
    table: &Table,
    cluster: &ClusterName,
    what: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, LedgerError> {
    let key = Key {
        pk: key::partition(cluster),
        sk: format!("{ONCE}{what}"),
    };
    let write = Write::put(&key, NewRow::new(&key).with("until", until).expires(until))
        .when("attribute_not_exists(#until) OR #until <= :now")
        .value("now", now);
    Ok(matches!(table.write(write).await?, Written::Done(_)))
}

pub(crate) async fn said(
    table: &Table,
    cluster: &ClusterName,
    prefix: &str,
    now: Timestamp,
) -> Result<BTreeSet<String>, LedgerError> {
    let prefix = format!("{ONCE}{prefix}");
    let rows = table.query(&key::partition(cluster), &prefix).await?;
    // DynamoDB deletes what has expired when it comes to it.
    let holds = rows
        .iter()
        .filter(|row| row.time("until").is_some_and(|until| until > now));
    let keys = holds.filter_map(|row| row.sort_key().strip_prefix(ONCE));
    Ok(keys.map(str::to_owned).collect())
}

pub(crate) async fn sweep_memory(
    table: &Table,
    cluster: &ClusterName,
) -> Result<SweepMemory, LedgerError> {
    let row = table.get(&Key::sweep(cluster)).await?;
    sweep_of(row.as_ref())
}

/// Without a row nothing is remembered.
pub(crate) fn sweep_of(row: Option<&Row>) -> Result<SweepMemory, LedgerError> {
    row.map_or_else(|| Ok(SweepMemory::default()), |row| row.json("body"))
}

pub(crate) async fn store_sweep_memory(
    table: &Table,
    cluster: &ClusterName,
    memory: &SweepMemory,
) -> Result<(), LedgerError> {
    let key = Key::sweep(cluster);
    table
        .write(Write::put(&key, NewRow::new(&key).json("body", memory)?))
        .await
        .map(drop)
}

const OUTBOX: &str = "OUTBOX#";
/// What is told is kept for its late doubles.
const NOTIFICATIONS_KEPT: SignedDuration = SignedDuration::from_hours(24);

fn outbox(cluster: &ClusterName, notification: &Notification) -> Key {
    Key {
        pk: key::partition(cluster),
        sk: format!("{OUTBOX}{}", notification.id),
    }
}

pub(crate) async fn put_notifications(
    table: &Table,
    cluster: &ClusterName,
    notifications: &[Notification],
) -> Result<(), LedgerError> {
    for one in notifications {
        let key = outbox(cluster, one);
        let kept = one.at.saturating_add(NOTIFICATIONS_KEPT).unwrap_or(one.at);
        let row = NewRow::new(&key)
            .json("body", one)?
            .with("done", false)
            .expires(kept);
        let write = Write::put(&key, row).when("attribute_not_exists(#pk)");
        table.write(write).await?;
    }
    Ok(())
}

pub(crate) async fn notifications(
    table: &Table,
    cluster: &ClusterName,
) -> Result<Vec<Notification>, LedgerError> {
    let rows = table.query(&key::partition(cluster), OUTBOX).await?;
    let open = rows.iter().filter(|row| !row.flag("done"));
    open.map(|row| row.json("body")).collect()
}

pub(crate) async fn finish_notification(
    table: &Table,
    cluster: &ClusterName,
    notification: &Notification,
) -> Result<(), LedgerError> {
    let write = Write::update(&outbox(cluster, notification), "SET #done = :yes")
        .when("attribute_exists(#pk)")
        .value("yes", true);
    table.write(write).await.map(drop)
}

pub(crate) async fn relay_beat(
    table: &Table,
    cluster: &ClusterName,
) -> Result<Option<RelayBeat>, LedgerError> {
    let row = table.get(&Key::relay(cluster)).await?;
    Ok(row.as_ref().map(beat_of))
}

pub(crate) fn beat_of(row: &Row) -> RelayBeat {
    let text = |name: &str| row.text(name).unwrap_or_default().to_owned();
    let counters = row
        .map("counters")
        .filter_map(|(lane, value)| Some((lane.clone(), value.as_n().ok()?.parse().ok()?)))
        .collect();
    RelayBeat {
        epoch: text("epoch"),
        beat_at: text("beatAt"),
        version: text("version"),
        counters,
        // One that cannot be read is none: the pods are listed.
        view: row
            .text("view")
            .and_then(|text| serde_json::from_str(text).ok()),
    }
}
