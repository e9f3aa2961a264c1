use async_trait::async_trait;
use thiserror::Error;

use crate::LedgerError;

/// Store of small objects of the account that the housekeeper publishes for all functions, so that they need not look
/// them up themselves. Objects are replaced as a whole (docs/design.md#object-store).
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// The latest version of the object; `None` if the object was never stored.
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectStoreError>;
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ObjectStoreError>;
}

#[derive(Clone, Debug, Error)]
pub enum ObjectStoreError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("{name} has {size} bytes: expected at most {most}")]
    TooLarge {
        name: String,
        size: usize,
        most: usize,
    },
}
