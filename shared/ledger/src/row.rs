//! Rows as DynamoDB holds them: what conditions compare are attributes of their own, the rest is JSON.

use aws_sdk_dynamodb::{primitives::Blob, types::AttributeValue};
use jiff::Timestamp;
use model::ledger::{Lease, SCHEMA};
use ports::LedgerError;
use serde::{Serialize, de::DeserializeOwned};

use crate::key::Key;

#[expect(clippy::disallowed_types, reason = "the SDK's own type for a row")]
pub(crate) type Attributes = std::collections::HashMap<String, AttributeValue>;

/// Where a row says which version of the records it holds.
pub(crate) const SCHEMA_OF_ROW: &str = "schema";

/// A row that was read.
pub(crate) struct Row(Attributes);

impl Row {
    pub(crate) fn new(attributes: Attributes) -> Self {
        Self(attributes)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_s().ok().map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_n().ok()?.parse().ok()
    }

    pub(crate) fn unsigned(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_n().ok()?.parse().ok()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0
            .get(name)
            .and_then(|value| value.as_bool().ok())
            .copied()
            .unwrap_or(false)
    }

    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.number(name)?).ok()
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name)?.as_b().ok().map(Blob::as_ref)
    }

    pub(crate) fn map(&self, name: &str) -> impl Iterator<Item = (&String, &AttributeValue)> {
        self.0
            .get(name)
            .and_then(|value| value.as_m().ok())
            .into_iter()
            .flatten()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, LedgerError> {
        let text = self
            .text(name)
            .ok_or_else(|| self.corrupt(format!("attribute {name} is missing")))?;
        serde_json::from_str(text)
            .map_err(|error| self.unreadable(format!("attribute {name}: {error}")))
    }

    fn unreadable(&self, message: String) -> LedgerError {
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

    /// The same row under another key, with what is not known here.
    pub(crate) fn at(mut self, key: &Key) -> NewRow {
        self.0.extend(key.attributes());
        NewRow(self.0)
    }

    pub(crate) fn corrupt(&self, message: String) -> LedgerError {
        LedgerError::Corrupt {
            pk: self.text("pk").unwrap_or_default().to_owned(),
            sk: self.sort_key().to_owned(),
            message,
        }
    }
}

/// A row to put.
pub(crate) struct NewRow(pub(crate) Attributes);

impl NewRow {
    pub(crate) fn new(key: &Key) -> Self {
        Self(key.attributes())
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let Value(value) = value.into();
        self.0.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn json(self, name: &str, value: &impl Serialize) -> Result<Self, LedgerError> {
        Ok(self.with(name, json(value)?))
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

    /// When DynamoDB may delete the row; nothing depends on when it does.
    pub(crate) fn expires(self, at: Timestamp) -> Self {
        self.with("expires", at.as_second())
    }
}

impl Key {
    pub(crate) fn attributes(&self) -> Attributes {
        [("pk", &self.pk), ("sk", &self.sk)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.clone())))
            .collect()
    }
}

/// An attribute's value.
#[derive(Clone)]
pub(crate) struct Value(pub(crate) AttributeValue);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self(AttributeValue::S(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self(AttributeValue::S(text))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self(AttributeValue::N(number.to_string()))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self(AttributeValue::N(number.to_string()))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self(AttributeValue::Bool(flag))
    }
}

/// Milliseconds since the epoch, so that conditions compare numbers.
impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        at.as_millisecond().into()
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self(AttributeValue::B(Blob::new(bytes)))
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, LedgerError> {
    serde_json::to_string(value).map_err(|error| LedgerError::Unavailable {
        action: "encode a row".to_owned(),
        message: error.to_string(),
    })
}
