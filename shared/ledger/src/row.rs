//! Rows of the table: attributes that conditions compare are stored one by one, the rest as JSON.

use std::{io::Read, sync::Arc};

use jiff::Timestamp;
use model::ledger::{Lease, SCHEMA};
use ports::LedgerError;
use serde::{Serialize, de::DeserializeOwned};

use crate::table::{Item, Key, Value, Write, item_bytes};

/// Attribute with the schema version of the row's record.
pub(crate) const SCHEMA_OF_ROW: &str = "schema";

/// Upper bound on the unpacked size of a packed attribute, in bytes: a hundred times the size of an item.
const UNPACKED_MAX: u64 = 64 << 20;

/// A row as it was read.
pub(crate) struct Row(Arc<Item>);

impl Row {
    pub(crate) fn new(attributes: Arc<Item>) -> Self {
        Self(attributes)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Value::S(text) => Some(text),
            Value::N(_) | Value::B(_) | Value::Bool(_) | Value::M(_) => None,
        }
    }

    fn digits(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Value::N(digits) => Some(digits),
            Value::S(_) | Value::B(_) | Value::Bool(_) | Value::M(_) => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.digits(name)?.parse().ok()
    }

    pub(crate) fn unsigned(&self, name: &str) -> Option<u64> {
        self.digits(name)?.parse().ok()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Bool(true)))
    }

    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.number(name)?).ok()
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        match self.0.get(name)? {
            Value::B(bytes) => Some(bytes),
            Value::S(_) | Value::N(_) | Value::Bool(_) | Value::M(_) => None,
        }
    }

    /// The numeric entries of a map attribute.
    pub(crate) fn numbers(&self, name: &str) -> impl Iterator<Item = (&String, u64)> {
        let map = match self.0.get(name) {
            Some(Value::M(map)) => Some(map),
            Some(Value::S(_) | Value::N(_) | Value::B(_) | Value::Bool(_)) | None => None,
        };
        let entries = map.into_iter().flatten();
        entries.filter_map(|(name, value)| match value {
            Value::N(digits) => Some((name, digits.parse().ok()?)),
            Value::S(_) | Value::B(_) | Value::Bool(_) | Value::M(_) => None,
        })
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, LedgerError> {
        let text = self
            .text(name)
            .ok_or_else(|| self.corrupt(format!("attribute {name} is missing")))?;
        serde_json::from_str(text)
            .map_err(|error| self.unreadable(format!("attribute {name}: {error}")))
    }

    /// Error for a row that cannot be read; names the schema version if a newer version wrote the row.
    pub(crate) fn unreadable(&self, message: String) -> LedgerError {
        match self.unsigned(SCHEMA_OF_ROW) {
            Some(schema) if schema > u64::from(SCHEMA) => LedgerError::Newer {
                pk: self.text("pk").unwrap_or_default().to_owned(),
                sk: self.sort_key().to_owned(),
                schema,
                known: SCHEMA,
            },
            _ => self.corrupt(message),
        }
    }

    pub(crate) fn lease(&self) -> Option<Lease> {
        Some(Lease {
            owner: self.text("leaseOwner")?.into(),
            until: self.time("leaseUntil")?,
        })
    }

    pub(crate) fn sort_key(&self) -> &str {
        self.text("sk").unwrap_or_default()
    }

    /// Moves the row to another key and keeps attributes that are unknown here.
    pub(crate) fn at(self, key: &Key) -> NewRow {
        let mut row = Arc::unwrap_or_clone(self.0);
        row.extend(key.attributes());
        NewRow(row)
    }

    pub(crate) fn corrupt(&self, message: String) -> LedgerError {
        LedgerError::Corrupt {
            pk: self.text("pk").unwrap_or_default().to_owned(),
            sk: self.sort_key().to_owned(),
            message,
        }
    }
}

/// A row to be written.
#[derive(Clone)]
pub(crate) struct NewRow(pub(crate) Item);

impl NewRow {
    pub(crate) fn new(key: &Key) -> Self {
        Self(key.attributes())
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn json(self, name: &str, value: &impl Serialize) -> Result<Self, LedgerError> {
        Ok(self.with(name, json(value)?))
    }

    /// Approximate size in bytes, names and values.
    pub(crate) fn size(&self) -> usize {
        item_bytes(&self.0)
    }

    pub(crate) fn lease(self, lease: Option<&Lease>) -> Self {
        match lease {
            None => self,
            Some(lease) => self
                .with("leaseOwner", lease.owner.as_str())
                .with("leaseUntil", lease.until),
        }
    }

    pub(crate) fn released(mut self) -> Self {
        for name in ["leaseOwner", "leaseUntil"] {
            self.0.remove(name);
        }
        self
    }

    /// Sets when DynamoDB may delete the row; no decision depends on the deletion.
    pub(crate) fn expires(self, at: Timestamp) -> Self {
        self.with("expires", at.as_second())
    }
}

impl Key {
    /// The key as the `pk` and `sk` attributes that every row has.
    pub fn attributes(&self) -> Item {
        [("pk", &self.pk), ("sk", &self.sk)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), Value::S(value.clone())))
            .collect()
    }
}

impl Write {
    /// Writes on condition that the row's body is still as it was read; `None` if there was no row.
    pub(crate) fn when_body_is_as_in(self, row: Option<&Row>) -> Self {
        match row.map(|row| row.text("body")) {
            None => self.when("attribute_not_exists(#pk)"),
            Some(None) => self.when("attribute_not_exists(#body)"),
            Some(Some(body)) => self.when("#body = :before").value("before", body),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::S(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::S(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::N(number.to_string())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::N(number.to_string())
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

/// Stored as milliseconds since the epoch, so that conditions compare numbers.
impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        at.as_millisecond().into()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::B(bytes)
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, LedgerError> {
    serde_json::to_string(value).map_err(|error| LedgerError::Unavailable {
        action: "encode a row".to_owned(),
        message: error.to_string(),
    })
}

/// Compresses a value that is too large for a JSON attribute.
pub(crate) fn pack(value: &impl Serialize) -> Result<Vec<u8>, LedgerError> {
    let json = json(value)?;
    zstd::encode_all(json.as_bytes(), zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|error| {
        LedgerError::Unavailable {
            action: "pack a row".to_owned(),
            message: error.to_string(),
        }
    })
}

pub(crate) fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, String> {
    let mut json = Vec::new();
    zstd::Decoder::new(packed)
        .and_then(|reader| reader.take(UNPACKED_MAX).read_to_end(&mut json))
        .map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

/// Decodes the rows that can be read. A row that cannot be read is logged and skipped; it does not hide other rows.
pub(crate) fn readable<'r, T>(
    rows: impl IntoIterator<Item = &'r Row>,
    read: impl Fn(&Row) -> Result<T, LedgerError>,
) -> impl Iterator<Item = T> {
    rows.into_iter().filter_map(move |row| match read(row) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(%error, "ledger row cannot be decoded; skipped");
            None
        }
    })
}
