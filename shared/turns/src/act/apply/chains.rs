use std::collections::BTreeMap;

use model::{Action, NodeClaimName, NodeName, PodKey, Snapshot, plan::Planned};

/// Index from actions to the node they concern: actions on one node happen in the order of the plan, nodes do not wait for each
/// other.
pub(super) struct NodeIndex<'a> {
    of_claims: BTreeMap<&'a NodeClaimName, &'a str>,
    of_nodes: BTreeMap<&'a NodeName, &'a str>,
    of_pods: BTreeMap<&'a PodKey, &'a NodeName>,
}

impl<'a> NodeIndex<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let claims = snapshot.node_claims.iter();
        let nodes = snapshot.nodes.iter();
        let pods = snapshot.pods.iter();
        Self {
            of_claims: claims
                .map(|claim| (&claim.name, claim.status.provider_id.as_str()))
                .collect(),
            of_nodes: nodes
                .map(|node| (&node.name, node.provider_id.as_str()))
                .collect(),
            of_pods: pods
                .filter_map(|pod| Some((&pod.key, pod.node_name.as_ref()?)))
                .collect(),
        }
    }

    /// Indexes of the actions in the plan, grouped by node, in the plan's order.
    pub(super) fn chains(&self, actions: &[Planned]) -> Vec<Vec<usize>> {
        let mut chains: Vec<Vec<usize>> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for (index, planned) in actions.iter().enumerate() {
            let next = chains.len();
            let chain = *known.entry(self.chain_key(&planned.action)).or_insert(next);
            match chains.get_mut(chain) {
                Some(chain) => chain.push(index),
                None => chains.push(vec![index]),
            }
        }
        chains
    }

    /// Key of the action's node: the instance's id, or the object itself if there is no instance.
    fn chain_key(&self, action: &Action) -> String {
        let of_node = |name: &NodeName| match self.of_nodes.get(name).filter(|id| !id.is_empty()) {
            Some(id) => (*id).to_owned(),
            None => format!("node/{name}"),
        };
        let of_claim =
            |name: &NodeClaimName| match self.of_claims.get(name).filter(|id| !id.is_empty()) {
                Some(id) => (*id).to_owned(),
                None => format!("nodeclaim/{name}"),
            };
        match action {
            Action::UpdateNode(update) => of_node(&update.name),
            Action::UpdateNodeClaim(update) => of_claim(&update.name),
            Action::DeleteNodeClaim(target) | Action::Reboot(target) => of_claim(&target.name),
            Action::Terminate { claim, .. } => of_claim(claim),
            Action::Evict { pod, .. } | Action::DeletePod { pod, .. } => {
                match self.of_pods.get(pod) {
                    Some(node) => of_node(node),
                    None => format!("pod/{pod}"),
                }
            }
            Action::Launch(launch) => of_claim(&launch.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::{
        node::Node,
        node_claim::NodeClaim,
        plan::{NodeClaimUpdate, NodeUpdate},
        pod::Pod,
    };

    use super::*;

    fn planned(action: Action) -> Planned {
        Planned {
            action,
            because: String::new(),
        }
    }

    fn node_update(name: &str) -> Planned {
        planned(Action::UpdateNode(NodeUpdate {
            name: name.into(),
            ..NodeUpdate::default()
        }))
    }

    fn claim_update(name: &str) -> Planned {
        planned(Action::UpdateNodeClaim(NodeClaimUpdate {
            name: name.into(),
            ..NodeClaimUpdate::default()
        }))
    }

    fn eviction(pod: &str) -> Planned {
        planned(Action::Evict {
            pod: PodKey::new("default", pod),
            uid: "uid".into(),
            grace_seconds: None,
        })
    }

    #[test]
    fn actions_on_one_node_keep_the_order_of_the_plan() {
        let entry = serde_json::json!({"type": "endpoint", "endpoint": "https://127.0.0.1"});
        let settings = crate::Entry::read(&entry).unwrap().settings;
        let mut snapshot = Snapshot::empty("demo".into(), Timestamp::UNIX_EPOCH, settings);
        for name in ["a", "b"] {
            let provider_id = format!("aws:///us-east-1a/i-{name}");
            let mut claim = NodeClaim {
                name: format!("claim-{name}").as_str().into(),
                ..NodeClaim::default()
            };
            claim.status.provider_id = provider_id.clone();
            snapshot.node_claims.push(claim);
            snapshot.nodes.push(Node {
                name: format!("node-{name}").as_str().into(),
                provider_id,
                ..Node::default()
            });
            snapshot.pods.push(Pod {
                key: PodKey::new("default", format!("pod-{name}")),
                node_name: Some(format!("node-{name}").as_str().into()),
                ..Pod::default()
            });
        }
        let actions = [
            node_update("node-a"),
            claim_update("claim-b"),
            eviction("pod-a"),
            claim_update("claim-a"),
            eviction("pod-b"),
            node_update("stranger"),
            eviction("unknown"),
            node_update("stranger"),
        ];
        let chains = NodeIndex::new(&snapshot).chains(&actions);
        assert_eq!(chains, [vec![0, 2, 3], vec![1, 4], vec![5, 7], vec![6]]);
    }
}
