//! Removal of the rows of a cluster that Whittle no longer manages.

use model::ClusterName;
use ports::LedgerError;

use crate::{
    TableLedger, key,
    table::{Key, Write},
};

impl TableLedger {
    /// Deletes the rows of a cluster and returns their number. Journal records expire by themselves. No turn may run for the
    /// cluster any more, and its registry entry must be gone.
    pub async fn purge(&self, cluster: &ClusterName) -> Result<usize, LedgerError> {
        let (table, _) = self.store_and_account();
        let relay = Key::relay(cluster);
        let mut removed = 0;
        for pk in [key::partition(cluster), relay.pk] {
            let rows = table.query(&pk, "").await?;
            let keys = rows.iter().map(|row| Key {
                pk: pk.clone(),
                sk: row.sort_key().to_owned(),
            });
            let deletes = keys.map(|key| Write::delete(&key)).collect();
            table.write_together(deletes).await?;
            removed += rows.len();
        }
        // Deleted last: until then a repeated purge finds the cluster again.
        let registered = Key::registered(cluster);
        table.write(Write::delete(&registered)).await?;
        Ok(removed)
    }
}
