//! Pods that select their node by the field `metadata.name`, as pods of DaemonSets do.

use std::borrow::Cow;

use model::{Snapshot, labels, pod::Pod, selector::NodeSelectorRequirement, snapshot::Optimize};

/// The only node field that Kubernetes' scheduler supports.
pub(crate) const NAME_FIELD: &str = "metadata.name";

/// Returns the pod with field selectors replaced by the node's hostname label. Karpenter ignores fields.
pub(crate) fn by_hostname<'a>(pod: Cow<'a, Pod>, snapshot: &Snapshot) -> Cow<'a, Pod> {
    let mut terms = pod.node_affinity.required.iter();
    let names_node = terms.any(|term| !term.match_fields.is_empty());
    if !names_node || snapshot.settings.optimize == Optimize::Upstream {
        return pod;
    }
    let mut pod = pod.into_owned();
    for term in &mut pod.node_affinity.required {
        let fields = std::mem::take(&mut term.match_fields);
        let fields = fields.into_iter().map(|field| on_hostname(field, snapshot));
        term.match_expressions.extend(fields);
    }
    Cow::Owned(pod)
}

fn on_hostname(field: NodeSelectorRequirement, snapshot: &Snapshot) -> NodeSelectorRequirement {
    let hostname = |name: String| {
        let mut nodes = snapshot.nodes.iter();
        let node = nodes.find(|node| node.name.as_str() == name);
        let hostname = node.and_then(|node| node.labels.get(labels::HOSTNAME));
        hostname.cloned().unwrap_or(name)
    };
    NodeSelectorRequirement {
        key: labels::HOSTNAME.to_owned(),
        values: field.values.into_iter().map(hostname).collect(),
        ..field
    }
}
