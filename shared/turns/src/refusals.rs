//! NodeClaims whose deletion the API server refuses, as admission policies do: each is tried again less and less often, for as long as the
//! decision stands.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::{
    Action, NodeClaimName, Snapshot, Uid,
    plan::{Planned, Target},
};
use ports::LedgerError;

use crate::{apply::Applied, lane::Turn, terminations::retry_after};

/// Ledger keys of NodeClaims whose deletion was refused a short while ago.
const REFUSED: &str = "deletion-refused/";

/// Takes out what is planned for NodeClaims whose deletion was refused so recently that it is not tried again yet. Answers when the
/// first of them is.
pub(crate) async fn spare(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    actions: &mut Vec<Planned>,
) -> Result<Option<Timestamp>, LedgerError> {
    let mut deletions = actions.iter().filter_map(|one| one.action.deletion());
    // Only what was decided before can have been refused.
    if !deletions.any(|target| decided_at(snapshot, &target.uid).is_some()) {
        return Ok(None);
    }
    let said = turn.world.ledger.said(turn.cluster, REFUSED, turn.now);
    let resting = said.await?;
    let deletions = actions.iter().filter_map(|one| one.action.deletion());
    let held: Vec<Target> = deletions
        .filter(|target| resting.contains(&key(&target.uid)))
        .cloned()
        .collect();
    let again = held.iter().map(|target| again(turn, snapshot, &target.uid));
    let again = again.min();
    let names: BTreeSet<NodeClaimName> = held.into_iter().map(|target| target.name).collect();
    // What goes with a deletion rests with it.
    actions.retain(|planned| claim_of(planned).is_none_or(|name| !names.contains(name)));
    Ok(again)
}

/// Notes which deletions were refused.
pub(crate) async fn rest(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    actions: &[Planned],
    applied: &Applied,
) -> Result<(), LedgerError> {
    for index in &applied.refused {
        let planned = actions.get(*index);
        if let Some(target) = planned.and_then(|planned| planned.action.deletion()) {
            let until = again(turn, snapshot, &target.uid);
            let ledger = &turn.world.ledger;
            let key = key(&target.uid);
            ledger.once(turn.cluster, &key, turn.now, until).await?;
        }
    }
    Ok(())
}

/// When a deletion that is refused now is tried again.
fn again(turn: &Turn<'_>, snapshot: &Snapshot, claim: &Uid) -> Timestamp {
    let since = decided_at(snapshot, claim).unwrap_or(turn.now);
    let wait = retry_after(turn.now.duration_since(since));
    turn.now.saturating_add(wait).unwrap_or(turn.now)
}

/// When the deletion, or the reboot, was put on record.
fn decided_at(snapshot: &Snapshot, claim: &Uid) -> Option<Timestamp> {
    let mut commands = snapshot.commands.iter();
    let command = commands.find(|command| command.targets().any(|one| one.uid == *claim));
    command.map(|command| command.committed_at)
}

fn claim_of(planned: &Planned) -> Option<&NodeClaimName> {
    if let Action::UpdateNodeClaim(update) = &planned.action {
        return Some(&update.name);
    }
    planned.action.deletion().map(|target| &target.name)
}

fn key(claim: &Uid) -> String {
    format!("{REFUSED}{claim}")
}
