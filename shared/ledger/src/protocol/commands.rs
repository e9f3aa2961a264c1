use async_trait::async_trait;
use model::{
    ClusterName, NodeClaimName,
    ledger::{Command, CommandState},
};
use ports::{
    LedgerError,
    ledger::{CommandLedger, Moved},
};

use super::TableLedger;
use crate::commands;

#[async_trait]
impl CommandLedger for TableLedger {
    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError> {
        commands::commands(&self.table, cluster).await
    }

    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: CommandState,
    ) -> Result<Moved, LedgerError> {
        commands::move_command(&self.table, cluster, from, to).await
    }

    async fn note_initialized(
        &self,
        cluster: &ClusterName,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Result<Moved, LedgerError> {
        commands::note_initialized(&self.table, cluster, command, replacements).await
    }

    async fn forget_command(
        &self,
        cluster: &ClusterName,
        command: &Command,
    ) -> Result<(), LedgerError> {
        commands::forget(&self.table, cluster, command).await
    }
}
