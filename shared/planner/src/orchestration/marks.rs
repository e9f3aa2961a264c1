//! Disruption taint and condition of the nodes of a command (docs/spec/lifecycle.md#command-start).

use std::collections::BTreeSet;

use api::conditions::{
    ConditionStatus,
    types::{DISRUPTION_REASON, REBOOTING},
};
use jiff::Timestamp;
use model::{
    Action, Snapshot,
    ledger::Command,
    node::Node,
    node_claim::NodeClaim,
    plan::{NodeUpdate, Planned},
};

use crate::{
    by_instance::ByInstance,
    claim_conditions::{changed, is_needed},
    managed::is_managed,
    pods::disrupted_taint,
};

/// Updates that set the taint on the Node and the condition with the reason on the NodeClaim, as far as they are missing.
pub(super) fn mark(
    claim: &NodeClaim,
    node: Option<&Node>,
    reason: &str,
    now: Timestamp,
) -> Vec<Planned> {
    let mut actions = Vec::new();
    if let Some(node) = node.filter(|node| !is_tainted(node)) {
        let mut taints = without_taint(node);
        taints.push(disrupted_taint());
        actions.push(Planned {
            action: Action::UpdateNode(retainted(node, taints)),
            because: format!("node {} is marked for disruption: {reason}", node.name),
        });
    }
    let update = changed(claim, now, |conditions| {
        conditions.set(DISRUPTION_REASON, ConditionStatus::True, reason, reason);
    });
    if !claim.is_true(DISRUPTION_REASON) && is_needed(&update) {
        actions.push(Planned {
            action: Action::UpdateNodeClaim(update),
            because: format!(
                "NodeClaim {} is marked for disruption: {reason}",
                claim.name
            ),
        });
    }
    actions
}

/// Updates that remove taint and condition.
pub(super) fn unmark(claim: &NodeClaim, node: Option<&Node>, now: Timestamp) -> Vec<Planned> {
    let mut actions = Vec::new();
    if let Some(node) = node.filter(|node| node.deleted_at.is_none() && is_tainted(node)) {
        actions.push(Planned {
            action: Action::UpdateNode(retainted(node, without_taint(node))),
            because: format!("node {} is no longer marked for disruption", node.name),
        });
    }
    let update = changed(claim, now, |conditions| {
        // No readiness condition depends on it, so it can always be cleared.
        let _ = conditions.clear(DISRUPTION_REASON);
    });
    if claim.condition(DISRUPTION_REASON).is_some() && is_needed(&update) {
        actions.push(Planned {
            action: Action::UpdateNodeClaim(update),
            because: format!(
                "NodeClaim {} is no longer marked for disruption",
                claim.name
            ),
        });
    }
    actions
}

/// Whether the instance has an open notice.
pub(super) fn is_noticed(snapshot: &Snapshot, claim: &NodeClaim) -> bool {
    let mut notices = snapshot.notices.iter().filter(|notice| !notice.done);
    notices.any(|notice| claim.status.provider_id.ends_with(notice.instance.as_str()))
}

/// Updates that remove taints and conditions without an open command, which a failed turn or a released node left behind
/// (docs/spec/lifecycle.md#clearing-marks).
pub fn forgotten_marks(snapshot: &Snapshot) -> Vec<Planned> {
    let nodes = ByInstance::of_nodes(snapshot);
    let open = snapshot
        .commands
        .iter()
        .filter(|command| command.state.is_open());
    let commanded: BTreeSet<_> = open
        .flat_map(Command::targets)
        .map(|target| &target.uid)
        .collect();
    let claims = snapshot.node_claims.iter().filter(|claim| {
        is_managed(claim)
            && claim.deleted_at.is_none()
            && !claim.is_true(REBOOTING)
            && !commanded.contains(&claim.uid)
            && !is_noticed(snapshot, claim)
    });
    claims
        .flat_map(|claim| {
            let node = nodes.only(&claim.status.provider_id);
            // The terminator marks Nodes that are being deleted.
            match node {
                Some(node) if node.deleted_at.is_some() => Vec::new(),
                node => unmark(claim, node, snapshot.now),
            }
        })
        .collect()
}

pub(super) fn is_marked(claim: &NodeClaim, node: Option<&Node>) -> bool {
    claim.is_true(DISRUPTION_REASON) && node.is_none_or(is_tainted)
}

fn is_tainted(node: &Node) -> bool {
    let wanted = disrupted_taint();
    let mut taints = node.taints.iter();
    taints.any(|taint| taint.key == wanted.key && taint.effect == wanted.effect)
}

fn without_taint(node: &Node) -> Vec<model::taint::Taint> {
    let wanted = disrupted_taint();
    let others = node.taints.iter().filter(|taint| taint.key != wanted.key);
    others.cloned().collect()
}

fn retainted(node: &Node, taints: Vec<model::taint::Taint>) -> NodeUpdate {
    NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        taints: Some(taints),
        ..NodeUpdate::default()
    }
}
