//! No new pods, and no traffic from load balancers (spec/lifecycle §8.2).

use std::collections::BTreeMap;

use api::names::label;
use model::{Action, node::Node, plan::NodeUpdate};

use crate::{decision::Decision, pods::disrupted};

pub(super) fn act(node: &Node, decision: &mut Decision) {
    if let Some(update) = mark(node) {
        decision.act(
            Action::UpdateNode(update),
            format!("node {} is being deleted", node.name),
        );
    }
}

/// No new pods, and nothing else; what is cordoned already is left as it is.
pub fn cordon(node: &Node) -> Option<NodeUpdate> {
    (!node.unschedulable).then(|| NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        cordon: true,
        ..NodeUpdate::default()
    })
}

/// What a node that goes away is marked with, unless it is already.
pub fn mark(node: &Node) -> Option<NodeUpdate> {
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
