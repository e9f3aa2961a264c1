//! The pods of a view on the nodes of a backtest, and the nodes that Whittle would replace.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    CapacityType, NanosPerHour, NodeName, NodePoolName, PodKey, Snapshot,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE},
    node::Node,
    pod::{Pod, PodPhase},
};

/// Nodes that Whittle would replace: those with NodeClaims, and those with this label.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplacedNodes(pub(crate) Option<(String, Option<String>)>);

impl ReplacedNodes {
    fn made(&self, node: &Node) -> bool {
        let Some((key, wanted)) = &self.0 else {
            return false;
        };
        let value = node.labels.get(key);
        value.is_some() && (wanted.is_none() || value == wanted.as_ref())
    }

    /// Names of these nodes in a view.
    pub(crate) fn nodes<'a>(&self, seen: &'a Snapshot) -> BTreeSet<&'a NodeName> {
        let claims = seen.node_claims.iter();
        let claimed = claims.filter_map(|claim| claim.status.node_name.as_ref());
        let nodes = seen.nodes.iter().filter(|node| self.made(node));
        claimed.chain(nodes.map(|node| &node.name)).collect()
    }

    /// Cost of these nodes per hour, by their offerings.
    pub(crate) fn cost(&self, seen: &Snapshot) -> NanosPerHour {
        let names = self.nodes(seen);
        let nodes = seen.nodes.iter().filter(|node| names.contains(&node.name));
        NanosPerHour(
            nodes
                .filter_map(|node| price(node, seen))
                .map(|price| price.0)
                .sum(),
        )
    }
}

/// Label of EKS node groups for what Karpenter calls the capacity type.
const EKS_CAPACITY_TYPE: &str = "eks.amazonaws.com/capacityType";

fn price(node: &Node, seen: &Snapshot) -> Option<NanosPerHour> {
    let name = node.labels.get(INSTANCE_TYPE)?;
    let mut types = seen.instance_types.values().flat_map(|types| types.iter());
    let instance_type = types.find(|instance_type| instance_type.name.as_str() == name)?;
    let labelled = node.labels.get(CAPACITY_TYPE).map(String::as_str);
    let of_group = node.labels.get(EKS_CAPACITY_TYPE).map(String::as_str);
    let spot = labelled == Some("spot") || of_group == Some("SPOT");
    let wanted = if spot {
        CapacityType::Spot
    } else {
        CapacityType::OnDemand
    };
    let offerings = instance_type
        .offerings
        .iter()
        .filter(|offering| offering.capacity_type == wanted);
    let zone = node.labels.get(ZONE);
    let pool = node.labels.get(NODE_POOL);
    let pool = pool.map(|name| NodePoolName::from(name.as_str()));
    let own = offerings
        .clone()
        .find(|offering| Some(&offering.zone) == zone);
    own.or_else(|| offerings.min_by_key(|offering| offering.price))
        .map(|offering| offering.price.plus(seen.surcharge_of(pool.as_ref())))
}

/// Whether a pod is pending and could get a node.
pub(crate) fn waits(pod: &Pod) -> bool {
    planner::is_provisionable(pod)
}

/// The view, with the backtest's nodes in place of the replaced nodes, and its pods where they are. New pods are pending.
pub(super) fn follow(
    before: Option<Snapshot>,
    seen: &Snapshot,
    replaced: &ReplacedNodes,
) -> Snapshot {
    let theirs = replaced.nodes(seen);
    let mut next = seen.clone();
    next.intents.clear();
    next.commands.clear();
    next.notices.clear();
    next.nominated.clear();
    next.drift.clear();
    let lives = |pod: &Pod| {
        pod.deletion.is_none() && !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
    };
    next.pods.retain(lives);
    let own = |pod: &Pod| {
        pod.node_name
            .as_ref()
            .is_none_or(|node| theirs.contains(node))
    };
    // A new node gets its own DaemonSet pods.
    next.pods.retain(|pod| !(is_daemon(pod) && own(pod)));
    match before {
        // A backtest begins with the existing nodes with NodeClaims.
        None => {
            let claims = next.node_claims.iter();
            let kept: BTreeSet<NodeName> = claims
                .filter_map(|claim| claim.status.node_name.clone())
                .collect();
            next.nodes
                .retain(|node| kept.contains(&node.name) || !theirs.contains(&node.name));
            for pod in &mut next.pods {
                let node = pod.node_name.as_ref();
                if node.is_some_and(|node| theirs.contains(node) && !kept.contains(node)) {
                    wait(pod);
                }
            }
        }
        Some(before) => {
            let claims = before.node_claims.iter();
            let ours: BTreeSet<&NodeName> = claims
                .filter_map(|claim| claim.status.node_name.as_ref())
                .collect();
            let placed = before.pods.iter();
            let places: BTreeMap<&PodKey, &NodeName> = placed
                .filter_map(|pod| Some((&pod.key, pod.node_name.as_ref()?)))
                .filter(|(_, node)| ours.contains(node))
                .collect();
            next.nodes.retain(|node| !theirs.contains(&node.name));
            let nodes = before.nodes.iter().filter(|node| ours.contains(&node.name));
            next.nodes.extend(nodes.cloned());
            for pod in next.pods.iter_mut().filter(|pod| own(pod)) {
                match places.get(&pod.key) {
                    Some(node) => {
                        pod.node_name = Some((*node).clone());
                        pod.unschedulable = false;
                        pod.phase = PodPhase::Running;
                    }
                    None => wait(pod),
                }
            }
            next.node_claims = before.node_claims;
        }
    }
    next
}

fn wait(pod: &mut Pod) {
    pod.node_name = None;
    pod.nominated_node = None;
    pod.phase = PodPhase::Pending;
    pod.unschedulable = pod.scheduling_gates.is_empty();
}

fn is_daemon(pod: &Pod) -> bool {
    let owner = pod.owner.as_ref();
    owner.is_some_and(|owner| owner.kind == "DaemonSet")
}
