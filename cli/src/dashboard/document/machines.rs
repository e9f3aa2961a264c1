//! Nodes and NodeClaims, joined so that each machine appears once.

use std::collections::BTreeMap;

use model::{
    Snapshot,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    pod::{Pod, PodPhase},
    resources::{CPU, MEMORY},
};

use super::{NodeBox, Placed, Stage, prices::Prices, stuck::Explanation};

/// The objects of one machine; at least one of them exists.
#[derive(Clone, Copy, Default)]
struct Machine<'a> {
    node: Option<&'a Node>,
    claim: Option<&'a NodeClaim>,
}

/// All machines, by name.
pub(crate) fn nodes(snapshot: &Snapshot) -> Vec<NodeBox> {
    let prices = Prices::of(snapshot);
    let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| is_there(pod)) {
        if let Some(node) = &pod.node_name {
            pods.entry(node.as_str()).or_default().push(pod);
        }
    }
    let boxes = machines(snapshot).into_iter().map(|machine| {
        let name = machine.node.map(|node| node.name.as_str());
        let pods = name.and_then(|name| pods.get(name));
        node_box(machine, pods.map_or(&[], Vec::as_slice), &prices, snapshot)
    });
    let mut boxes: Vec<NodeBox> = boxes.collect();
    boxes.sort_by(|a, b| a.name.cmp(&b.name));
    boxes
}

/// Joins by provider id, and by the node's name in the NodeClaim while the Node has no provider id.
fn machines(snapshot: &Snapshot) -> Vec<Machine<'_>> {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    let mut by_id: BTreeMap<&str, usize> = BTreeMap::new();
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in &snapshot.node_claims {
        let id = claim.status.provider_id.as_str();
        if by_id.contains_key(id) {
            continue;
        }
        if !id.is_empty() {
            by_id.insert(id, machines.len());
        }
        if let Some(name) = &claim.status.node_name {
            by_name.insert(name.as_str(), machines.len());
        }
        machines.push(Machine {
            node: None,
            claim: Some(claim),
        });
    }
    for node in &snapshot.nodes {
        let id = node.provider_id.as_str();
        let known = match id {
            "" => by_name.get(node.name.as_str()),
            id => by_id.get(id).or_else(|| {
                // A NodeClaim with another provider id is another machine.
                let named = by_name.get(node.name.as_str())?;
                let claim = machines.get(*named)?.claim?;
                claim.status.provider_id.is_empty().then_some(named)
            }),
        };
        if let Some(machine) = known.and_then(|at| machines.get_mut(*at)) {
            machine.node = Some(newer(machine.node, node));
            continue;
        }
        if !id.is_empty() {
            by_id.insert(id, machines.len());
        }
        machines.push(Machine {
            node: Some(node),
            claim: None,
        });
    }
    machines
}

/// The Node that the machine has now, if it has registered under several names.
fn newer<'a>(known: Option<&'a Node>, node: &'a Node) -> &'a Node {
    known
        .filter(|known| {
            (known.deleted_at.is_none(), known.created_at)
                > (node.deleted_at.is_none(), node.created_at)
        })
        .unwrap_or(node)
}

fn is_there(pod: &Pod) -> bool {
    !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

fn node_box(
    Machine { node, claim }: Machine<'_>,
    pods: &[&Pod],
    prices: &Prices<'_>,
    snapshot: &Snapshot,
) -> NodeBox {
    let label = |key: &str| {
        let of_node = node.and_then(|node| node.labels.get(key));
        let of_claim = || claim.and_then(|claim| claim.labels.get(key));
        of_node.or_else(of_claim).cloned().unwrap_or_default()
    };
    let (pool, zone) = (label(NODE_POOL), label(ZONE));
    let (instance_type, capacity_type) = (label(INSTANCE_TYPE), label(CAPACITY_TYPE));
    let price = prices.price(&pool, &instance_type, &zone, &capacity_type);
    let allocatable = |key| {
        let of_claim = || claim.map(|claim| claim.status.allocatable.get(key));
        let of_node = node.map(|node| node.allocatable.get(key));
        of_node.or_else(of_claim).unwrap_or_default()
    };
    let claim_name = claim.map(|claim| claim.name.to_string());
    let name = node.map(|node| node.name.to_string());
    let state = stage(node, claim);
    let explanation = Explanation::of(state, node, claim, pods, snapshot);
    NodeBox {
        name: name.or_else(|| claim_name.clone()).unwrap_or_default(),
        claim: claim_name,
        pool,
        zone,
        capacity_type,
        instance_type,
        hourly: price.as_ref().map(|price| price.total),
        price_parts: price.as_ref().map(|price| price.parts),
        list_hourly: price.and_then(|price| price.list),
        state,
        since: explanation.since,
        reason: explanation.reason,
        stuck: explanation.stuck,
        cpu: allocatable(CPU),
        memory: allocatable(MEMORY),
        pods: pods.iter().map(|pod| placed(pod)).collect(),
    }
}

fn stage(node: Option<&Node>, claim: Option<&NodeClaim>) -> Stage {
    let leaves = node.is_some_and(|node| node.deleted_at.is_some())
        || claim.is_some_and(|claim| claim.deleted_at.is_some());
    let initialized = claim.is_none_or(|claim| claim.is_true("Initialized"));
    match (leaves, node) {
        (true, _) => Stage::Leaving,
        (false, None) => match claim.is_some_and(|claim| !claim.status.provider_id.is_empty()) {
            true => Stage::Joining,
            false => Stage::Launching,
        },
        (false, Some(_)) if !initialized => Stage::Joining,
        (false, Some(node)) => match (node.ready.status, node.unschedulable) {
            (ConditionStatus::True, false) => Stage::Ready,
            (ConditionStatus::True, true) => Stage::Cordoned,
            (ConditionStatus::False | ConditionStatus::Unknown, _) => Stage::NotReady,
        },
    }
}

fn placed(pod: &Pod) -> Placed {
    let is_daemon = pod
        .owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "DaemonSet");
    Placed(
        pod.key.to_string(),
        pod.requests.get(CPU),
        pod.requests.get(MEMORY),
        u8::from(is_daemon),
    )
}
