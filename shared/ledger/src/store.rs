//! The table as the ledger uses it: whole answers instead of pages, and what only needs another try is tried again.

use std::{future::Future, sync::Arc};

use model::ledger::SCHEMA;
use ports::{
    LedgerError,
    ledger::Moved,
    limits::dynamodb::{BATCH_KEYS, BATCH_WRITES},
};

use crate::{
    row::{Row, SCHEMA_OF_ROW},
    table::{Key, Page, Query, Table, TableError, Value, Write, WriteKind, Written as Answer},
};

/// Upper bound on tries of one read or write of many rows of which DynamoDB leaves some out; pauses double, so five take two seconds.
const UNPROCESSED_TRIES: u32 = 6;
/// Upper bound on tries of one request that others' transactions hold up, or of which its partition has no room left in this second.
/// The pauses come to seven seconds at most: a transaction is short, and a second's room is there again in the next.
const PATIENT_TRIES: u32 = 8;

pub(crate) struct Store {
    table: Arc<dyn Table>,
    /// The version of the records, which is put on rows.
    schema: u32,
}

/// Outcome of a conditional write.
pub(crate) enum Written {
    /// With the row as it is now (only updates return one).
    Done(Option<Row>),
    /// The condition did not hold; the row as it is.
    Refused(Option<Row>),
}

impl From<Written> for Moved {
    fn from(written: Written) -> Self {
        match written {
            Written::Done(_) => Self::Yes,
            Written::Refused(_) => Self::No,
        }
    }
}

impl Store {
    pub(crate) fn new(table: Arc<dyn Table>) -> Self {
        Self {
            table,
            schema: SCHEMA,
        }
    }

    pub(crate) fn stamping(self, schema: u32) -> Self {
        Self { schema, ..self }
    }

    /// The write with the version of what is put.
    fn stamped(&self, mut write: Write) -> Write {
        if let WriteKind::Put(row) = &mut write.kind {
            let schema = Value::N(self.schema.to_string());
            row.insert(SCHEMA_OF_ROW.to_owned(), schema);
        }
        write
    }

    /// Makes a request again while only time is in its way.
    async fn patiently<T, F>(&self, request: impl Fn() -> F + Send + Sync) -> Result<T, TableError>
    where
        T: Send,
        F: Future<Output = Result<T, TableError>> + Send,
    {
        for tries in 1..PATIENT_TRIES {
            match request().await {
                Err(TableError::Conflict | TableError::Throttled) => self.table.pause(tries).await,
                answer => return answer,
            }
        }
        request().await
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Row>, LedgerError> {
        let row = self.patiently(|| self.table.get(key)).await;
        Ok(row
            .map_err(|error| sorted("get", key, error))?
            .map(Row::new))
    }

    /// The rows that there are of these, in any order: all, or an error.
    pub(crate) async fn get_together(&self, keys: &[Key]) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        for keys in keys.chunks(BATCH_KEYS) {
            let mut left = keys.to_vec();
            for tries in 1..=UNPROCESSED_TRIES {
                let batch = self.patiently(|| self.table.batch_get(&left)).await;
                let batch =
                    batch.map_err(|error| failed("get rows together with", keys.first(), error))?;
                rows.extend(batch.rows.into_iter().map(Row::new));
                left = batch.unprocessed;
                if left.is_empty() {
                    break;
                }
                self.table.pause(tries).await;
            }
            if !left.is_empty() {
                return Err(left_out("get", keys.first(), left.len()));
            }
        }
        Ok(rows)
    }

    /// Puts and deletes rows that no condition concerns, in any order.
    pub(crate) async fn write_together(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let mut writes: Vec<Write> = writes
            .into_iter()
            .map(|write| self.stamped(write))
            .collect();
        while !writes.is_empty() {
            let rest = writes.split_off(writes.len().min(BATCH_WRITES));
            let first = writes.first().map(|write| write.key.clone());
            let mut left = writes;
            for tries in 1..=UNPROCESSED_TRIES {
                let written = self
                    .patiently(|| self.table.batch_write(left.clone()))
                    .await;
                left = written
                    .map_err(|error| failed("write rows together with", first.as_ref(), error))?;
                if left.is_empty() {
                    break;
                }
                self.table.pause(tries).await;
            }
            if !left.is_empty() {
                return Err(left_out("write", first.as_ref(), left.len()));
            }
            writes = rest;
        }
        Ok(())
    }

    /// Every row of a partition whose sort key begins with `prefix`, in order.
    pub(crate) async fn query(&self, pk: &str, prefix: &str) -> Result<Vec<Row>, LedgerError> {
        // No sort key holds a character above the last one of UTF-8's basic plane.
        self.between(pk, prefix, &format!("{prefix}\u{ffff}")).await
    }

    /// Every row of a partition from one sort key to another, in order.
    pub(crate) async fn between(
        &self,
        pk: &str,
        from: &str,
        to: &str,
    ) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let page = self.page(pk, from, to, None, after).await?;
            rows.extend(page.rows.into_iter().map(Row::new));
            match page.next {
                None => return Ok(rows),
                next => after = next,
            }
        }
    }

    /// The last rows of a partition from one sort key to another, last first.
    pub(crate) async fn latest(
        &self,
        pk: &str,
        from: &str,
        to: &str,
        most: usize,
    ) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        let mut after = None;
        while rows.len() < most {
            let page = self.page(pk, from, to, Some(most.max(1)), after).await?;
            rows.extend(page.rows.into_iter().map(Row::new));
            match page.next {
                None => break,
                next => after = next,
            }
        }
        rows.truncate(most);
        Ok(rows)
    }

    /// One page: in order, or with a limit backwards.
    async fn page(
        &self,
        pk: &str,
        from: &str,
        to: &str,
        limit: Option<usize>,
        after: Option<Key>,
    ) -> Result<Page, LedgerError> {
        let query = Query {
            pk: pk.to_owned(),
            // A sort key is never empty.
            from: if from.is_empty() { " " } else { from }.to_owned(),
            to: to.to_owned(),
            backwards: limit.is_some(),
            limit,
            after,
        };
        let page = self.patiently(|| self.table.query(&query)).await;
        page.map_err(|error| {
            let key = Key {
                pk: query.pk.clone(),
                sk: query.from.clone(),
            };
            sorted("query", &key, error)
        })
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Written, LedgerError> {
        let write = self.stamped(write);
        match self.patiently(|| self.table.write(&write)).await {
            Ok(Answer::Done(row)) => Ok(Written::Done(row.map(Row::new))),
            Ok(Answer::Refused(row)) => Ok(Written::Refused(row.map(Row::new))),
            Err(error) => Err(sorted("write", &write.key, error)),
        }
    }

    /// All or nothing. `No` says that some condition did not hold; the caller reads back to learn which.
    ///
    /// Another call is another request, even with the same content: its conditions are judged anew.
    pub(crate) async fn transact(&self, writes: Vec<Write>) -> Result<Moved, LedgerError> {
        let Some(key) = writes.first().map(|write| write.key.clone()) else {
            return Ok(Moved::Yes);
        };
        let writes: Vec<Write> = writes
            .into_iter()
            .map(|write| self.stamped(write))
            .collect();
        let moved = self.patiently(|| self.table.transact(&writes)).await;
        moved.map_err(|error| sorted("transact", &key, error))
    }

    /// Waits before a conditional write is tried again because another writer was faster.
    pub(crate) async fn pause(&self, tries: u32) {
        self.table.pause(tries).await;
    }
}

fn left_out(action: &str, first: Option<&Key>, left: usize) -> LedgerError {
    let first = first.map_or_else(String::new, |key| format!("{} / {}", key.pk, key.sk));
    LedgerError::Throttled {
        action: format!(
            "{action} rows together with {first}: {left} were left out {UNPROCESSED_TRIES} times"
        ),
    }
}

fn failed(action: &str, key: Option<&Key>, error: TableError) -> LedgerError {
    match key {
        Some(key) => sorted(action, key, error),
        None => LedgerError::Unavailable {
            action: action.to_owned(),
            message: error.to_string(),
        },
    }
}

fn sorted(action: &str, key: &Key, error: TableError) -> LedgerError {
    let action = format!("{action} {} / {}", key.pk, key.sk);
    match error {
        TableError::Throttled => LedgerError::Throttled { action },
        TableError::Conflict => LedgerError::Throttled {
            action: format!("{action}: transactions of others held it up {PATIENT_TRIES} times"),
        },
        TableError::Denied(message) => LedgerError::Denied { action, message },
        TableError::Invalid(message) => LedgerError::Invalid { action, message },
        TableError::Unavailable(message) => LedgerError::Unavailable { action, message },
    }
}
