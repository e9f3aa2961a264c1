use std::collections::BTreeSet;

use model::{Snapshot, ledger::Command};

/// Commands that may be deleted from the ledger: they are over, no longer count for caps, and none of their NodeClaims is left
/// whose drain a pause could suspend.
pub fn spent(snapshot: &Snapshot) -> impl Iterator<Item = &Command> {
    let claims = snapshot.node_claims.iter();
    let left: BTreeSet<_> = claims.map(|claim| &claim.uid).collect();
    snapshot.commands.iter().filter(move |command| {
        let since = snapshot.now.duration_since(command.committed_at);
        command.state.is_over()
            && since >= Command::CAP_WINDOW
            && !command
                .delete
                .iter()
                .any(|target| left.contains(&target.uid))
    })
}
