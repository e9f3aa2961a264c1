//! The ledger in memory obeys the laws that the real one is tested by.

use fakes::{Sim, laws};

#[tokio::test]
async fn the_fake_ledger_obeys_the_laws() {
    laws::ledger_laws(&Sim::new("unused"), "laws-").await;
}
