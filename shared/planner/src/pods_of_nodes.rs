use std::collections::BTreeMap;

use model::{NodeName, Snapshot, node::Node, pod::Pod};

/// Pods by node, so that a loop over many nodes visits each pod once.
pub(crate) struct PodsOfNodes<'a>(BTreeMap<&'a NodeName, Vec<&'a Pod>>);

impl<'a> PodsOfNodes<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut pods: BTreeMap<&NodeName, Vec<&Pod>> = BTreeMap::new();
        for pod in &snapshot.pods {
            if let Some(node) = &pod.node_name {
                pods.entry(node).or_default().push(pod);
            }
        }
        Self(pods)
    }

    pub(crate) fn of(&self, node: &Node) -> &[&'a Pod] {
        self.0.get(&node.name).map_or(&[], Vec::as_slice)
    }
}
