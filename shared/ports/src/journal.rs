use std::{collections::BTreeSet, io};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, Lane, ids::TurnId, journal::Subject};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::LedgerError;

/// Decisions of turns, for a month (docs/design.md#journal): written by turns, read by people.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Keeps a record, to be found by its time, its turn and everything it is about. One that has the time, turn and lane of
    /// another replaces it.
    async fn record(&self, cluster: &ClusterName, entry: &JournalEntry) -> Result<(), LedgerError>;
    /// The latest of those wanted, latest first.
    async fn latest(
        &self,
        cluster: &ClusterName,
        wanted: &Wanted,
    ) -> Result<Vec<JournalEntry>, LedgerError>;
    /// One for each lane that the turn did something for.
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

/// Which records: those of turns that began from `from` on and before `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub about: Option<Subject>,
    pub from: Timestamp,
    pub until: Timestamp,
    pub most: usize,
}

/// Makes an object when it is kept.
pub type MakeObject = Box<dyn FnOnce() -> Result<Vec<u8>, io::Error> + Send>;

/// Objects that are too large for the ledger, such as what turns saw.
#[async_trait]
pub trait Archive: Send + Sync {
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ArchiveError>;
    /// The same for an object that is dear to make: who keeps nothing makes nothing.
    async fn put_made(&self, name: &str, make: MakeObject) -> Result<(), ArchiveError> {
        let object = make().map_err(|error| ArchiveError {
            action: "making",
            name: name.to_owned(),
            message: error.to_string(),
        })?;
        self.put(name, object).await
    }
    /// `None` if it never was, or is gone.
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ArchiveError>;
    /// As [`Self::get`], but an error where the object has more bytes than `most`: others may have written it.
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

/// The action of an error about an object that is larger than its reader allows.
const READ_BOUNDED: &str = "reading no more than is allowed";

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
