//! How far each NodeClaim has come: launched → registered → initialized → consolidatable, and what ends it
//! (spec/lifecycle §3–§7, §11.2, §11.3).

mod drift;
mod initialization;
mod liveness;
mod marks;
mod pod_events;
mod registration;

use std::collections::BTreeMap;

use api::{
    conditions::types::{INITIALIZED, LAUNCHED, REGISTERED},
    names::annotation::PODS_DIGEST,
};
use model::{Action, Snapshot, node::Node, node_claim::NodeClaim};

use self::pod_events::PodsOfNodes;
use crate::{
    claim_conditions::{changed, is_needed},
    decision::Decision,
    managed::is_ours,
};

/// The next step of every NodeClaim that is not being deleted.
///
/// Steps are judged by what the objects show, not by what was written last time: a Node that lost its `registered` label to
/// a conflict is registered again.
pub fn lifecycle(snapshot: &Snapshot) -> Decision {
    let mut decision = Decision::default();
    let mut nodes: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in snapshot
        .nodes
        .iter()
        .filter(|node| !node.provider_id.is_empty())
    {
        nodes
            .entry(node.provider_id.as_str())
            .or_default()
            .push(node);
    }
    let pods = PodsOfNodes::new(snapshot);
    for claim in snapshot
        .node_claims
        .iter()
        .filter(|claim| is_ours(claim) && claim.deleted_at.is_none())
    {
        let own = nodes
            .get(claim.status.provider_id.as_str())
            .map_or(&[][..], Vec::as_slice);
        step(snapshot, claim, own, &pods, &mut decision);
    }
    decision
}

fn step(
    snapshot: &Snapshot,
    claim: &NodeClaim,
    nodes: &[&Node],
    pods: &PodsOfNodes<'_>,
    decision: &mut Decision,
) {
    let now = snapshot.now;
    if let Some((why, because)) = liveness::overdue(claim, now) {
        decision.act(
            Action::DeleteNodeClaim(target(claim)),
            format!("{why}: {because}"),
        );
        return;
    }
    if let Some(at) = liveness::deadline(claim) {
        decision.look_again(at);
    }
    let registration = registration::judge(claim, nodes);
    if let registration::Registration::Node { node, update } = &registration
        && let Some(update) = update
    {
        decision.act(
            Action::UpdateNode(update.as_ref().clone()),
            format!("node {} belongs to NodeClaim {}", node.name, claim.name),
        );
    }
    let initialization = registration
        .node()
        .map(|node| initialization::judge(claim, node));
    if let (Some(Ok(())), Some(node)) = (&initialization, registration.node())
        && let Some(update) = initialization::label(node)
    {
        decision.act(
            Action::UpdateNode(update),
            format!("node {} is initialized", node.name),
        );
    }
    let pods = registration
        .node()
        .and_then(|node| pod_events::judge(pods.of(node), claim, now));
    let last_event = pods
        .as_ref()
        .and_then(|change| change.event)
        .or(claim.status.last_pod_event);
    let marks = marks::consolidatable(snapshot, claim, last_event);
    if let marks::Consolidatable::At(at) = marks {
        decision.look_again(at);
    }
    let drifted = drift::judge(snapshot, claim);
    let mut update = changed(claim, now, |conditions| {
        conditions.renew(LAUNCHED);
        if !conditions.is_true(REGISTERED) {
            registration.write(conditions);
        } else {
            conditions.renew(REGISTERED);
        }
        match &initialization {
            _ if conditions.is_true(INITIALIZED) => conditions.renew(INITIALIZED),
            Some(Ok(())) if conditions.is_true(REGISTERED) => conditions.set_true(INITIALIZED),
            Some(Err(waiting)) if conditions.is_true(REGISTERED) => {
                conditions.set_unknown(INITIALIZED, waiting.reason, &waiting.message);
            }
            Some(_) | None => {}
        }
        marks::write(&marks, conditions);
        drift::write(&drifted, conditions);
    });
    if let Some(node) = registration.node()
        && claim.status.node_name.as_ref() != Some(&node.name)
    {
        update.node_name = Some(node.name.clone());
    }
    if let Some(change) = pods {
        update
            .set_annotations
            .insert(PODS_DIGEST.to_owned(), change.digest);
        update.last_pod_event = change.event;
    }
    if is_needed(&update) {
        decision.act(
            Action::UpdateNodeClaim(update),
            format!("NodeClaim {} moved on", claim.name),
        );
    }
}

pub(crate) fn target(claim: &NodeClaim) -> model::plan::Target {
    model::plan::Target {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
    }
}

#[cfg(test)]
mod drift_tests;
#[cfg(test)]
mod tests;
