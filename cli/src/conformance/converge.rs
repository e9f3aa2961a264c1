//! Commands applied until none is left: every pod goes where it was expected, every replacement becomes a node of its cheapest
//! offering, and five minutes pass.

use std::collections::BTreeSet;

use api::conditions::types::{CONSOLIDATABLE, INITIALIZED, LAUNCHED, READY, REGISTERED};
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceType, NodeName, Snapshot, labels,
    node::{ConditionStatus, Node, Ready},
    node_claim::{Condition, NodeClaim, NodeClaimStatus},
    plan::{Expected, Launch, PodRef},
    pod::PodPhase,
};
use planner::{Command, Pass};
use serde_json::{Value, json};

use crate::decision;

/// A search that goes in circles is ended.
const STEPS_MAX: usize = 1_000;
const PER_STEP: SignedDuration = SignedDuration::from_mins(5);

/// The first look, and where all of them together lead.
pub(super) fn converge(mut snapshot: Snapshot, look: fn(&Snapshot) -> Pass) -> (Pass, Value) {
    let first = look(&snapshot);
    let (mut steps, mut pods_moved) = (0, 0);
    let mut pass = first.clone();
    while !pass.commands.is_empty() && steps < STEPS_MAX {
        for command in &pass.commands {
            pods_moved += apply(command, &mut snapshot);
        }
        steps += 1;
        snapshot.now += PER_STEP;
        pass = look(&snapshot);
    }
    let end = json!({
        "finalCost": decision::dollars(cost(&snapshot)),
        "podsMoved": pods_moved,
        "steps": steps,
    });
    (first, end)
}

/// Does what the command says; returns how many pods that moves.
fn apply(command: &Command, snapshot: &mut Snapshot) -> usize {
    let gone: BTreeSet<&str> = command.nodes.iter().map(String::as_str).collect();
    let mut moved = 0;
    for nomination in &command.nominations {
        let node = match &nomination.node {
            Expected::Node(name) => name.clone(),
            Expected::NodeClaim(name) => NodeName(name.0.clone()),
        };
        moved += settle(snapshot, &nomination.pod, &node);
    }
    for launch in &command.replacements {
        let node = join(snapshot, launch);
        for pod in &launch.pods {
            moved += settle(snapshot, pod, &node);
        }
    }
    snapshot.pods.retain(|pod| {
        let node = pod.node_name.as_ref();
        node.is_none_or(|node| !gone.contains(node.as_str()))
    });
    snapshot
        .nodes
        .retain(|node| !gone.contains(node.name.as_str()));
    snapshot.node_claims.retain(|claim| {
        let mut deleted = command.delete.iter();
        !deleted.any(|target| target.name == claim.name)
    });
    moved
}

/// Binds the pod; one if it ran elsewhere before.
fn settle(snapshot: &mut Snapshot, pod: &PodRef, node: &NodeName) -> usize {
    let mut pods = snapshot.pods.iter_mut();
    let Some(pod) = pods.find(|known| known.key == pod.key) else {
        return 0;
    };
    let ran = pod.node_name.replace(node.clone()).is_some();
    pod.unschedulable = false;
    pod.phase = PodPhase::Running;
    usize::from(ran)
}

/// A NodeClaim and its Node, ready and to be consolidated.
fn join(snapshot: &mut Snapshot, launch: &Launch) -> NodeName {
    let types = snapshot.instance_types.get(&launch.node_pool);
    let kind = types.and_then(|types| {
        let mut types = types.iter();
        types.find(|kind| kind.name == launch.cheapest.instance_type)
    });
    let name = NodeName(launch.name.0.clone());
    let mut labels = launch.labels.clone();
    for requirement in kind.iter().flat_map(|kind| kind.requirements.0.values()) {
        if let (false, Some(value), 1) = (
            requirement.complement,
            requirement.values.first(),
            requirement.values.len(),
        ) {
            labels.insert(requirement.key.clone(), value.clone());
        }
    }
    let offering = &launch.cheapest;
    for (key, value) in [
        (labels::INSTANCE_TYPE, offering.instance_type.as_str()),
        (labels::ZONE, &offering.zone),
        (labels::CAPACITY_TYPE, offering.capacity_type.as_str()),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let allocatable = kind.map(InstanceType::allocatable).unwrap_or_default();
    let claim = NodeClaim {
        name: launch.name.clone(),
        uid: launch.name.0.as_str().into(),
        labels: labels.clone(),
        annotations: launch.annotations.clone(),
        created_at: Some(snapshot.now),
        spec: launch.spec.clone(),
        status: NodeClaimStatus {
            provider_id: format!("made-up:///{name}"),
            node_name: Some(name.clone()),
            capacity: offering.capacity.clone(),
            allocatable: allocatable.clone(),
            conditions: conditions(snapshot.now),
            ..NodeClaimStatus::default()
        },
        ..NodeClaim::default()
    };
    for (key, value) in [
        (labels::HOSTNAME, name.as_str()),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    snapshot.nodes.push(Node {
        name: name.clone(),
        uid: launch.name.0.as_str().into(),
        provider_id: claim.status.provider_id.clone(),
        labels,
        taints: launch.spec.taints.clone(),
        capacity: offering.capacity.clone(),
        allocatable,
        ready: Ready {
            status: ConditionStatus::True,
            since: Some(snapshot.now),
        },
        created_at: Some(snapshot.now),
        ..Node::default()
    });
    snapshot.node_claims.push(claim);
    name
}

fn conditions(now: Timestamp) -> Vec<Condition> {
    let kinds = [LAUNCHED, REGISTERED, INITIALIZED, READY, CONSOLIDATABLE];
    let conditions = kinds.map(|kind| Condition {
        kind: kind.to_owned(),
        status: ConditionStatus::True,
        reason: kind.to_owned(),
        message: String::new(),
        last_transition: now,
        observed_generation: None,
    });
    conditions.to_vec()
}

/// Of all nodes with a NodeClaim, each at the price of what it is.
fn cost(snapshot: &Snapshot) -> model::NanosPerHour {
    let prices = snapshot.node_claims.iter().filter_map(|claim| {
        let label = |key: &str| claim.labels.get(key).map(String::as_str);
        let types = snapshot.instance_types.get(&claim.node_pool()?)?;
        let kind = types
            .iter()
            .find(|kind| Some(kind.name.as_str()) == label(labels::INSTANCE_TYPE))?;
        let mut offerings = kind.offerings.iter();
        let own = offerings.find(|offering| {
            Some(offering.zone.as_str()) == label(labels::ZONE)
                && Some(offering.capacity_type.as_str()) == label(labels::CAPACITY_TYPE)
        });
        own.map(|offering| offering.price.0)
    });
    model::NanosPerHour(prices.sum())
}
