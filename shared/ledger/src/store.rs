//! The table as the ledger uses it: complete results instead of pages, with retries of transient errors.

use std::{future::Future, sync::Arc};

use futures::{StreamExt, stream};
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

/// Batches written concurrently.
const CONCURRENT_BATCHES: usize = 4;
/// Upper bound on tries of one batch of which DynamoDB leaves items unprocessed. Pauses double, so five take two seconds.
const UNPROCESSED_TRIES: u32 = 6;
/// Upper bound on tries of one request that conflicts with other transactions, or that exceeds its partition's throughput in this
/// second. The pauses add up to at most seven seconds: a transaction is short, and throughput is available again in the next
/// second.
const REQUEST_TRIES: u32 = 8;

pub(crate) struct Store {
    table: Arc<dyn Table>,
    /// Schema version that is written to rows.
    schema: u32,
}

/// Whether the condition of a write held.
pub(crate) enum Written {
    /// The row after the write; only updates return one.
    Done(Option<Row>),
    /// The condition did not hold; the current row.
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

    pub(crate) fn with_schema_version(self, schema: u32) -> Self {
        Self { schema, ..self }
    }

    /// Adds the schema version to a put.
    fn with_schema(&self, mut write: Write) -> Write {
        if let WriteKind::Put(row) = &mut write.kind {
            let schema = Value::N(self.schema.to_string());
            row.insert(SCHEMA_OF_ROW.to_owned(), schema);
        }
        write
    }

    /// Retries a request while it conflicts with a transaction or is throttled.
    async fn with_retries<T, F>(
        &self,
        request: impl Fn() -> F + Send + Sync,
    ) -> Result<T, TableError>
    where
        T: Send,
        F: Future<Output = Result<T, TableError>> + Send,
    {
        for tries in 1..REQUEST_TRIES {
            match request().await {
                Err(TableError::Conflict | TableError::Throttled) => self.table.pause(tries).await,
                answer => return answer,
            }
        }
        request().await
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Row>, LedgerError> {
        let row = self.with_retries(|| self.table.get(key)).await;
        Ok(row
            .map_err(|error| ledger_error("get", key, error))?
            .map(Row::new))
    }

    /// Returns those of these rows that exist, in any order: all of them, or an error.
    pub(crate) async fn get_together(&self, keys: &[Key]) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        for keys in keys.chunks(BATCH_KEYS) {
            let mut unprocessed = keys.to_vec();
            for tries in 1..=UNPROCESSED_TRIES {
                let batch = self
                    .with_retries(|| self.table.batch_get(&unprocessed))
                    .await;
                let batch = batch
                    .map_err(|error| batch_error("get rows together with", keys.first(), error))?;
                rows.extend(batch.rows.into_iter().map(Row::new));
                unprocessed = batch.unprocessed;
                if unprocessed.is_empty() {
                    break;
                }
                self.table.pause(tries).await;
            }
            if !unprocessed.is_empty() {
                return Err(unprocessed_error("get", keys.first(), unprocessed.len()));
            }
        }
        Ok(rows)
    }

    /// Unconditional puts and deletes, in any order. A batch that fails does not stop the others; the first error is returned.
    pub(crate) async fn write_together(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let writes: Vec<Write> = writes
            .into_iter()
            .map(|write| self.with_schema(write))
            .collect();
        let batches: Vec<_> = writes
            .chunks(BATCH_WRITES)
            .map(|batch| self.write_batch(batch.to_vec()))
            .collect();
        let written: Vec<_> = stream::iter(batches)
            .buffered(CONCURRENT_BATCHES)
            .collect()
            .await;
        written.into_iter().collect()
    }

    async fn write_batch(&self, writes: Vec<Write>) -> Result<(), LedgerError> {
        let first = writes.first().map(|write| write.key.clone());
        let mut unprocessed = writes;
        for tries in 1..=UNPROCESSED_TRIES {
            let written = self
                .with_retries(|| self.table.batch_write(unprocessed.clone()))
                .await;
            unprocessed = written
                .map_err(|error| batch_error("write rows together with", first.as_ref(), error))?;
            if unprocessed.is_empty() {
                return Ok(());
            }
            self.table.pause(tries).await;
        }
        Err(unprocessed_error(
            "write",
            first.as_ref(),
            unprocessed.len(),
        ))
    }

    /// All rows of a partition whose sort key begins with `prefix`, in order.
    pub(crate) async fn query(&self, pk: &str, prefix: &str) -> Result<Vec<Row>, LedgerError> {
        // No sort key holds a character above the last one of UTF-8's basic plane.
        self.between(pk, prefix, &format!("{prefix}\u{ffff}")).await
    }

    /// All rows of a partition between two sort keys, in order.
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

    /// The last rows of a partition between two sort keys, in reverse order.
    pub(crate) async fn latest(
        &self,
        pk: &str,
        from: &str,
        to: &str,
        limit: usize,
    ) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        let mut after = None;
        while rows.len() < limit {
            let page = self.page(pk, from, to, Some(limit.max(1)), after).await?;
            rows.extend(page.rows.into_iter().map(Row::new));
            match page.next {
                None => break,
                next => after = next,
            }
        }
        rows.truncate(limit);
        Ok(rows)
    }

    /// One page of a query: in order, or in reverse order if there is a limit.
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
        let page = self.with_retries(|| self.table.query(&query)).await;
        page.map_err(|error| {
            let key = Key {
                pk: query.pk.clone(),
                sk: query.from.clone(),
            };
            ledger_error("query", &key, error)
        })
    }

    pub(crate) async fn write(&self, write: Write) -> Result<Written, LedgerError> {
        let write = self.with_schema(write);
        match self.with_retries(|| self.table.write(&write)).await {
            Ok(Answer::Done(row)) => Ok(Written::Done(row.map(Row::new))),
            Ok(Answer::Refused(row)) => Ok(Written::Refused(row.map(Row::new))),
            Err(error) => Err(ledger_error("write", &write.key, error)),
        }
    }

    /// Runs the writes as one transaction. `No` means that some condition did not hold; the caller reads the rows to learn which.
    ///
    /// Every call is a new request, even with the same content, and DynamoDB evaluates the conditions again.
    pub(crate) async fn transact(&self, writes: Vec<Write>) -> Result<Moved, LedgerError> {
        let Some(key) = writes.first().map(|write| write.key.clone()) else {
            return Ok(Moved::Yes);
        };
        let writes: Vec<Write> = writes
            .into_iter()
            .map(|write| self.with_schema(write))
            .collect();
        let moved = self.with_retries(|| self.table.transact(&writes)).await;
        moved.map_err(|error| ledger_error("transact", &key, error))
    }

    /// Waits before the next try of a conditional write that lost against another writer.
    pub(crate) async fn pause(&self, tries: u32) {
        self.table.pause(tries).await;
    }
}

fn unprocessed_error(action: &str, first: Option<&Key>, unprocessed: usize) -> LedgerError {
    let first = first.map_or_else(String::new, |key| format!("{} / {}", key.pk, key.sk));
    LedgerError::Throttled {
        action: format!(
            "{action} rows together with {first}: {unprocessed} were left unprocessed {UNPROCESSED_TRIES} times"
        ),
    }
}

fn batch_error(action: &str, key: Option<&Key>, error: TableError) -> LedgerError {
    match key {
        Some(key) => ledger_error(action, key, error),
        None => LedgerError::Unavailable {
            action: action.to_owned(),
            message: error.to_string(),
        },
    }
}

fn ledger_error(action: &str, key: &Key, error: TableError) -> LedgerError {
    let action = format!("{action} {} / {}", key.pk, key.sk);
    match error {
        TableError::Throttled => LedgerError::Throttled { action },
        TableError::Conflict => LedgerError::Throttled {
            action: format!(
                "{action}: other transactions on the row delayed it {REQUEST_TRIES} times"
            ),
        },
        TableError::Denied(message) => LedgerError::Denied { action, message },
        TableError::Invalid(message) => LedgerError::Invalid { action, message },
        TableError::Unavailable(message) => LedgerError::Unavailable { action, message },
    }
}
