//! Removing what is remembered of a cluster that nobody serves any more.

use model::ClusterName;
use ports::LedgerError;

use crate::{
    DynamoLedger,
    key::{self, Key},
    table::Write,
};

impl DynamoLedger {
    /// Removes the rows of a cluster, and answers how many there were. Records of its decisions expire by themselves. Nothing may
    /// work for the cluster any more, and the registry may not have an entry for it.
    pub async fn purge(&self, cluster: &ClusterName) -> Result<usize, LedgerError> {
        let (table, _) = self.shelf();
        let relay = Key::relay(cluster);
        let mut removed = 0;
        for pk in [key::partition(cluster), relay.pk] {
            for row in table.query(&pk, "").await? {
                let sk = row.sort_key().to_owned();
                let key = Key { pk: pk.clone(), sk };
                table.write(Write::delete(&key)).await?;
                removed += 1;
            }
        }
        // Last: until then whoever purges finds the cluster again.
        let registered = Key::registered(cluster);
        table.write(Write::delete(&registered)).await?;
        Ok(removed)
    }
}
