//! State nodes that are leaving or rebooting, from recorded commands, notices and timeouts.

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

/// Whether any node is leaving, rebooting, or may be soon. Otherwise bound pods need no planning.
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

/// Whether a NodeClaim has exceeded its registration timeout. Its deletion may be refused, so its pods no longer wait for it.
pub(super) fn is_overdue(claim: &NodeClaim, snapshot: &Snapshot) -> bool {
    overdue_at(claim, snapshot).is_some_and(|at| at < snapshot.now)
}

/// Time at which a launched NodeClaim exceeds its registration timeout, if it is not registered. No event announces that.
pub fn overdue_at(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Timestamp> {
    let launched = claim.condition(LAUNCHED);
    let launched = launched.filter(|_| claim.is_true(LAUNCHED) && !claim.is_true(REGISTERED))?;
    let timeout = snapshot.settings.registration_timeout?;
    launched.last_transition.checked_add(timeout).ok()
}

/// Whether a launch in flight exceeds the registration timeout. Its NodeClaim may never show the instance, so its pods no
/// longer wait for it.
pub(super) fn is_overlong(intent: &Intent, snapshot: &Snapshot) -> bool {
    let taken = snapshot.now.duration_since(intent.committed_at);
    let timeout = snapshot.settings.registration_timeout;
    timeout.is_some_and(|timeout| taken > timeout)
}

/// NodeClaims that an open command deletes.
pub(super) fn leaving(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    targets(snapshot, |_| true)
}

/// NodeClaims that an open command deletes because of a timeout, unless they register before.
pub(super) fn timed_out(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    targets(snapshot, |command| is_time_out(&command.reason))
}

/// NodeClaims that an open command reboots, whether or not their condition shows it yet.
pub(super) fn to_reboot(snapshot: &Snapshot) -> BTreeSet<&NodeClaimName> {
    let commands = snapshot.commands.iter();
    let under_way = commands.filter(|command| command.state.is_open());
    let targets = under_way.filter_map(|command| command.reboot.as_ref());
    targets.map(|target| &target.name).collect()
}

/// NodeClaims that a repair deletes. Their drain is bounded regardless of blocking pods (docs/spec/v1.15.md#repair-decision),
/// so all their pods are placed now; Karpenter places such pods when they have left.
pub(super) fn repaired(snapshot: &Snapshot) -> BTreeSet<&Uid> {
    let as_upstream = snapshot.settings.optimize == Optimize::Upstream;
    let commands = snapshot.commands.iter().filter(|command| {
        let choice = command.choice.as_ref();
        let binds = command.state.is_open() || command.state == CommandState::Done;
        binds && !as_upstream && choice.is_some_and(|choice| choice.method == Method::Repair)
    });
    let targets =
        commands.flat_map(|command| command.delete.iter().map(move |target| (command, target)));
    // A finished repair concerns only NodeClaims that it has deleted, because other nodes may have recovered.
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

/// Instances with an open notice, and whether they are terminated regardless of their pods.
pub(super) fn noticed(snapshot: &Snapshot) -> BTreeMap<InstanceId, bool> {
    let mut noticed = BTreeMap::new();
    for notice in snapshot.notices.iter().filter(|notice| !notice.done) {
        *noticed.entry(notice.instance.clone()).or_default() |= notice.terminates_unconditionally();
    }
    noticed
}
