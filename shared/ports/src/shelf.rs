use async_trait::async_trait;
use thiserror::Error;

use crate::LedgerError;

/// Where the housekeeper leaves what every function may need and none shall look up by itself: small objects of the
/// account, replaced as a whole (docs/design.md#object-store).
#[async_trait]
pub trait Shelf: Send + Sync {
    /// The object as it was put last; `None` if it never was.
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ShelfError>;
    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ShelfError>;
}

#[derive(Clone, Debug, Error)]
pub enum ShelfError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("{name} takes {size} bytes, and there is room for {most}")]
    TooLarge {
        name: String,
        size: usize,
        most: usize,
    },
}
