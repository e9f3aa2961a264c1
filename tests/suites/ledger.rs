//! The laws of the ledger, over DynamoDB's wire protocol and with the table that the template declares.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

mod local_ledger;

use fakes::laws;
use ports::{Shelf, ShelfError};

use self::local_ledger::LocalLedger;

#[tokio::test]
async fn the_ledger_in_dynamodb_obeys_the_laws() {
    let LocalLedger {
        ledger,
        dynamodb: _running,
    } = LocalLedger::start();
    laws::ledger_laws(&ledger, "laws-").await;
    laws::journal_laws(&ledger, "laws-").await;
    laws::shelf_laws(&ledger).await;
    let too_large = noise(1 << 20);
    let error = ledger.put("laws/large", too_large).await.unwrap_err();
    assert!(matches!(error, ShelfError::TooLarge { .. }), "{error}");
}

/// Bytes that cannot be packed: a xorshift sequence.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    (0..size).map(next).collect()
}
