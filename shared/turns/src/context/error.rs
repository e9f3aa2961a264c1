use jiff::SignedDuration;
use model::ClusterName;
use ports::{CloudError, ClusterError, LedgerError, QueueError, RegistryError};
use thiserror::Error;

use crate::settings::entry::EntryError;

/// An error of a turn that could not even be recorded.
#[derive(Debug, Error)]
pub enum TurnError {
    #[error("the registry entry of cluster {cluster} is not usable")]
    Entry {
        cluster: ClusterName,
        #[source]
        source: EntryError,
    },
    #[error("cut off after {}s: its API server, or a service that it depends on, answers too slowly", limit.as_secs())]
    Late { limit: SignedDuration },
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Cloud(#[from] CloudError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

impl From<executor::ExecutorError> for TurnError {
    fn from(error: executor::ExecutorError) -> Self {
        match error {
            executor::ExecutorError::Cloud(error) => error.into(),
            executor::ExecutorError::Cluster(error) => error.into(),
            executor::ExecutorError::Ledger(error) => error.into(),
        }
    }
}
