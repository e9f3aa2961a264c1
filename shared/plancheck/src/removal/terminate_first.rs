//! Nodes of dynamic NodePools that are terminated before their replacement is launched. Each counts against budgets as
//! a disrupted node until its pods have nodes again.

use jiff::SignedDuration;
use model::{
    counted,
    ledger::{Command, CommandState, FreedInstance},
    node_pool::NodePool,
};

use super::Check;
use crate::{
    budget::Reason,
    world::{Machine, is_terminal},
};

/// Time for which pending pods count as those of a terminated node.
const AWAITED_FOR: SignedDuration = SignedDuration::from_hours(1);

impl<'a> Check<'_, 'a> {
    /// Reason why a node may not be terminated before its replacement, given the NodePool's other nodes without
    /// replacement.
    pub(super) fn exceeds_budget_before_replacement(
        &self,
        node: &Machine<'a>,
        pool: &NodePool,
        reason: Reason,
    ) -> Option<String> {
        let commands = self.world.snapshot.commands.iter();
        let gone = commands.filter(|command| {
            let freed = command.choice.as_ref();
            let freed = freed.and_then(|choice| choice.freed.as_ref());
            freed.is_some_and(|freed| freed.node_pool == pool.name && self.lacks(command, freed))
        });
        let missing = gone.count();
        let now = self.world.snapshot.now;
        let may_go = !node.initialized
            || missing == 0
            || self
                .remaining
                .allows_termination_first(pool, reason, missing, now);
        (!may_go).then(|| {
            let are = if missing == 1 { "is" } else { "are" };
            format!(
                "would be terminated before {} of NodePool {} terminated earlier {are} replaced, more than its budgets allow",
                counted(missing, "node"),
                pool.name
            )
        })
    }

    /// Whether the command's node is out of service, while pods like those that ran on it are still pending.
    fn lacks(&self, command: &Command, freed: &FreedInstance) -> bool {
        let snapshot = self.world.snapshot;
        if matches!(
            command.state,
            CommandState::Proposed | CommandState::RolledBack
        ) {
            return false;
        }
        let mut claims = snapshot.node_claims.iter();
        let claim = claims.find(|claim| {
            let mut targets = command.delete.iter();
            targets.any(|target| target.uid == claim.uid)
        });
        if let Some(claim) = claim {
            let goes = command.state.is_open() || claim.deleted_at.is_some();
            return goes && claim.is_true("InstanceTerminating");
        }
        snapshot.pods.iter().any(|pod| {
            let owner = pod.owner.as_ref();
            let since = pod.created_at.unwrap_or(command.committed_at);
            owner.is_some_and(|owner| freed.owners.contains(&owner.uid))
                && pod.node_name.is_none()
                && pod.deletion.is_none()
                && !is_terminal(pod)
                && snapshot.now.duration_since(since) < AWAITED_FOR
        })
    }
}
