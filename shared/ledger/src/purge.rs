//! Removing what is remembered of a cluster that nobody serves any more.

use model::ClusterName;
use ports::LedgerError;

use crate::{
    TableLedger, key,
    table::{Key, Write},
};

impl TableLedger {
    /// Removes the rows of a cluster, and answers how many there were. Records of its decisions expire by themselves. Nothing may
    /// work for the cluster any more, and the registry may not have an entry for it.
    pub async fn purge(&self, cluster: &ClusterName) -> Result<usize, LedgerError> {
        let (table, _) = self.shelf();
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
        // Last: until then whoever purges finds the cluster again.
        let registered = Key::registered(cluster);
        table.write(Write::delete(&registered)).await?;
        Ok(removed)
    }
}
