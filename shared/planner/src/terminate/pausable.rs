use std::collections::BTreeSet;

use api::conditions::types::DISRUPTION_REASON;
use model::{
    Snapshot, Uid,
    ledger::{Command, CommandState, PauseLevel, Paused},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
};

use crate::lifecycle::expiration;

/// Voluntary drains, which a pause of everything suspends. Drains of interrupted and dead nodes and those ordered by users
/// continue (docs/design.md#never-delayed).
pub(super) struct PausableDrains<'a> {
    snapshot: &'a Snapshot,
    chosen: BTreeSet<&'a Uid>,
    expired: BTreeSet<&'a Uid>,
}

impl<'a> PausableDrains<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let deleted = |command: &&Command| {
            matches!(command.state, CommandState::Deleting | CommandState::Done)
        };
        let commands = snapshot.commands.iter().filter(deleted);
        let (chosen, recorded): (Vec<_>, Vec<_>) =
            commands.partition(|command| command.choice.is_some());
        let uids = |commands: Vec<&'a Command>| {
            let targets = commands.into_iter().flat_map(|command| &command.delete);
            targets.map(|target| &target.uid).collect()
        };
        Self {
            snapshot,
            chosen: uids(chosen),
            expired: uids(recorded),
        }
    }

    /// Pause that suspends the drain of this NodeClaim's node.
    pub(super) fn pause_of(&self, claim: &NodeClaim, node: Option<&Node>) -> Option<Paused<'a>> {
        let now = self.snapshot.now;
        let pool = claim.node_pool();
        let paused = self.snapshot.paused(pool.as_ref(), PauseLevel::All, now)?;
        let chosen = self.chosen.contains(&claim.uid) && claim.is_true(DISRUPTION_REASON);
        let aged = || expiration::expires_at(claim).zip(claim.deleted_at);
        let expired =
            self.expired.contains(&claim.uid) && aged().is_some_and(|(due, at)| due <= at);
        let lives = node.is_some_and(|node| node.ready.status == ConditionStatus::True);
        ((chosen || expired) && lives && !self.is_interrupted(claim)).then_some(paused)
    }

    fn is_interrupted(&self, claim: &NodeClaim) -> bool {
        let instance = claim.status.provider_id.rsplit('/').next();
        let mut notices = self.snapshot.notices.iter();
        notices.any(|notice| Some(notice.instance.as_str()) == instance)
    }
}
