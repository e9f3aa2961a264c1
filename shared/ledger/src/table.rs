//! Interface of one DynamoDB table, one request per method, without the AWS SDK.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use ports::ledger::Moved;
use thiserror::Error;

/// Attributes by name. Rows are shared after reading, not copied.
pub type Item = BTreeMap<String, Value>;

/// An attribute's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    S(String),
    /// Decimal digits, as DynamoDB sends numbers.
    N(String),
    B(Vec<u8>),
    Bool(bool),
    M(BTreeMap<String, Value>),
}

/// Size of an item as DynamoDB counts it ("DynamoDB item sizes and formats"): names and values, in bytes.
pub fn item_bytes(item: &Item) -> usize {
    let attributes = item.iter();
    attributes
        .map(|(name, value)| name.len() + value_bytes(value))
        .sum()
}

fn value_bytes(value: &Value) -> usize {
    match value {
        Value::S(text) => text.len(),
        // Two digits per byte, and one byte for the exponent.
        Value::N(digits) => digits.len().div_ceil(2) + 1,
        Value::B(bytes) => bytes.len(),
        Value::Bool(_) => 1,
        Value::M(map) => 3 + item_bytes(map) + map.len(),
    }
}

/// A row's partition and sort key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub pk: String,
    pub sk: String,
}

/// One conditional write. In expressions, `#word` is the attribute `word` and `:word` an entry of `values`.
#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub kind: WriteKind,
    pub condition: Option<&'static str>,
    pub values: BTreeMap<&'static str, Value>,
}

#[derive(Clone, Debug)]
pub enum WriteKind {
    Put(Item),
    /// An update expression of `SET` and `REMOVE` clauses.
    Update(&'static str),
    Delete,
    /// A condition on a row that is not written; only in a transaction.
    Check,
}

impl Write {
    pub fn delete(key: &Key) -> Self {
        Self::new(key, WriteKind::Delete)
    }

    pub(crate) fn put(key: &Key, row: crate::row::NewRow) -> Self {
        Self::new(key, WriteKind::Put(row.0))
    }

    pub(crate) fn update(key: &Key, expression: &'static str) -> Self {
        Self::new(key, WriteKind::Update(expression))
    }

    pub(crate) fn check(key: &Key) -> Self {
        Self::new(key, WriteKind::Check)
    }

    fn new(key: &Key, kind: WriteKind) -> Self {
        Self {
            key: key.clone(),
            kind,
            condition: None,
            values: BTreeMap::new(),
        }
    }

    pub(crate) fn when(mut self, condition: &'static str) -> Self {
        self.condition = Some(condition);
        self
    }

    pub(crate) fn value(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// The attributes that the expressions name. All are written as `#word`, so that reserved words need no special treatment.
    pub fn attribute_names(&self) -> impl Iterator<Item = &'static str> {
        let update = match self.kind {
            WriteKind::Update(expression) => expression,
            WriteKind::Put(_) | WriteKind::Delete | WriteKind::Check => "",
        };
        let words =
            |text: &'static str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '#');
        words(update)
            .chain(words(self.condition.unwrap_or_default()))
            .filter_map(|word| word.strip_prefix('#'))
    }
}

/// Whether the condition of a write held.
#[derive(Clone, Debug)]
pub enum Written {
    /// The row after the write; only updates return one.
    Done(Option<Arc<Item>>),
    /// The condition did not hold; the current row.
    Refused(Option<Arc<Item>>),
}

/// Rows of one partition between two sort keys, both included.
#[derive(Clone, Debug)]
pub struct Query {
    pub pk: String,
    pub from: String,
    pub to: String,
    /// Reverse order: last row first.
    pub backwards: bool,
    /// Maximum number of rows per page.
    pub limit: Option<usize>,
    /// The last row of the previous page.
    pub after: Option<Key>,
}

/// A page of a query.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub rows: Vec<Arc<Item>>,
    /// Start of the next page, if there is one.
    pub next: Option<Key>,
}

/// Rows found by a batch read, and the keys that DynamoDB returned as unprocessed.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub rows: Vec<Arc<Item>>,
    pub unprocessed: Vec<Key>,
}

/// Error of a request, by the caller's options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    #[error("throttled")]
    Throttled,
    /// A transaction in progress holds one of the rows: `TransactionConflictException` for a plain write, `TransactionConflict`
    /// for a transaction.
    #[error("another transaction on the row is in progress")]
    Conflict,
    #[error("{0}")]
    Denied(String),
    /// The request can never succeed unchanged: `ValidationException`.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Unavailable(String),
}

/// A DynamoDB table. Every read is strongly consistent.
#[async_trait]
pub trait Table: Send + Sync {
    async fn get(&self, key: &Key) -> Result<Option<Arc<Item>>, TableError>;
    /// At most [`ports::limits::dynamodb::BATCH_KEYS`] keys. Rows come in any order.
    async fn batch_get(&self, keys: &[Key]) -> Result<Batch, TableError>;
    /// Unconditional puts and deletes, at most [`ports::limits::dynamodb::BATCH_WRITES`]; returns the unprocessed ones.
    async fn batch_write(&self, writes: Vec<Write>) -> Result<Vec<Write>, TableError>;
    async fn query(&self, query: &Query) -> Result<Page, TableError>;
    /// One write. Returns the previous row if its condition does not hold, and the new row after an update.
    async fn write(&self, write: &Write) -> Result<Written, TableError>;
    /// One transaction; `No` if some condition did not hold.
    async fn transact(&self, writes: &[Write]) -> Result<Moved, TableError>;
    /// Waits before the next try, longer after each try, with jitter.
    async fn pause(&self, tries: u32);
}

/// Upper bound on the first pause between tries; the bound doubles with each try.
const PAUSE: Duration = Duration::from_millis(50);
/// Upper bound on any pause between tries, so that tries do not become rare while a throttled table recovers.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Upper bound on the pause after this many tries: [`PAUSE`], doubled with each try, but at most [`PAUSE_MAX`].
pub fn longest_pause(tries: u32) -> Duration {
    let most = PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16));
    most.min(PAUSE_MAX)
}
