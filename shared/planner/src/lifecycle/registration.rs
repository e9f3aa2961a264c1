//! Registration: joins a Node to its NodeClaim (docs/spec/lifecycle.md#registration).

use std::collections::BTreeMap;

use api::{
    conditions::{ConditionSet, types::REGISTERED},
    names::{annotation, finalizer, label, taint},
};
use model::{
    node::Node,
    node_claim::NodeClaim,
    plan::NodeUpdate,
    taint::{Taint, TaintEffect},
};

use crate::lifecycle::hydration;

/// Nodes found for the NodeClaim's instance.
pub(super) enum Registration<'a> {
    NotFound,
    Several,
    Node(&'a Node),
}

impl<'a> Registration<'a> {
    pub(super) fn node(&self) -> Option<&'a Node> {
        match self {
            Self::Node(node) => Some(node),
            Self::NotFound | Self::Several => None,
        }
    }

    pub(super) fn write(&self, conditions: &mut ConditionSet<'_>) {
        match self {
            Self::NotFound => conditions.set_unknown(
                REGISTERED,
                "NodeNotFound",
                "Node not registered with cluster",
            ),
            Self::Several => {
                conditions.set_false(
                    REGISTERED,
                    "MultipleNodesFound",
                    "Invariant violated, matched multiple nodes",
                );
            }
            Self::Node(_) => conditions.set_true(REGISTERED),
        }
    }
}

pub(super) fn judge<'a>(nodes: &[&'a Node]) -> Registration<'a> {
    match nodes {
        [] => Registration::NotFound,
        [node] => Registration::Node(node),
        [_, _, ..] => Registration::Several,
    }
}

fn is_registered(node: &Node) -> bool {
    node.labels.get(label::REGISTERED).map(String::as_str) == Some("true")
}

/// Whether the Node joined without the unregistered taint, so that pods may have been bound before the NodeClaim's taints were
/// set.
pub(super) fn lacks_taint(node: &Node) -> bool {
    !is_registered(node) && !node.taints.iter().any(is_unregistered)
}

/// Update that the Node needs. Startup taints are merged only once: a Node with the `registered` label keeps its taints.
pub(super) fn sync(claim: &NodeClaim, node: &Node) -> Option<NodeUpdate> {
    if !is_registered(node) || node.taints.iter().any(is_unregistered) {
        return Some(join(claim, node));
    }
    let label = hydration::label_of_node(claim, node)?;
    Some(NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        set_labels: BTreeMap::from([label]),
        ..NodeUpdate::default()
    })
}

fn is_unregistered(candidate: &Taint) -> bool {
    candidate.key == taint::UNREGISTERED && candidate.effect == TaintEffect::NoExecute
}

fn join(claim: &NodeClaim, node: &Node) -> NodeUpdate {
    let mut taints: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| !is_unregistered(taint))
        .cloned()
        .collect();
    if node
        .labels
        .get(label::DO_NOT_SYNC_TAINTS)
        .map(String::as_str)
        != Some("true")
    {
        for wanted in claim.spec.taints.iter().chain(&claim.spec.startup_taints) {
            if !taints
                .iter()
                .any(|taint| taint.key == wanted.key && taint.effect == wanted.effect)
            {
                taints.push(wanted.clone());
            }
        }
    }
    let mut labels = claim.labels.clone();
    labels.extend(hydration::label(claim));
    labels.insert(label::REGISTERED.to_owned(), "true".to_owned());
    let mut annotations = claim.annotations.clone();
    // The annotation identifies copies of NodeClaims. Nodes are not copied.
    annotations.remove(annotation::COMMITTED);
    NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        set_labels: labels,
        set_annotations: annotations,
        add_finalizers: vec![finalizer::TERMINATION.to_owned()],
        taints: (taints != node.taints).then_some(taints),
        owner: Some((claim.name.clone(), claim.uid.clone())),
        ..NodeUpdate::default()
    }
}

#[cfg(test)]
mod tests;
