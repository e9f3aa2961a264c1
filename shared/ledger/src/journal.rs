//! The journal: one row per record, and one index row for each object that a record is about, so that an object's records are
//! found without reading all.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, ids::TurnId, journal::Subject};
use ports::{
    Journal, JournalEntry, LedgerError, journal::JournalQuery, limits::dynamodb::ITEM_BYTES,
};

use crate::{
    TableLedger, key,
    row::{NewRow, Row, json, pack, unpack},
    store::Store,
    table::{Key, Write},
};

/// Retention of a record (docs/design.md#journal).
const RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Most objects of a record that get index rows. A record about more objects is read on every query for any object.
const INDEXED_MAX: usize = 1_000;
/// Least number of unindexed records that a query reads: few of them may be about the object.
const UNINDEXED_MIN: usize = 100;
/// Records read concurrently.
const CONCURRENCY: usize = 32;
/// Upper bound on the bytes of a packed record, which is one item with its key.
const PACKED_MAX: usize = ITEM_BYTES - (20 << 10);

#[async_trait]
impl Journal for TableLedger {
    async fn record(&self, cluster: &ClusterName, entry: &JournalEntry) -> Result<(), LedgerError> {
        record(self.store_and_account().0, cluster, entry).await
    }

    async fn latest(
        &self,
        cluster: &ClusterName,
        wanted: &JournalQuery,
    ) -> Result<Vec<JournalEntry>, LedgerError> {
        latest(self.store_and_account().0, cluster, wanted).await
    }

    async fn of_turn(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
    ) -> Result<Vec<JournalEntry>, LedgerError> {
        let table = self.store_and_account().0;
        let of_turn = key::journal_of_turn(cluster, turn);
        let rows = table.query(&of_turn, "").await?;
        let reads = rows.iter().map(Row::sort_key).map(str::to_owned);
        let reads = stream::iter(reads).map(|sk| read(table, cluster, sk));
        let entries = reads.buffered(CONCURRENCY);
        entries
            .try_filter_map(async |entry| Ok(entry))
            .try_collect()
            .await
    }
}

async fn record(
    table: &Store,
    cluster: &ClusterName,
    entry: &JournalEntry,
) -> Result<(), LedgerError> {
    let own = own_key(cluster, entry);
    let sk = own.sk.clone();
    let expires = expiry(entry);
    let row = row(cluster, entry)?;
    table.write(Write::put(&own, row)).await?;
    let partitions = match entry.about.len() {
        0..=INDEXED_MAX => {
            let about = entry.about.iter();
            about
                .map(|subject| key::journal_of(cluster, subject))
                .collect()
        }
        _ => vec![key::journal_of_many(cluster)],
    };
    let turn = key::journal_of_turn(cluster, &entry.turn);
    let writes = partitions.into_iter().chain([turn]).map(|pk| {
        let key = Key { pk, sk: sk.clone() };
        Write::put(&key, NewRow::new(&key).expires(expires))
    });
    table.write_together(writes.collect()).await
}

fn own_key(cluster: &ClusterName, entry: &JournalEntry) -> Key {
    Key {
        pk: key::journal(cluster),
        // Milliseconds have a fixed width, so that keys sort by time. One turn may write a record for each of several lanes.
        sk: format!("{:.3}#{}#{}", entry.at, entry.turn, entry.lane.as_str()),
    }
}

fn expiry(entry: &JournalEntry) -> Timestamp {
    entry.at.saturating_add(RETENTION).unwrap_or(entry.at)
}

pub(crate) fn row(cluster: &ClusterName, entry: &JournalEntry) -> Result<NewRow, LedgerError> {
    let packed = pack(&entry.body)?;
    if packed.len() > PACKED_MAX {
        let size = packed.len();
        return Err(LedgerError::Invalid {
            action: "a journal record".to_owned(),
            message: format!("it takes {size} bytes of {PACKED_MAX}"),
        });
    }
    let row = NewRow::new(&own_key(cluster, entry));
    Ok(row.with("body", packed).expires(expiry(entry)))
}

async fn latest(
    table: &Store,
    cluster: &ClusterName,
    wanted: &JournalQuery,
) -> Result<Vec<JournalEntry>, LedgerError> {
    // A `#` follows each time, so a key with exactly the bound's time sorts after the bound.
    let (from, until) = (
        format!("{:.3}", wanted.from),
        format!("{:.3}", wanted.until),
    );
    let latest = |pk: String, most: usize| {
        let (from, until) = (from.as_str(), until.as_str());
        async move { table.latest(&pk, from, until, most).await }
    };
    let Some(subject) = &wanted.about else {
        let rows = latest(key::journal(cluster), wanted.most).await?;
        return rows.iter().map(entry).collect();
    };
    let (own, many) = futures::try_join!(
        latest(key::journal_of(cluster, subject), wanted.most),
        latest(
            key::journal_of_many(cluster),
            wanted.most.max(UNINDEXED_MIN)
        ),
    )?;
    let mut found: Vec<String> = own.iter().map(|row| row.sort_key().to_owned()).collect();
    found.extend(many.iter().map(|row| row.sort_key().to_owned()));
    found.sort_unstable_by(|a, b| b.cmp(a));
    let reads = stream::iter(found).map(|sk| read(table, cluster, sk));
    let entries = reads.buffered(CONCURRENCY);
    let entries = entries.try_filter_map(|entry| async move {
        Ok(entry.filter(|entry| entry.about.contains(subject)))
    });
    entries.take(wanted.most).try_collect().await
}

async fn read(
    table: &Store,
    cluster: &ClusterName,
    sk: String,
) -> Result<Option<JournalEntry>, LedgerError> {
    let key = Key {
        pk: key::journal(cluster),
        sk,
    };
    let row = table.get(&key).await?;
    row.as_ref().map(entry).transpose()
}

pub(crate) fn entry(row: &Row) -> Result<JournalEntry, LedgerError> {
    let packed = row.bytes("body");
    let packed = packed.ok_or_else(|| row.corrupt("attribute body is missing".to_owned()))?;
    let body = unpack(packed);
    entry_of(
        row,
        body.map_err(|error| row.corrupt(format!("attribute body: {error}")))?,
    )
}

/// Converts an entry to the form in which it is read back from its row, without compressing it.
pub(crate) fn as_read_back(
    cluster: &ClusterName,
    entry: &JournalEntry,
) -> Result<JournalEntry, LedgerError> {
    let row = Row::new(Arc::new(own_key(cluster, entry).attributes()));
    let body = serde_json::from_str(&json(&entry.body)?);
    entry_of(&row, body.map_err(|error| row.corrupt(error.to_string()))?)
}

fn entry_of(row: &Row, body: serde_json::Value) -> Result<JournalEntry, LedgerError> {
    let corrupt = |message: &str| row.corrupt(message.to_owned());
    let parts: Vec<&str> = row.sort_key().split('#').collect();
    let [at, turn, lane] = *parts else {
        return Err(corrupt("its sort key is no time, turn and lane"));
    };
    let at: Timestamp = at
        .parse()
        .map_err(|_| corrupt("its sort key begins with no time"))?;
    let lane = serde_json::from_value(lane.into())
        .map_err(|_| corrupt("its sort key ends with no lane"))?;
    let about = subjects(&body).collect();
    Ok(JournalEntry {
        turn: turn.into(),
        at,
        lane,
        about,
        body,
    })
}

/// The objects that the lines of a record are about.
fn subjects(body: &serde_json::Value) -> impl Iterator<Item = Subject> {
    let fields = body.as_object().into_iter().flat_map(|body| body.values());
    let lines = fields.filter_map(|field| field.as_array()).flatten();
    let about = lines.filter_map(|line| line.get("about")?.as_array());
    about
        .flatten()
        .filter_map(|subject| subject.as_str()?.parse().ok())
}
