use std::{collections::BTreeSet, io};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, Lane, ids::TurnId, journal::Subject};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::LedgerError;

/// Store of turns' decisions for 30 days (docs/design.md#journal). Turns write it, people read it.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Stores a record, indexed by its time, its turn and its subjects. Replaces a record with the same time, turn and
    /// lane.
    async fn record(&self, cluster: &ClusterName, entry: &JournalEntry) -> Result<(), LedgerError>;
    /// The newest records that match `wanted`, newest first.
    async fn latest(
        &self,
        cluster: &ClusterName,
        wanted: &JournalQuery,
    ) -> Result<Vec<JournalEntry>, LedgerError>;
    /// The turn's records: one for each lane that it worked for.
    async fn of_turn(
        &self,
        cluster: &ClusterName,
        turn: &TurnId,
    ) -> Result<Vec<JournalEntry>, LedgerError>;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalEntry {
    pub turn: TurnId,
    pub at: Timestamp,
    pub lane: Lane,
    /// The objects that `body` names as its subjects.
    pub about: BTreeSet<Subject>,
    pub body: serde_json::Value,
}

/// A query for records of turns that began in `from..until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalQuery {
    pub about: Option<Subject>,
    pub from: Timestamp,
    pub until: Timestamp,
    pub most: usize,
}

/// Builds an object when it is stored.
pub type MakeObject = Box<dyn FnOnce() -> Result<Vec<u8>, io::Error> + Send>;

/// Store of objects that are too large for the ledger, such as snapshots.
#[async_trait]
pub trait Archive: Send + Sync {
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ArchiveError>;
    /// Stores an object that is expensive to build. An implementation that stores nothing does not build it.
    async fn put_lazily(&self, name: &str, make: MakeObject) -> Result<(), ArchiveError> {
        let object = make().map_err(|error| ArchiveError {
            action: "making",
            name: name.to_owned(),
            message: error.to_string(),
        })?;
        self.put(name, object).await
    }
    /// `None` if the object does not exist or has expired.
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError>;
    /// Like [`Self::get`], but fails if the object is larger than `most` bytes: other writers may have access.
    async fn get_at_most(&self, name: &str, most: usize) -> Result<Option<Vec<u8>>, ArchiveError> {
        let object = self.get(name).await?;
        match object.as_ref().is_some_and(|object| object.len() > most) {
            true => Err(ArchiveError::too_large(name, most)),
            false => Ok(object),
        }
    }
}

#[derive(Clone, Debug, Error)]
#[error("{action} of {name}: {message}")]
pub struct ArchiveError {
    pub action: &'static str,
    pub name: String,
    pub message: String,
}

/// Action of an [`ArchiveError`] about an object that exceeds its reader's limit.
const READ_BOUNDED: &str = "bounded read";

impl ArchiveError {
    pub fn too_large(name: &str, most: usize) -> Self {
        Self {
            action: READ_BOUNDED,
            name: name.to_owned(),
            message: format!("it has more than {most} bytes"),
        }
    }

    pub fn is_too_large(&self) -> bool {
        self.action == READ_BOUNDED
    }
}
