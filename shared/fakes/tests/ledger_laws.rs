//! The ledger over the in-memory table obeys the same laws as over DynamoDB.

use fakes::{Sim, laws};

#[tokio::test]
async fn ledger_over_memory_table_obeys_the_laws() {
    let sim = Sim::new("unused");
    laws::ledger_laws(&sim, "laws-").await;
    laws::journal_laws(&sim, "laws-").await;
    laws::object_store_laws(&sim).await;
}
