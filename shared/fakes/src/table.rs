//! An in-memory DynamoDB table that evaluates expressions, and rejects requests beyond DynamoDB's limits with DynamoDB's errors.

mod expression;
mod throughput;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ledger::table::{
    Batch, Item, Key, Page, Query, Table, TableError, Value, Write, WriteKind, Written, item_bytes,
    longest_pause,
};
use ports::{
    ledger::Moved,
    limits::dynamodb::{
        BATCH_GET_BYTES, BATCH_KEYS, BATCH_WRITES, EXPRESSION_BYTES, ITEM_BYTES, PAGE_BYTES,
        PARTITION_KEY_BYTES, SORT_KEY_BYTES, TRANSACTION_BYTES, TRANSACTION_ITEMS,
    },
};

use self::{
    expression::{Condition, Update, validate},
    throughput::Throughput,
};

/// Seconds from a row's expiry to its removal: DynamoDB removes expired rows with a delay.
const REMOVAL_DELAY: i64 = 60;

/// A table whose rows change only by requests.
#[derive(Default)]
pub struct MemoryTable {
    state: Mutex<State>,
}

/// Faults of the table, until they are set otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableFaults {
    /// Number of the next transactions that conflict with other transactions.
    pub conflicts_of_transactions: u32,
    /// Number of the next plain writes that conflict with transactions.
    pub conflicts_of_writes: u32,
    /// Number of the next batches that leave all but the first row unprocessed.
    pub unprocessed: u32,
    /// Whether partitions are throttled at DynamoDB's throughput.
    pub throttles: bool,
}

/// Number of requests that the table has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    pub reads: u64,
    pub writes: u64,
    pub transactions: u64,
    /// Pauses before a retry.
    pub pauses: u64,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<String, BTreeMap<String, Arc<Item>>>,
    /// Rows that changed since [`MemoryTable::take_changed`].
    changed: BTreeSet<Key>,
    /// Rows that expire, by their expiry in seconds since the epoch.
    expiring: BTreeSet<(i64, Key)>,
    now: Timestamp,
    /// Time that callers have waited since `now`; counts only for the throughput of partitions.
    waited: SignedDuration,
    faults: TableFaults,
    counts: TableCounts,
    throughput: Throughput,
    /// Parsed expressions, by address and length of their text.
    conditions: BTreeMap<(usize, usize), Arc<Condition>>,
    updates: BTreeMap<(usize, usize), Arc<Update>>,
}

impl MemoryTable {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the time and removes expired rows. DynamoDB does so within days, and nothing depends on when.
    pub(crate) fn set_now(&self, now: Timestamp) {
        let mut state = self.lock();
        let passed = now.duration_since(state.now);
        state.waited = (state.waited - passed).max(SignedDuration::ZERO);
        state.now = now;
        while let Some((at, _)) = state.expiring.first()
            && *at + REMOVAL_DELAY <= now.as_second()
            && let Some((_, key)) = state.expiring.pop_first()
        {
            state.store(&key, None);
        }
    }

    pub(crate) fn take_changed(&self) -> BTreeSet<Key> {
        std::mem::take(&mut self.lock().changed)
    }

    pub(crate) fn row(&self, key: &Key) -> Option<Arc<Item>> {
        self.lock().row(key)
    }

    /// Writes or removes a row without a request.
    pub(crate) fn store(&self, key: &Key, row: Option<Item>) {
        self.lock().store(key, row.map(Arc::new));
    }

    pub fn keys(&self) -> Vec<Key> {
        let state = self.lock();
        let rows = state.rows.iter();
        rows.flat_map(|(pk, rows)| {
            rows.keys().map(|sk| Key {
                pk: pk.clone(),
                sk: sk.clone(),
            })
        })
        .collect()
    }

    pub fn set_faults(&self, faults: TableFaults) {
        self.lock().faults = faults;
    }

    pub fn counts(&self) -> TableCounts {
        self.lock().counts
    }
}

impl State {
    fn row(&self, key: &Key) -> Option<Arc<Item>> {
        self.rows.get(&key.pk)?.get(&key.sk).cloned()
    }

    fn store(&mut self, key: &Key, row: Option<Arc<Item>>) {
        let rows = self.rows.entry(key.pk.clone()).or_default();
        let expires = |row: &Arc<Item>| match row.get("expires") {
            Some(Value::N(digits)) => digits.parse::<i64>().ok(),
            _ => None,
        };
        let after = row.as_ref().and_then(expires);
        let before = match row {
            Some(row) => rows.insert(key.sk.clone(), row),
            None => rows.remove(&key.sk),
        };
        if rows.is_empty() {
            self.rows.remove(&key.pk);
        }
        let before = before.as_ref().and_then(expires);
        if before != after {
            if let Some(at) = before {
                self.expiring.remove(&(at, key.clone()));
            }
            if let Some(at) = after {
                self.expiring.insert((at, key.clone()));
            }
        }
        self.changed.insert(key.clone());
    }

    fn condition(&mut self, text: &'static str) -> Arc<Condition> {
        let known = self.conditions.entry((text.as_ptr().addr(), text.len()));
        Arc::clone(known.or_insert_with(|| Arc::new(Condition::parse(text))))
    }

    fn update(&mut self, text: &'static str) -> Arc<Update> {
        let known = self.updates.entry((text.as_ptr().addr(), text.len()));
        Arc::clone(known.or_insert_with(|| Arc::new(Update::parse(text))))
    }

    /// Evaluates a write: the row before and after it, or that its condition does not hold.
    fn evaluate(&mut self, write: &Write) -> Result<Evaluation, TableError> {
        valid_key(&write.key)?;
        let update = match &write.kind {
            WriteKind::Update(text) => Some(*text),
            WriteKind::Put(_) | WriteKind::Delete | WriteKind::Check => None,
        };
        for expression in [write.condition, update].into_iter().flatten() {
            if expression.len() > EXPRESSION_BYTES {
                return Err(invalid(
                    "Expression size has exceeded the maximum allowed size",
                ));
            }
        }
        let before = self.row(&write.key);
        let condition = write.condition.map(|text| self.condition(text));
        let update = update.map(|text| self.update(text));
        validate(write, condition.as_deref(), update.as_deref()).map_err(TableError::Invalid)?;
        if condition.is_some_and(|condition| !condition.holds(before.as_deref(), write)) {
            return Ok(Evaluation::Refused(before));
        }
        let after = match (&write.kind, update) {
            (WriteKind::Put(item), _) => {
                let own = write.key.attributes();
                if own
                    .iter()
                    .any(|(name, value)| item.get(name) != Some(value))
                {
                    return Err(invalid(
                        "One or more parameter values were invalid: Missing the key in the item",
                    ));
                }
                Some(Arc::new(item.clone()))
            }
            (WriteKind::Update(_), Some(update)) => {
                let after = match &before {
                    Some(item) => update.apply(item, write),
                    None => update.apply(&write.key.attributes(), write),
                };
                Some(Arc::new(after.map_err(TableError::Invalid)?))
            }
            (WriteKind::Delete, _) => None,
            (WriteKind::Update(_) | WriteKind::Check, _) => before.clone(),
        };
        if after
            .as_ref()
            .is_some_and(|item| item_bytes(item) > ITEM_BYTES)
        {
            return Err(invalid("Item size has exceeded the maximum allowed size"));
        }
        Ok(Evaluation::Holds { before, after })
    }

    /// The current second for the throughput of partitions.
    fn second(&self) -> i64 {
        self.now.as_second() + self.waited.as_secs()
    }

    fn consume_write(&mut self, key: &Key, bytes: usize, times: u64) -> Result<(), TableError> {
        let now = self.second();
        match self.faults.throttles && !self.throughput.try_write(&key.pk, now, bytes, times) {
            true => Err(TableError::Throttled),
            false => Ok(()),
        }
    }

    fn consume_read(&mut self, pk: &str, bytes: usize) -> Result<(), TableError> {
        let now = self.second();
        match self.faults.throttles && !self.throughput.try_read(pk, now, bytes) {
            true => Err(TableError::Throttled),
            false => Ok(()),
        }
    }
}

enum Evaluation {
    Refused(Option<Arc<Item>>),
    Holds {
        before: Option<Arc<Item>>,
        after: Option<Arc<Item>>,
    },
}

impl Evaluation {
    /// The size by which a write is billed: that of the larger row.
    fn bytes(&self) -> usize {
        let size = |row: &Option<Arc<Item>>| row.as_ref().map_or(0, |item| item_bytes(item));
        match self {
            Self::Refused(before) => size(before),
            Self::Holds { before, after } => size(before).max(size(after)),
        }
    }
}

fn invalid(message: &str) -> TableError {
    TableError::Invalid(format!("ValidationException: {message}"))
}

fn valid_key(key: &Key) -> Result<(), TableError> {
    if key.pk.is_empty() || key.sk.is_empty() {
        return Err(invalid(
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value",
        ));
    }
    if key.pk.len() > PARTITION_KEY_BYTES {
        return Err(invalid(
            "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes",
        ));
    }
    if key.sk.len() > SORT_KEY_BYTES {
        return Err(invalid(
            "One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes",
        ));
    }
    Ok(())
}

/// Returns whether a request names no row twice.
fn are_distinct<'k>(keys: impl IntoIterator<Item = &'k Key>) -> bool {
    let mut seen = BTreeSet::new();
    keys.into_iter().all(|key| seen.insert(key))
}

#[async_trait]
impl Table for MemoryTable {
    async fn get(&self, key: &Key) -> Result<Option<Arc<Item>>, TableError> {
        let mut state = self.lock();
        state.counts.reads += 1;
        valid_key(key)?;
        let row = state.row(key);
        let bytes = row.as_ref().map_or(0, |item| item_bytes(item));
        state.consume_read(&key.pk, bytes)?;
        Ok(row)
    }

    async fn batch_get(&self, keys: &[Key]) -> Result<Batch, TableError> {
        let mut state = self.lock();
        state.counts.reads += 1;
        if keys.is_empty() || keys.len() > BATCH_KEYS {
            return Err(invalid(
                "Too many items requested for the BatchGetItem call",
            ));
        }
        if !are_distinct(keys) {
            return Err(invalid("Provided list of item keys contains duplicates"));
        }
        let leaves_unprocessed = state.faults.unprocessed > 0;
        state.faults.unprocessed = state.faults.unprocessed.saturating_sub(1);
        let mut batch = Batch::default();
        let mut answered = 0;
        for (at, key) in keys.iter().enumerate() {
            valid_key(key)?;
            let row = state.row(key);
            let bytes = row.as_ref().map_or(0, |item| item_bytes(item));
            let full = answered + bytes > BATCH_GET_BYTES;
            if full || (leaves_unprocessed && at > 0) || state.consume_read(&key.pk, bytes).is_err()
            {
                batch.unprocessed.push(key.clone());
                continue;
            }
            answered += bytes;
            batch.rows.extend(row);
        }
        match batch.unprocessed.len() == keys.len() {
            true => Err(TableError::Throttled),
            false => Ok(batch),
        }
    }

    async fn batch_write(&self, writes: Vec<Write>) -> Result<Vec<Write>, TableError> {
        let mut state = self.lock();
        state.counts.writes += 1;
        if writes.is_empty() || writes.len() > BATCH_WRITES {
            return Err(invalid(
                "Too many items requested for the BatchWriteItem call",
            ));
        }
        if !are_distinct(writes.iter().map(|write| &write.key)) {
            return Err(invalid("Provided list of item keys contains duplicates"));
        }
        if writes.iter().any(|write| write.condition.is_some()) {
            return Err(invalid("A batch knows no conditions"));
        }
        let leaves_unprocessed = state.faults.unprocessed > 0;
        state.faults.unprocessed = state.faults.unprocessed.saturating_sub(1);
        let count = writes.len();
        let mut left = Vec::new();
        for (at, write) in writes.into_iter().enumerate() {
            if !matches!(write.kind, WriteKind::Put(_) | WriteKind::Delete) {
                return Err(invalid("A batch puts and deletes only"));
            }
            let evaluation = state.evaluate(&write)?;
            let bytes = evaluation.bytes();
            if (leaves_unprocessed && at > 0) || state.consume_write(&write.key, bytes, 1).is_err()
            {
                left.push(write);
                continue;
            }
            if let Evaluation::Holds { after, .. } = evaluation {
                state.store(&write.key, after);
            }
        }
        match left.len() == count {
            true => Err(TableError::Throttled),
            false => Ok(left),
        }
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        let mut state = self.lock();
        state.counts.reads += 1;
        if query.pk.is_empty() || query.from.is_empty() || query.to.is_empty() {
            return Err(invalid("A key condition has an empty value"));
        }
        if query.from > query.to {
            return Err(invalid(
                "The BETWEEN operator requires upper bound to be greater than or equal to lower bound",
            ));
        }
        let mut page = Page::default();
        let mut read = 0;
        if let Some(rows) = state.rows.get(&query.pk) {
            let within = rows.range(query.from.clone()..=query.to.clone());
            let within: Box<dyn Iterator<Item = (&String, &Arc<Item>)>> = match query.backwards {
                true => Box::new(within.rev()),
                false => Box::new(within),
            };
            let is_new = |sk: &String| match (&query.after, query.backwards) {
                (None, _) => true,
                (Some(last), true) => *sk < last.sk,
                (Some(last), false) => *sk > last.sk,
            };
            for (sk, row) in within.filter(|(sk, _)| is_new(sk)) {
                let bytes = item_bytes(row);
                let full = read > 0 && read + bytes > PAGE_BYTES;
                let enough = query.limit.is_some_and(|most| page.rows.len() >= most);
                if full || enough {
                    page.next = Some(last_of(&query.pk, &page));
                    break;
                }
                debug_assert!(!sk.is_empty(), "keys are checked");
                read += bytes;
                page.rows.push(Arc::clone(row));
            }
        }
        state.consume_read(&query.pk, read)?;
        Ok(page)
    }

    async fn write(&self, write: &Write) -> Result<Written, TableError> {
        let mut state = self.lock();
        state.counts.writes += 1;
        if matches!(write.kind, WriteKind::Check) {
            return Err(invalid("A check is a part of transactions only"));
        }
        if state.faults.conflicts_of_writes > 0 {
            state.faults.conflicts_of_writes -= 1;
            return Err(TableError::Conflict);
        }
        let evaluation = state.evaluate(write)?;
        state.consume_write(&write.key, evaluation.bytes(), 1)?;
        match evaluation {
            Evaluation::Refused(before) => Ok(Written::Refused(before)),
            Evaluation::Holds { after, .. } => {
                state.store(&write.key, after.clone());
                let shown = matches!(write.kind, WriteKind::Update(_));
                Ok(Written::Done(after.filter(|_| shown)))
            }
        }
    }

    async fn transact(&self, writes: &[Write]) -> Result<Moved, TableError> {
        let mut state = self.lock();
        state.counts.transactions += 1;
        if writes.is_empty() || writes.len() > TRANSACTION_ITEMS {
            return Err(invalid(
                "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: Member must have length less than or equal to 100",
            ));
        }
        if !are_distinct(writes.iter().map(|write| &write.key)) {
            return Err(invalid(
                "Transaction request cannot include multiple operations on one item",
            ));
        }
        if state.faults.conflicts_of_transactions > 0 {
            state.faults.conflicts_of_transactions -= 1;
            return Err(TableError::Conflict);
        }
        let mut evaluation = Vec::new();
        for write in writes {
            evaluation.push(state.evaluate(write)?);
        }
        if evaluation.iter().map(Evaluation::bytes).sum::<usize>() > TRANSACTION_BYTES {
            return Err(invalid(
                "Transaction size is over the limit: aggregate size of the items exceeds 4 MB",
            ));
        }
        for (write, evaluation) in writes.iter().zip(&evaluation) {
            state.consume_write(&write.key, evaluation.bytes(), 2)?;
        }
        if evaluation
            .iter()
            .any(|evaluation| matches!(evaluation, Evaluation::Refused(_)))
        {
            return Ok(Moved::No);
        }
        for (write, evaluation) in writes.iter().zip(evaluation) {
            if let (Evaluation::Holds { after, .. }, false) =
                (evaluation, matches!(write.kind, WriteKind::Check))
            {
                state.store(&write.key, after);
            }
        }
        Ok(Moved::Yes)
    }

    /// Returns immediately, and counts the pause as time for the throughput of partitions.
    async fn pause(&self, tries: u32) {
        let mut state = self.lock();
        state.counts.pauses += 1;
        state.waited += SignedDuration::try_from(longest_pause(tries)).unwrap_or_default();
    }
}

fn last_of(pk: &str, page: &Page) -> Key {
    let sk = page.rows.last().and_then(|row| match row.get("sk") {
        Some(Value::S(sk)) => Some(sk.clone()),
        _ => None,
    });
    Key {
        pk: pk.to_owned(),
        sk: sk.unwrap_or_default(),
    }
}
