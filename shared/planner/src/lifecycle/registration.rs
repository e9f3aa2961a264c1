//! Joining a Node to its NodeClaim (spec/lifecycle §5).

use api::{
    conditions::{ConditionSet, types::REGISTERED},
    names::{finalizer, label, taint},
};
use model::{
    node::Node,
    node_claim::NodeClaim,
    plan::NodeUpdate,
    taint::{Taint, TaintEffect},
};

/// What became of the search for the NodeClaim's Node.
pub(super) enum Registration<'a> {
    NotFound,
    Several,
    /// The one Node, and what must change on it.
    Node {
        node: &'a Node,
        update: Option<Box<NodeUpdate>>,
    },
}

impl<'a> Registration<'a> {
    pub(super) fn node(&self) -> Option<&'a Node> {
        match self {
            Self::Node { node, .. } => Some(node),
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
            Self::Node { .. } => conditions.set_true(REGISTERED),
        }
    }
}

pub(super) fn judge<'a>(claim: &NodeClaim, nodes: &[&'a Node]) -> Registration<'a> {
    match nodes {
        [] => Registration::NotFound,
        [node] => Registration::Node {
            node,
            update: needs_sync(node).then(|| Box::new(sync(claim, node))),
        },
        [_, _, ..] => Registration::Several,
    }
}

/// Startup taints are merged only once: a Node that carries the label keeps what it has.
fn needs_sync(node: &Node) -> bool {
    node.labels.get(label::REGISTERED).map(String::as_str) != Some("true")
        || node.taints.iter().any(is_unregistered)
}

fn is_unregistered(candidate: &Taint) -> bool {
    candidate.key == taint::UNREGISTERED && candidate.effect == TaintEffect::NoExecute
}

fn sync(claim: &NodeClaim, node: &Node) -> NodeUpdate {
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
    labels.insert(label::REGISTERED.to_owned(), "true".to_owned());
    NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        set_labels: labels,
        set_annotations: claim.annotations.clone(),
        add_finalizers: vec![finalizer::TERMINATION.to_owned()],
        taints: (taints != node.taints).then_some(taints),
        owner: Some((claim.name.clone(), claim.uid.clone())),
        ..NodeUpdate::default()
    }
}
