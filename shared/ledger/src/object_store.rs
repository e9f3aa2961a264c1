//! Objects that are published for all functions of the account: one compressed row each.

use std::io::Read;

use async_trait::async_trait;
use ports::{LedgerError, ObjectStore, ObjectStoreError, limits::dynamodb::ITEM_BYTES};

use crate::{
    TableLedger,
    row::{NewRow, Row},
    store::Store,
    table::{Key, Write},
};

/// Upper bound on the size of a packed object in bytes. The object is one item with its key; a Region's prices take a tenth of
/// this.
const PACKED_MAX: usize = ITEM_BYTES - (50 << 10);
/// Upper bound on the size of an unpacked object in bytes. Whittle's objects are far smaller; a larger one was not written by
/// Whittle.
const UNPACKED_MAX: u64 = 64 << 20;

#[async_trait]
impl ObjectStore for TableLedger {
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        let (table, account) = self.store_and_account();
        get(table, &account.published(name)).await
    }

    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ObjectStoreError> {
        let (table, account) = self.store_and_account();
        put(table, &account.published(name), &object).await
    }
}

async fn get(table: &Store, key: &Key) -> Result<Option<Vec<u8>>, ObjectStoreError> {
    let Some(row) = table.get(key).await? else {
        return Ok(None);
    };
    object(&row).map(Some)
}

pub(crate) fn object(row: &Row) -> Result<Vec<u8>, ObjectStoreError> {
    let packed = row.bytes("body");
    let packed = packed.ok_or_else(|| row.corrupt("attribute body is missing".to_owned()))?;
    let mut object = Vec::new();
    let unpacked = zstd::Decoder::new(packed)
        .and_then(|reader| reader.take(UNPACKED_MAX).read_to_end(&mut object));
    unpacked.map_err(|error| row.corrupt(format!("attribute body: {error}")))?;
    Ok(object)
}

async fn put(table: &Store, key: &Key, object: &[u8]) -> Result<(), ObjectStoreError> {
    table.write(Write::put(key, row(key, object)?)).await?;
    Ok(())
}

pub(crate) fn row(key: &Key, object: &[u8]) -> Result<NewRow, ObjectStoreError> {
    let packed = zstd::encode_all(object, zstd::DEFAULT_COMPRESSION_LEVEL);
    let packed = packed.map_err(|error| LedgerError::Unavailable {
        action: format!("pack {}", key.sk),
        message: error.to_string(),
    })?;
    if packed.len() > PACKED_MAX {
        return Err(ObjectStoreError::TooLarge {
            name: key.sk.clone(),
            size: packed.len(),
            most: PACKED_MAX,
        });
    }
    Ok(NewRow::new(key).with("body", packed))
}
