//! NodeClaims whose deletion or disruption taint the API server refuses, for example by an admission policy: each is retried
//! at growing intervals, as long as the decision is valid.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use model::{
    Action, NodeClaimName, Snapshot, Uid,
    ledger::{Command, CommandState},
    node_claim::NodeClaim,
    plan::{Planned, Target},
};
use ports::LedgerError;

use crate::{
    act::{apply::Applied, terminations::retry_after},
    context::Turn,
};

/// Prefix of ledger keys of NodeClaims whose deletion was refused a short while ago.
const DELETION_REFUSED: &str = "deletion-refused/";

/// Prefix of ledger keys of NodeClaims that refused the marks of a disruption a short while ago, or whose Nodes did.
const MARK_REFUSED: &str = "mark-refused/";

/// Takes actions on NodeClaims whose deletion was refused too recently out of the list. Returns when the first of them is tried
/// again.
pub(crate) async fn drop_refused_deletions(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    actions: &mut Vec<Planned>,
) -> Result<Option<Timestamp>, LedgerError> {
    let mut deletions = actions
        .iter()
        .filter_map(|planned| planned.action.deletion());
    // Only a deletion that was decided before can have been refused.
    if !deletions.any(|target| decided_at(snapshot, &target.uid).is_some()) {
        return Ok(None);
    }
    let keys = turn
        .world
        .ledger
        .said(turn.cluster, DELETION_REFUSED, turn.now);
    let refusing = keys.await?;
    let deletions = actions
        .iter()
        .filter_map(|planned| planned.action.deletion());
    let held: Vec<Target> = deletions
        .filter(|target| refusing.contains(&deletion_key(&target.uid)))
        .cloned()
        .collect();
    let again = held
        .iter()
        .map(|target| retry_at(turn, snapshot, &target.uid));
    let again = again.min();
    let names: BTreeSet<NodeClaimName> = held.into_iter().map(|target| target.name).collect();
    // Actions that go with a deletion wait with it.
    actions.retain(|planned| claim_of(planned).is_none_or(|name| !names.contains(name)));
    Ok(again)
}

/// Records which deletions were refused.
pub(crate) async fn record_refused_deletions(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    actions: &[Planned],
    applied: &Applied,
) -> Result<(), LedgerError> {
    for index in &applied.refused {
        let planned = actions.get(*index);
        if let Some(target) = planned.and_then(|planned| planned.action.deletion()) {
            let until = retry_at(turn, snapshot, &target.uid);
            let ledger = &turn.world.ledger;
            let key = deletion_key(&target.uid);
            ledger.once(turn.cluster, &key, turn.now, until).await?;
        }
    }
    Ok(())
}

/// NodeClaims that refused the marks of a disruption so recently that they are no candidates yet.
#[derive(Default)]
pub(crate) struct RefusingNodeClaims {
    pub(crate) claims: BTreeSet<NodeClaimName>,
    /// Time at which the first of them is a candidate again.
    pub(crate) until: Option<Timestamp>,
}

/// Finds the NodeClaims that are no candidates because they refused marks.
pub(crate) async fn refusing_node_claims(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
) -> Result<RefusingNodeClaims, LedgerError> {
    let rolled_back = snapshot.commands.iter();
    let rolled_back = rolled_back.filter(|command| command.state == CommandState::RolledBack);
    let targets: Vec<&Target> = rolled_back.flat_map(|command| &command.delete).collect();
    if targets.is_empty() {
        return Ok(RefusingNodeClaims::default());
    }
    let keys = turn.world.ledger.said(turn.cluster, MARK_REFUSED, turn.now);
    let keys = keys.await?;
    let mut refusing = RefusingNodeClaims::default();
    for target in targets {
        if keys.contains(&mark_key(&target.uid)) {
            let until = retry_at(turn, snapshot, &target.uid);
            refusing.until = Some(refusing.until.map_or(until, |first| first.min(until)));
            refusing.claims.insert(target.name.clone());
        }
    }
    Ok(refusing)
}

/// Records which NodeClaims of a command refused its marks, themselves or by their Nodes.
pub(crate) async fn record_refused_marks(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    command: &Command,
    refused: &[&Planned],
) -> Result<(), LedgerError> {
    let is_refused = |target: &&Target| {
        let mut claims = snapshot.node_claims.iter();
        let claim = claims.find(|claim| claim.uid == target.uid);
        claim.is_some_and(|claim| {
            refused
                .iter()
                .any(|planned| changes_claim_or_node(planned, claim))
        })
    };
    let refusing: Vec<&Target> = command.delete.iter().filter(is_refused).collect();
    // If it is unclear whose marks were refused, none of the NodeClaims is tried again immediately.
    let refusing = match refusing.is_empty() {
        true => command.delete.iter().collect(),
        false => refusing,
    };
    for target in refusing {
        let until = retry_at(turn, snapshot, &target.uid);
        let ledger = &turn.world.ledger;
        let key = mark_key(&target.uid);
        ledger.once(turn.cluster, &key, turn.now, until).await?;
    }
    Ok(())
}

/// Whether an action changes this NodeClaim, or its Node.
fn changes_claim_or_node(planned: &Planned, claim: &NodeClaim) -> bool {
    if let Action::UpdateNode(update) = &planned.action {
        return claim.status.node_name.as_ref() == Some(&update.name);
    }
    matches!(&planned.action, Action::UpdateNodeClaim(update) if update.name == claim.name)
}

/// Time at which a change that is refused now is tried again.
fn retry_at(turn: &Turn<'_>, snapshot: &Snapshot, claim: &Uid) -> Timestamp {
    let since = decided_at(snapshot, claim).unwrap_or(turn.now);
    let wait = retry_after(turn.now.duration_since(since));
    turn.now.saturating_add(wait).unwrap_or(turn.now)
}

/// Age beyond which finished commands do not count for how long a change has been refused.
const DECIDED_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// Time at which the first recent deletion, or reboot, of a NodeClaim was recorded.
fn decided_at(snapshot: &Snapshot, claim: &Uid) -> Option<Timestamp> {
    let commands = snapshot.commands.iter();
    let about = commands.filter(|command| {
        let mut targets = command.targets();
        let is_recent = snapshot.now.duration_since(command.committed_at) < DECIDED_WITHIN;
        let counts = is_recent || command.state.is_open();
        counts && targets.any(|target| target.uid == *claim)
    });
    about.map(|command| command.committed_at).min()
}

fn claim_of(planned: &Planned) -> Option<&NodeClaimName> {
    if let Action::UpdateNodeClaim(update) = &planned.action {
        return Some(&update.name);
    }
    planned.action.deletion().map(|target| &target.name)
}

fn deletion_key(claim: &Uid) -> String {
    format!("{DELETION_REFUSED}{claim}")
}

fn mark_key(claim: &Uid) -> String {
    format!("{MARK_REFUSED}{claim}")
}
