//! The next step of every node that is going away: taint → drain → volumes → instance → finalizers (spec/lifecycle §8, §9).
//!
//! Nothing waits here: a step that must wait says when to look again, and whatever happens meanwhile wakes the terminator.

mod deadline;
mod drain;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::{ConditionSet, types},
    names::{finalizer, label},
};
use jiff::SignedDuration;
use model::{
    Action, InstanceId, Snapshot,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::{NodeClaimUpdate, NodeUpdate},
};

use crate::{
    claim_conditions::{changed, is_needed},
    decision::Decision,
    lifecycle::target,
    managed::is_ours,
    pods::disrupted,
    terminate::{deadline::deadline, drain::Drain},
};

/// Provider ids of instances that EC2 says are terminated or unknown.
pub type Gone = BTreeSet<String>;

/// EC2 takes tens of seconds to end an instance; pods that leave wake the terminator themselves.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);

pub fn terminate(snapshot: &Snapshot, gone: &Gone) -> Decision {
    let mut decision = Decision::default();
    let claims: BTreeMap<&str, &NodeClaim> = snapshot
        .node_claims
        .iter()
        .filter(|claim| is_ours(claim) && !claim.status.provider_id.is_empty())
        .map(|claim| (claim.status.provider_id.as_str(), claim))
        .collect();
    for claim in snapshot
        .node_claims
        .iter()
        .filter(|claim| is_ours(claim) && claim.deleted_at.is_some())
    {
        if claim
            .finalizers
            .iter()
            .any(|name| name == finalizer::TERMINATION)
        {
            end_claim(snapshot, claim, gone, &mut decision);
        }
    }
    for node in snapshot
        .nodes
        .iter()
        .filter(|node| node.deleted_at.is_some() && is_ours_to_end(node))
    {
        end_node(
            snapshot,
            node,
            claims.get(node.provider_id.as_str()).copied(),
            gone,
            &mut decision,
        );
    }
    decision
}

fn is_ours_to_end(node: &Node) -> bool {
    node.labels.contains_key(label::EC2_NODE_CLASS)
        && node
            .finalizers
            .iter()
            .any(|name| name == finalizer::TERMINATION)
}

/// A NodeClaim goes when its Nodes are gone and its instance is (spec/lifecycle §8.1).
fn end_claim(snapshot: &Snapshot, claim: &NodeClaim, gone: &Gone, decision: &mut Decision) {
    if let Some(update) = deadline::stamp(claim) {
        decision.act(
            Action::UpdateNodeClaim(update),
            format!("NodeClaim {} has a terminationGracePeriod", claim.name),
        );
    }
    if claim.is_true(types::REGISTERED) {
        let own: Vec<&Node> = snapshot
            .nodes
            .iter()
            .filter(|node| node.provider_id == claim.status.provider_id)
            .collect();
        for node in own.iter().filter(|node| node.deleted_at.is_none()) {
            let update = NodeUpdate {
                name: node.name.clone(),
                uid: node.uid.clone(),
                delete: true,
                ..NodeUpdate::default()
            };
            decision.act(
                Action::UpdateNode(update),
                format!("NodeClaim {} is being deleted", claim.name),
            );
        }
        if !own.is_empty() {
            return;
        }
    }
    if claim.status.provider_id.is_empty() {
        // What is still being launched for it is resolved first (PROTOCOL A5).
        let launching = snapshot
            .intents
            .iter()
            .any(|intent| intent.name() == &claim.name && intent.is_in_flight());
        if launching {
            decision.look_again(soon(snapshot));
        } else {
            finish_claim(claim, "nothing was launched for it", decision);
        }
    } else if gone.contains(&claim.status.provider_id) {
        finish_claim(claim, "its instance is gone", decision);
    } else {
        end_instance(snapshot, claim, |_| {}, decision);
    }
}

fn finish_claim(claim: &NodeClaim, why: &str, decision: &mut Decision) {
    let update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        remove_finalizers: vec![finalizer::TERMINATION.to_owned()],
        ..NodeClaimUpdate::default()
    };
    decision.act(
        Action::UpdateNodeClaim(update),
        format!("NodeClaim {} can go: {why}", claim.name),
    );
}

/// Asks EC2 to end the instance, and again until it is gone: asking twice does no harm.
fn end_instance(
    snapshot: &Snapshot,
    claim: &NodeClaim,
    also: impl FnOnce(&mut ConditionSet<'_>),
    decision: &mut Decision,
) {
    let Some(instance) = instance_of(&claim.status.provider_id) else {
        finish_claim(claim, "its providerID names no EC2 instance", decision);
        return;
    };
    let terminate = Action::Terminate {
        claim: claim.name.clone(),
        instance,
    };
    decision.act(
        terminate,
        format!(
            "NodeClaim {} is being deleted and its node is drained",
            claim.name
        ),
    );
    write(snapshot, claim, decision, |conditions| {
        also(conditions);
        conditions.set_true(types::INSTANCE_TERMINATING);
    });
    decision.look_again(soon(snapshot));
}

/// A Node goes when its pods and volumes are gone and its instance is (spec/lifecycle §8.2).
fn end_node(
    snapshot: &Snapshot,
    node: &Node,
    claim: Option<&NodeClaim>,
    gone: &Gone,
    decision: &mut Decision,
) {
    if let Some(claim) = claim.filter(|claim| claim.deleted_at.is_none()) {
        decision.act(
            Action::DeleteNodeClaim(target(claim)),
            format!("node {} is being deleted", node.name),
        );
    }
    if node.ready.status != ConditionStatus::True && gone.contains(&node.provider_id) {
        finish_node(node, "its instance is gone", decision);
        return;
    }
    if let Some(update) = mark(node) {
        decision.act(
            Action::UpdateNode(update),
            format!("node {} is being deleted", node.name),
        );
    }
    let deadline = deadline(claim);
    let drain = Drain::of(snapshot, node, deadline);
    drain.act(node, decision);
    if drain.waits() || drain.settles(snapshot, claim) {
        if let Some(claim) = claim {
            write(snapshot, claim, decision, drain::write);
        }
        decision.look_again(soon(snapshot));
        return;
    }
    let volumes = volumes::judge(snapshot, node, deadline);
    let drained = |conditions: &mut ConditionSet<'_>| {
        conditions.set_true(types::DRAINED);
        volumes.write(conditions);
    };
    let Some(claim) = claim else {
        if volumes.are_awaited() {
            decision.look_again(soon(snapshot));
        } else {
            finish_node(node, "it is drained and no NodeClaim names it", decision);
        }
        return;
    };
    if volumes.are_awaited() {
        write(snapshot, claim, decision, drained);
        decision.look_again(soon(snapshot));
    } else if gone.contains(&node.provider_id) {
        write(snapshot, claim, decision, drained);
        finish_node(node, "it is drained and its instance is gone", decision);
    } else {
        end_instance(snapshot, claim, drained, decision);
    }
}

fn finish_node(node: &Node, why: &str, decision: &mut Decision) {
    let update = NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        remove_finalizers: vec![finalizer::TERMINATION.to_owned()],
        ..NodeUpdate::default()
    };
    decision.act(
        Action::UpdateNode(update),
        format!("node {} can go: {why}", node.name),
    );
}

/// No new pods, and no traffic from load balancers.
fn mark(node: &Node) -> Option<NodeUpdate> {
    let wanted = disrupted();
    let tainted = node
        .taints
        .iter()
        .any(|taint| taint.key == wanted.key && taint.effect == wanted.effect);
    let excluded = node.labels.contains_key(label::EXCLUDE_FROM_LOAD_BALANCERS);
    if tainted && excluded {
        return None;
    }
    let mut taints: Vec<_> = node
        .taints
        .iter()
        .filter(|taint| tainted || taint.key != wanted.key)
        .cloned()
        .collect();
    if !tainted {
        taints.push(wanted);
    }
    Some(NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        set_labels: BTreeMap::from([(
            label::EXCLUDE_FROM_LOAD_BALANCERS.to_owned(),
            "karpenter".to_owned(),
        )]),
        taints: (taints != node.taints).then_some(taints),
        ..NodeUpdate::default()
    })
}

fn write(
    snapshot: &Snapshot,
    claim: &NodeClaim,
    decision: &mut Decision,
    change: impl FnOnce(&mut ConditionSet<'_>),
) {
    let update = changed(claim, snapshot.now, change);
    if is_needed(&update) {
        decision.act(
            Action::UpdateNodeClaim(update),
            format!("NodeClaim {} moved on", claim.name),
        );
    }
}

fn soon(snapshot: &Snapshot) -> jiff::Timestamp {
    snapshot
        .now
        .saturating_add(LOOK_AGAIN)
        .unwrap_or(snapshot.now)
}

/// `aws:///zone/i-…`.
fn instance_of(provider_id: &str) -> Option<InstanceId> {
    let id = provider_id.strip_prefix("aws:///")?.split_once('/')?.1;
    id.starts_with("i-").then(|| id.into())
}

#[cfg(test)]
mod tests;
