//! Machines that are on their way out, or away for a reboot, by what is on record of them.

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::types::{LAUNCHED, REBOOTING, REGISTERED};
use jiff::Timestamp;
use model::{
    InstanceId, NodeClaimName, Snapshot,
    ids::Uid,
    ledger::{Command, CommandState, Intent, Method},
    node_claim::NodeClaim,
    plan::Target,
    snapshot::Optimize,
};

use crate::machine::is_time_out;

/// Whether any machine is on its way out or reboots, or soon may: only then is anything to do for pods that have a node.
pub fn any_leaves(snapshot: &Snapshot) -> bool {
    let loses_pods = |claim: &NodeClaim| is_going(claim) || claim.is_true(REBOOTING);
    snapshot.node_claims.iter().any(loses_pods)
        || snapshot.nodes.iter().any(|node| node.deleted_at.is_some())
        || !snapshot.notices.is_empty()
        || !leaving(snapshot).is_empty()
}

pub(super) fn is_going(claim: &NodeClaim) -> bool {
    claim.deleted_at.is_some() || claim.is_true("InstanceTerminating")
}

/// Whether a NodeClaim should have registered long ago. It is deleted for that, which may be refused: its pods do not wait for it.
pub(super) fn is_overdue(claim: &NodeClaim, snapshot: &Snapshot) -> bool {
    overdue_at(claim, snapshot).is_some_and(|at| at < snapshot.now)
}

/// When a launched NodeClaim should have registered, if it has not: after that nothing is expected of it, and nothing that happens may
/// tell.
pub fn overdue_at(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Timestamp> {
    let launched = claim.condition(LAUNCHED);
    let launched = launched.filter(|_| claim.is_true(LAUNCHED) && !claim.is_true(REGISTERED))?;
    let timeout = snapshot.settings.registration_timeout?;
    launched.last_transition.checked_add(timeout).ok()
}

/// Whether a launch is under way for longer than its node may take to register: its NodeClaim may refuse to show the instance,
/// and its pods do not wait for it either.
pub(super) fn is_overlong(intent: &Intent, snapshot: &Snapshot) -> bool {
    let taken = snapshot.now.duration_since(intent.committed_at);
    let timeout = snapshot.settings.registration_timeout;
    timeout.is_some_and(|timeout| taken > timeout)
}

/// NodeClaims that a committed disruption is about to remove.
pub(super) fn leaving(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    targets(snapshot, |_| true)
}

/// NodeClaims that a committed disruption removes for a time-out, unless they turn up before.
pub(super) fn timed_out(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    targets(snapshot, |command| is_time_out(&command.reason))
}

/// NodeClaims whose nodes a committed command reboots, whether or not they show it yet.
pub(super) fn to_reboot(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    let commands = snapshot.commands.iter();
    let under_way = commands.filter(|command| command.state.is_open());
    let targets = under_way.filter_map(|command| command.reboot.as_ref());
    targets.map(|target| &target.name).collect()
}

/// NodeClaims whose nodes a repair removes: it was seen to that their pods leave within a bound, whatever keeps those
/// (docs/spec/v1.15.md#repair-decision). Upstream counts such pods when they have left.
pub(super) fn repaired(snapshot: &Snapshot) -> BTreeSet<&Uid> {
    let as_upstream = snapshot.settings.optimize == Optimize::Upstream;
    let commands = snapshot.commands.iter().filter(|command| {
        let choice = command.choice.as_ref();
        let binds = command.state.is_open() || command.state == CommandState::Done;
        binds && !as_upstream && choice.is_some_and(|choice| choice.method == Method::Repair)
    });
    let targets =
        commands.flat_map(|command| command.delete.iter().map(move |target| (command, target)));
    // A repair that is over binds only what it has deleted: the node may have been let off.
    let is_deleted = |target: &Target| {
        let mut claims = snapshot.node_claims.iter();
        claims.any(|claim| claim.uid == target.uid && claim.deleted_at.is_some())
    };
    let bound = targets.filter(|(command, target)| command.state.is_open() || is_deleted(target));
    bound.map(|(_, target)| &target.uid).collect()
}

fn targets(snapshot: &Snapshot, which: impl Fn(&Command) -> bool) -> BTreeSet<&NodeClaimName> {
    let commands = snapshot.commands.iter();
    let under_way = commands.filter(|command| command.state.is_open() && which(command));
    let targets = under_way.flat_map(|command| &command.delete);
    targets.map(|target| &target.name).collect()
}

/// Instances whose end is on record, whether or not their NodeClaims show it yet, and whether it comes whatever is on them.
pub(super) fn noticed(snapshot: &Snapshot) -> BTreeMap<InstanceId, bool> {
    let mut noticed = BTreeMap::new();
    for notice in snapshot.notices.iter().filter(|notice| !notice.done) {
        *noticed.entry(notice.instance.clone()).or_default() |= notice.dooms();
    }
    noticed
}
