//! Applies a command to a snapshot as if everything went as planned: each pod is bound where the plan says, each replacement is
//! a node of its cheapest offering, ready and consolidatable.

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::types::{CONSOLIDATABLE, INITIALIZED, LAUNCHED, READY, REGISTERED};
use jiff::Timestamp;
use model::{
    InstanceType, NanosPerHour, NodeName, PodKey, Snapshot,
    labels::{self, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE},
    node::{ConditionStatus, Node, Ready},
    node_claim::{Condition, NodeClaim, NodeClaimStatus},
    plan::{Expected, Launch, PodRef},
    pod::PodPhase,
};

use super::{Command, price};

/// Applies the command and returns the number of pods that it moves.
pub fn carry_out(command: &Command, snapshot: &mut Snapshot) -> usize {
    // Evaluations of the simulated cluster start with an empty cursor.
    snapshot.cursor = None;
    let pods = snapshot.pods.iter().enumerate();
    let places: BTreeMap<PodKey, usize> = pods.map(|(at, pod)| (pod.key.clone(), at)).collect();
    let mut moved = 0;
    let mut settle = |snapshot: &mut Snapshot, pod: &PodRef, node: &NodeName| {
        let at = places.get(&pod.key).copied();
        if let Some(pod) = at.and_then(|at| snapshot.pods.get_mut(at)) {
            moved += usize::from(pod.node_name.replace(node.clone()).is_some());
            pod.unschedulable = false;
            pod.phase = PodPhase::Running;
        }
    };
    for nomination in &command.nominations {
        let node = match &nomination.node {
            Expected::Node(name) => name.clone(),
            Expected::NodeClaim(name) => NodeName(name.0.clone()),
        };
        settle(snapshot, &nomination.pod, &node);
    }
    for launch in &command.replacements {
        let node = join(snapshot, launch);
        for pod in &launch.pods {
            settle(snapshot, pod, &node);
        }
    }
    let gone: BTreeSet<&str> = command.nodes.iter().map(String::as_str).collect();
    snapshot.pods.retain(|pod| {
        let node = pod.node_name.as_ref();
        node.is_none_or(|node| !gone.contains(node.as_str()))
    });
    let nodes = &mut snapshot.nodes;
    nodes.retain(|node| !gone.contains(node.name.as_str()));
    snapshot.node_claims.retain(|claim| {
        let mut deleted = command.delete.iter();
        !deleted.any(|target| target.name == claim.name)
    });
    moved
}

/// Sum of the prices of all nodes with a NodeClaim.
pub fn cost(snapshot: &Snapshot) -> NanosPerHour {
    let prices = snapshot.node_claims.iter().filter_map(|claim| {
        let pool = claim.node_pool()?;
        let types = snapshot.instance_types.get(&pool)?;
        let name = claim.labels.get(INSTANCE_TYPE)?;
        let instance_type = types
            .iter()
            .find(|instance_type| instance_type.name.as_str() == name)?;
        Some(
            price::of_node(
                instance_type,
                &claim.labels,
                snapshot.surcharge_of(Some(&pool)),
            )
            .0,
        )
    });
    NanosPerHour(prices.sum())
}

/// Adds the NodeClaim and the Node of a launch.
fn join(snapshot: &mut Snapshot, launch: &Launch) -> NodeName {
    let types = snapshot.instance_types.get(&launch.node_pool);
    let instance_type = types.and_then(|types| {
        let mut types = types.iter();
        types.find(|instance_type| instance_type.name == launch.cheapest.instance_type)
    });
    let name = NodeName(launch.name.0.clone());
    let mut labels = launch.labels.clone();
    for requirement in instance_type
        .iter()
        .flat_map(|instance_type| instance_type.requirements.0.values())
    {
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
        (INSTANCE_TYPE, offering.instance_type.as_str()),
        (ZONE, &offering.zone),
        (CAPACITY_TYPE, offering.capacity_type.as_str()),
    ] {
        labels.insert(key.to_owned(), value.to_owned());
    }
    let allocatable = instance_type
        .map(InstanceType::allocatable)
        .unwrap_or_default();
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
        (HOSTNAME, name.as_str()),
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
    let types = [LAUNCHED, REGISTERED, INITIALIZED, READY, CONSOLIDATABLE];
    let conditions = types.map(|condition_type| Condition {
        kind: condition_type.to_owned(),
        status: ConditionStatus::True,
        reason: condition_type.to_owned(),
        message: String::new(),
        last_transition: now,
        observed_generation: None,
    });
    conditions.to_vec()
}

#[cfg(test)]
mod tests;
