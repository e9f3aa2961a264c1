//! The ledger in memory obeys the laws that the real one is tested by.

use fakes::{Sim, laws};

#[tokio::test]
async fn the_fake_ledger_obeys_the_laws() {
    let sim = Sim::new("unused");
    laws::ledger_laws(&sim, "laws-").await;
    laws::journal_laws(&sim, "laws-").await;
    laws::shelf_laws(&sim).await;
}
