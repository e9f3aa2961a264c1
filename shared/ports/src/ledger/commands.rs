use async_trait::async_trait;
use model::{
    ClusterName, NodeClaimName,
    ledger::{Command, CommandState},
};

use super::{LedgerError, Moved};

/// Disruption commands (docs/protocol.md#disrupting).
#[async_trait]
pub trait CommandLedger: Send + Sync {
    async fn commands(&self, cluster: &ClusterName) -> Result<Vec<Command>, LedgerError>;
    /// Moves a command from exactly its given state (docs/protocol.md#d1). Rolling back one that was replacing also
    /// moves the generation, as an unfenced record (docs/protocol.md#c3), because plans that assumed its nodes to be
    /// removed must not be committed.
    async fn move_command(
        &self,
        cluster: &ClusterName,
        from: &Command,
        to: CommandState,
    ) -> Result<Moved, LedgerError>;
    /// Adds to the command's initialized replacements, if the command is still in its given state.
    async fn note_initialized(
        &self,
        cluster: &ClusterName,
        command: &Command,
        replacements: &[NodeClaimName],
    ) -> Result<Moved, LedgerError>;
    /// Removes a command that is over, so that turns no longer read it. Keeps one whose state has changed in the meantime.
    async fn forget_command(
        &self,
        cluster: &ClusterName,
        command: &Command,
    ) -> Result<(), LedgerError>;
}
