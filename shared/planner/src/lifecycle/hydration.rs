//! Adds the NodeClass label, which marks a Node as managed, to objects that were created without it
//! (docs/spec/lifecycle.md#hydration).

use api::names::label::EC2_NODE_CLASS;
use model::{node::Node, node_claim::NodeClaim};

pub(super) fn label(claim: &NodeClaim) -> Option<(String, String)> {
    let name = claim.spec.node_class.name.as_str();
    (!claim.labels.contains_key(EC2_NODE_CLASS))
        .then(|| (EC2_NODE_CLASS.to_owned(), name.to_owned()))
}

pub(super) fn label_of_node(claim: &NodeClaim, node: &Node) -> Option<(String, String)> {
    let name = claim.spec.node_class.name.as_str();
    (!node.labels.contains_key(EC2_NODE_CLASS))
        .then(|| (EC2_NODE_CLASS.to_owned(), name.to_owned()))
}
