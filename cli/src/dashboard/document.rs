//! The page's document: the answer of `GET /api/state`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    CapacityType, NanosPerHour, Plan, Snapshot, Surcharge,
    labels::{INSTANCE_TYPE, NODE_POOL, ZONE},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::{Action, Expected},
    pod::{Pod, PodPhase},
    resources::{CPU, MEMORY},
};
use serde::Serialize;

use crate::decision::dollars;

/// Version of the document. Changes whenever a reader of the previous version could be misled.
pub(crate) const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    pub(crate) version: u32,
    /// Number that grows with every change.
    pub(crate) revision: u64,
    /// Time of the state.
    pub(crate) at: Timestamp,
    pub(crate) source: Source,
    /// Reasons why no newer state is shown.
    pub(crate) problems: Vec<String>,
    /// Warnings that do not prevent showing the state.
    pub(crate) notes: Vec<String>,
    pub(crate) nodes: Vec<NodeBox>,
    pub(crate) pending: Vec<Pending>,
    /// Oldest first.
    pub(crate) decisions: Vec<Decision>,
    /// Oldest first; each holds until the next.
    pub(crate) costs: Vec<Cost>,
}

/// Source of the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Source {
    /// Kind of the source, such as `context` or `demo`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
}

/// A node, or a NodeClaim that has no node yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeBox {
    pub(crate) name: String,
    pub(crate) claim: Option<String>,
    /// NodePool; empty for nodes without one.
    pub(crate) pool: String,
    pub(crate) zone: String,
    pub(crate) capacity_type: String,
    pub(crate) instance_type: String,
    /// Dollars per hour, where the price is known.
    pub(crate) hourly: Option<f64>,
    /// Parts of that price in dollars: the instance, its volumes, and the node itself.
    pub(crate) price_parts: Option<[f64; 3]>,
    pub(crate) state: Stage,
    pub(crate) since: Option<Timestamp>,
    /// Allocatable CPU in millicores.
    pub(crate) cpu: i64,
    /// Allocatable memory in bytes.
    pub(crate) memory: i64,
    pub(crate) pods: Vec<Placed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Stage {
    /// The instance does not exist yet.
    Launching,
    /// The instance exists, its node is not usable yet.
    Joining,
    Ready,
    NotReady,
    Cordoned,
    Leaving,
}

/// Namespace and name, requested millicores and bytes, and 1 for a DaemonSet's pod; an array, because there are many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Placed(String, i64, i64, u8);

/// A pod without a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pending {
    pub(crate) name: String,
    pub(crate) since: Option<Timestamp>,
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    /// The plan for the pod, or the reasons why each NodePool cannot run it.
    pub(crate) reasons: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    pub(crate) at: Timestamp,
    /// Action, such as `launch`, or an event's reason.
    pub(crate) act: String,
    /// Object of the action: a node, a NodeClaim or a pod.
    pub(crate) subject: String,
    pub(crate) why: String,
    pub(crate) is_trouble: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) at: Timestamp,
    /// Dollars per hour.
    pub(crate) hourly: f64,
}

/// Prices of nodes.
struct Prices<'a> {
    /// Offerings of the NodePools' instance types, by type, zone and capacity type.
    instances: BTreeMap<(&'a str, &'a str, CapacityType), NanosPerHour>,
    /// Surcharges of each node, by NodePool.
    surcharges: BTreeMap<&'a str, Surcharge>,
}

/// Nodes, and NodeClaims without a node, by name.
pub(crate) fn nodes(snapshot: &Snapshot) -> Vec<NodeBox> {
    let prices = prices(snapshot);
    let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| is_there(pod)) {
        if let Some(node) = &pod.node_name {
            pods.entry(node.as_str()).or_default().push(pod);
        }
    }
    let claims: BTreeMap<&str, &NodeClaim> = snapshot
        .node_claims
        .iter()
        .filter_map(|claim| Some((claim.status.node_name.as_ref()?.as_str(), claim)))
        .collect();
    let of_node = |node: &Node| {
        let pods = pods.get(node.name.as_str());
        let claim = claims.get(node.name.as_str()).copied();
        node_box(node, claim, pods.map_or(&[], Vec::as_slice), &prices)
    };
    let mut all: Vec<NodeBox> = snapshot.nodes.iter().map(of_node).collect();
    let joined = |claim: &&NodeClaim| {
        let mut nodes = snapshot.nodes.iter();
        let name = claim.status.node_name.as_ref();
        name.is_some_and(|name| nodes.any(|node| node.name == *name))
    };
    let on_their_way = snapshot.node_claims.iter().filter(|claim| !joined(claim));
    all.extend(on_their_way.map(|claim| claim_box(claim, &prices)));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn is_there(pod: &Pod) -> bool {
    !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

fn prices(snapshot: &Snapshot) -> Prices<'_> {
    let types = snapshot.instance_types.values().flat_map(|types| &**types);
    let offerings = types.flat_map(|instance_type| {
        let offerings = instance_type.offerings.iter();
        let offerings = offerings.filter(|offering| offering.reservation.is_none());
        offerings.map(|offering| {
            let key = (
                instance_type.name.as_str(),
                offering.zone.as_str(),
                offering.capacity_type,
            );
            (key, offering.price)
        })
    });
    let pools = snapshot.node_pools.iter();
    let surcharges = pools.map(|pool| (pool.name.as_str(), snapshot.surcharge(pool)));
    Prices {
        instances: offerings.collect(),
        surcharges: surcharges.collect(),
    }
}

fn labelled(labels: &BTreeMap<String, String>, prices: &Prices<'_>) -> NodeBox {
    let text = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let (zone, instance_type) = (text(ZONE), text(INSTANCE_TYPE));
    let capacity_type = text(model::labels::CAPACITY_TYPE);
    let bought = capacity_type.parse::<CapacityType>().ok();
    let instance = bought.and_then(|bought| {
        let key = (instance_type.as_str(), zone.as_str(), bought);
        prices.instances.get(&key)
    });
    let pool = text(NODE_POOL);
    let surcharge = prices.surcharges.get(pool.as_str()).copied();
    let surcharge = surcharge.unwrap_or_default();
    let parts = instance.map(|price| [*price, surcharge.volumes, surcharge.node]);
    NodeBox {
        name: String::new(),
        claim: None,
        pool,
        hourly: instance.map(|price| dollars(price.plus(surcharge.total()))),
        price_parts: parts.map(|parts| parts.map(dollars)),
        zone,
        capacity_type,
        instance_type,
        state: Stage::Launching,
        since: None,
        cpu: 0,
        memory: 0,
        pods: Vec::new(),
    }
}

fn node_box(node: &Node, claim: Option<&NodeClaim>, pods: &[&Pod], prices: &Prices<'_>) -> NodeBox {
    let leaves = node.deleted_at.is_some() || claim.is_some_and(|claim| claim.deleted_at.is_some());
    let initialized = claim.is_none_or(|claim| claim.is_true("Initialized"));
    let state = match (leaves, initialized, node.ready.status, node.unschedulable) {
        (true, ..) => Stage::Leaving,
        (_, false, ..) => Stage::Joining,
        (_, _, ConditionStatus::True, false) => Stage::Ready,
        (_, _, ConditionStatus::True, true) => Stage::Cordoned,
        (_, _, ConditionStatus::False | ConditionStatus::Unknown, _) => Stage::NotReady,
    };
    NodeBox {
        name: node.name.to_string(),
        claim: claim.map(|claim| claim.name.to_string()),
        state,
        since: node.created_at,
        cpu: node.allocatable.get(CPU),
        memory: node.allocatable.get(MEMORY),
        pods: pods.iter().map(|pod| placed(pod)).collect(),
        ..labelled(&node.labels, prices)
    }
}

fn claim_box(claim: &NodeClaim, prices: &Prices<'_>) -> NodeBox {
    let launched = !claim.status.provider_id.is_empty();
    NodeBox {
        name: claim.name.to_string(),
        claim: Some(claim.name.to_string()),
        state: match (claim.deleted_at, launched) {
            (Some(_), _) => Stage::Leaving,
            (None, true) => Stage::Joining,
            (None, false) => Stage::Launching,
        },
        since: claim.created_at,
        cpu: claim.status.allocatable.get(CPU),
        memory: claim.status.allocatable.get(MEMORY),
        ..labelled(&claim.labels, prices)
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

/// Pods without a node, each with its part of this plan.
pub(crate) fn pending(snapshot: &Snapshot, plan: &Plan) -> Vec<Pending> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        let explanation = unplaced
            .reasons
            .iter()
            .map(|refusal| match &refusal.node_pool {
                Some(pool) => format!("NodePool {pool}: {}", refusal.text),
                None => refusal.text.clone(),
            });
        reasons.insert(unplaced.pod.key.to_string(), explanation.collect());
    }
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            let bought = &launch.cheapest;
            let explanation = format!(
                "a node of NodePool {} is wanted for it: {} {} in {} or the like",
                launch.node_pool, bought.instance_type, bought.capacity_type, bought.zone
            );
            let pods = launch.pods.iter();
            reasons.extend(pods.map(|pod| (pod.key.to_string(), vec![explanation.clone()])));
        }
    }
    for nomination in &plan.nominations {
        let explanation = match &nomination.node {
            Expected::Node(name) => format!("it is expected on node {name}"),
            Expected::NodeClaim(name) => format!("NodeClaim {name} is on its way for it"),
        };
        reasons.insert(nomination.pod.key.to_string(), vec![explanation]);
    }
    let waiting = snapshot.pods.iter().filter(|pod| is_pending(pod));
    waiting
        .map(|pod| {
            let name = pod.key.to_string();
            Pending {
                reasons: reasons.remove(&name).unwrap_or_else(|| elsewhere(pod)),
                name,
                since: pod.created_at,
                cpu: pod.requests.get(CPU),
                memory: pod.requests.get(MEMORY),
            }
        })
        .collect()
}

pub(crate) fn is_pending(pod: &Pod) -> bool {
    pod.node_name.is_none() && pod.deletion.is_none() && pod.phase == PodPhase::Pending
}

/// The reasons why no NodePool is considered for a pod.
fn elsewhere(pod: &Pod) -> Vec<String> {
    let why = match pod.scheduling_gates.as_slice() {
        [] if pod.unschedulable => "nothing is planned for it".to_owned(),
        [] => "the scheduler has not found it unschedulable".to_owned(),
        gates => format!("it waits for its scheduling gates: {}", gates.join(", ")),
    };
    vec![why]
}

#[cfg(test)]
mod tests;
