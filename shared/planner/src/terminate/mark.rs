//! Keeps new pods and traffic of load balancers away from a node (docs/spec/lifecycle.md#node-finalization).

use std::collections::BTreeMap;

use api::names::label;
use model::{Action, node::Node, plan::NodeUpdate};

use crate::{decision::Decision, pods::disrupted_taint};

pub(super) fn plan_mark(node: &Node, decision: &mut Decision) {
    if let Some(update) = mark(node) {
        decision.act(
            Action::UpdateNode(update),
            format!("node {} is being deleted", node.name),
        );
    }
}

/// Update that cordons the node, unless it is cordoned.
pub fn cordon(node: &Node) -> Option<NodeUpdate> {
    (!node.unschedulable).then(|| NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        cordon: true,
        ..NodeUpdate::default()
    })
}

/// Update that adds the disruption taint and the label that excludes the node from load balancers, as far as they are missing.
pub fn mark(node: &Node) -> Option<NodeUpdate> {
    let wanted = disrupted_taint();
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

#[cfg(test)]
mod tests {
    use model::taint::{Taint, TaintEffect};

    use super::*;
    use crate::fixtures;

    fn node(taints: &[Taint]) -> Node {
        let mut node = fixtures::node("n", &fixtures::claim("a", &[]));
        node.taints = taints.to_vec();
        node
    }

    fn taint(key: &str, effect: TaintEffect) -> Taint {
        Taint {
            key: key.to_owned(),
            value: String::new(),
            effect,
        }
    }

    /// Name, uid and resource version in an update.
    fn identity(update: &NodeUpdate) -> (&str, &str, &str) {
        let NodeUpdate {
            name,
            uid,
            resource_version,
            ..
        } = update;
        (name.as_str(), uid.as_str(), resource_version)
    }

    #[test]
    fn terminating_node_is_tainted_and_excluded_from_load_balancers() {
        let mine = taint("mine", TaintEffect::NoSchedule);
        let update = mark(&node(std::slice::from_ref(&mine))).unwrap();
        assert_eq!(identity(&update), ("n", "uid-n", "1"));
        let label = label::EXCLUDE_FROM_LOAD_BALANCERS;
        assert_eq!(update.set_labels[label], "karpenter");
        assert_eq!(update.taints, Some(vec![mine, disrupted_taint()]));
    }

    #[test]
    fn existing_marks_are_not_rewritten() {
        let tainted = node(&[disrupted_taint()]);
        let update = mark(&tainted).unwrap();
        assert_eq!((update.set_labels.len(), update.taints), (1, None));
        let mut excluded = node(&[]);
        let label = label::EXCLUDE_FROM_LOAD_BALANCERS;
        excluded.labels.insert(label.to_owned(), "true".to_owned());
        assert_eq!(
            mark(&excluded).unwrap().taints,
            Some(vec![disrupted_taint()])
        );
        excluded.taints = vec![disrupted_taint()];
        assert_eq!(mark(&excluded), None);
    }

    #[test]
    fn taint_with_another_effect_is_replaced() {
        let other = taint(&disrupted_taint().key, TaintEffect::PreferNoSchedule);
        let mine = taint("mine", disrupted_taint().effect);
        let update = mark(&node(&[other, mine.clone()])).unwrap();
        assert_eq!(update.taints, Some(vec![mine, disrupted_taint()]));
    }

    #[test]
    fn node_is_cordoned_once() {
        let mut node = node(&[]);
        let update = cordon(&node).unwrap();
        assert_eq!(
            (identity(&update), update.cordon),
            (("n", "uid-n", "1"), true)
        );
        node.unschedulable = true;
        assert_eq!(cordon(&node), None);
    }
}
