//! Node lifecycle over whole turns (docs/spec/lifecycle.md#node-claim-states).
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

mod admission;
mod bad_input;
mod by_hand;
mod collecting;
mod crashes;
mod deleted_clusters;
mod feature_gates;
mod frozen_pools;
mod many;
mod refusals;
mod registration;
mod static_capacity;
mod termination;
mod together;
mod unreadable;
mod warnings;

use fakes::World;
use model::{NodeClaimName, NodeName, node::Node, node_claim::NodeClaim, pod::Pod};
use stories::{Relay, Rig, all_bound, secs};

/// A cluster in which `pods` pods run on ready nodes.
async fn serving(pods: usize) -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(pods);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(30)).await;
    rig
}

/// A cluster in which `pods` pods run on a ready node each.
async fn serving_apart(pods: usize) -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.sim
        .with(|world| world.catalog.retain(|kind| kind.name == "m5.large"));
    rig.scale(pods);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(30)).await;
    rig
}

/// The first NodeClaim, by name.
fn claim(rig: &Rig) -> NodeClaim {
    let first = rig
        .sim
        .with(|world| world.api.node_claims.values().next().cloned());
    first.unwrap_or_default()
}

/// The Node of the first NodeClaim.
fn node(rig: &Rig) -> NodeName {
    claim(rig).status.node_name.unwrap_or_default()
}

fn change_claim(rig: &Rig, name: &NodeClaimName, change: impl Fn(&mut NodeClaim)) {
    rig.sim
        .with(|world| world.api.node_claims.get_mut(name).map(&change));
}

fn change_node(rig: &Rig, name: &NodeName, change: impl Fn(&mut Node)) {
    rig.sim
        .with(|world| world.api.nodes.get_mut(name).map(&change));
}

fn change_pods(rig: &Rig, change: impl Fn(&mut Pod)) {
    rig.sim
        .with(|world| world.api.pods.values_mut().for_each(&change));
}

/// `kubectl delete nodeclaim`.
fn delete_claim(rig: &Rig, name: &NodeClaimName) {
    rig.sim
        .with(|world| world.api.request_deletion(name, world.now));
}

/// Whether a NodeClaim and its instance are gone.
fn is_gone(claim: &NodeClaim) -> impl Fn(&mut World) -> bool {
    let (name, id) = (claim.name.clone(), claim.status.provider_id.clone());
    move |world| {
        let runs = |instance: &model::launch::Instance| id.ends_with(instance.id.as_str());
        !world.api.node_claims.contains_key(&name) && !world.account.alive().any(runs)
    }
}

/// Whether an event with this reason was posted.
fn has_event(reason: &'static str) -> impl Fn(&mut World) -> bool {
    move |world| world.api.events.iter().any(|event| event.reason == reason)
}

fn count(rig: &Rig, call: &str) -> usize {
    rig.sim
        .with(|world| world.calls.iter().filter(|other| **other == call).count())
}
