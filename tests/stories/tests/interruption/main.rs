//! Interruptions announced by AWS: messages of the queue, faults of all dependencies, and reclaims of many instances at once.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

mod announced;
mod deliveries;
mod faults;
mod forged;
mod notifications;
mod rebalance;
mod storm;
mod unmanaged;

use model::{InstanceId, node_claim::NodeClaim};
use stories::{Relay, Rig, all_bound, secs};
use turns::{Delivery, Message};

const SPOT: &str = "EC2 Spot Instance Interruption Warning";
const STATE: &str = "EC2 Instance State-change Notification";

/// An EventBridge event of this account and Region at the present time.
fn event(rig: &Rig, detail_type: &str, detail: serde_json::Value) -> String {
    let now = rig.sim.with(|world| world.now);
    let event = serde_json::json!({
        "version": "0", "id": "1", "source": "aws.ec2", "detail-type": detail_type,
        "account": "123456789012", "region": "us-east-1", "time": now.to_string(), "resources": [], "detail": detail
    });
    event.to_string()
}

/// Turns the instance into a spot one and returns its interruption warning.
fn spot(rig: &Rig, instance: &InstanceId) -> String {
    rig.make_spot(instance);
    warning(rig, instance)
}

/// The spot interruption warning for an instance of any capacity type.
fn warning(rig: &Rig, instance: &InstanceId) -> String {
    event(
        rig,
        SPOT,
        serde_json::json!({ "instance-id": instance, "instance-action": "terminate" }),
    )
}

fn state(rig: &Rig, instance: &InstanceId, state: &str) -> String {
    event(
        rig,
        STATE,
        serde_json::json!({ "instance-id": instance, "state": state }),
    )
}

/// Delivers one batch of the queue; message ids are the positions in it.
async fn deliver(rig: &mut Rig, bodies: &[String]) -> Delivery {
    let message = |(id, body): (usize, &String)| Message {
        id: id.to_string(),
        body: body.clone(),
    };
    let messages: Vec<Message> = bodies.iter().enumerate().map(message).collect();
    let turn = rig.next_turn();
    turns::deliver(&rig.world, &messages, aws_rules::interruption::read, &turn).await
}

/// A cluster of `nodes` nodes, each filled by two pods.
async fn running(relay: Relay, nodes: usize) -> Rig {
    let mut rig = Rig::ready(relay).await;
    fill(&mut rig, nodes).await;
    rig
}

/// [`running`] on spot instances.
async fn on_spot(relay: Relay, nodes: usize) -> Rig {
    let mut rig = Rig::ready(relay).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let requirements = &mut pool.spec.template.spec.requirements;
        let capacity_type = requirements
            .iter_mut()
            .find(|requirement| requirement.key == "karpenter.sh/capacity-type");
        capacity_type.unwrap().values = vec!["spot".into(), "on-demand".into()];
    });
    fill(&mut rig, nodes).await;
    rig
}

/// Launches the nodes one after the other, so that each is as small as possible.
async fn fill(rig: &mut Rig, nodes: usize) {
    for node in 1..=nodes {
        rig.scale(2 * node);
        assert!(rig.until(secs(300), all_bound).await.is_some());
        rig.pass(secs(30)).await;
    }
}

fn instances(rig: &Rig) -> Vec<InstanceId> {
    rig.sim
        .with(|world| world.account.alive().map(|i| i.id.clone()).collect())
}

fn claim_of(world: &fakes::World, instance: &InstanceId) -> Option<NodeClaim> {
    let mut claims = world.api.node_claims.values();
    let own = claims.find(|claim| claim.status.provider_id.ends_with(instance.as_str()));
    own.cloned()
}

fn is_deleting(world: &fakes::World, instance: &InstanceId) -> bool {
    claim_of(world, instance).is_none_or(|claim| claim.deleted_at.is_some())
}

fn is_cordoned(world: &fakes::World, instance: &InstanceId) -> bool {
    let mut nodes = world.api.nodes.values();
    let node = nodes.find(|node| node.provider_id.ends_with(instance.as_str()));
    node.is_some_and(|node| node.unschedulable)
}

/// Sets an annotation of the only NodePool.
fn annotate(rig: &Rig, key: &str, value: &str) {
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let annotations = &mut pool.metadata.annotations;
        annotations.insert(key.into(), value.into());
    });
}

fn is_tainted(world: &fakes::World, instance: &InstanceId) -> bool {
    let mut nodes = world.api.nodes.values();
    let node = nodes.find(|node| node.provider_id.ends_with(instance.as_str()));
    node.is_some_and(|node| {
        let mut taints = node.taints.iter();
        taints.any(|taint| taint.key == "karpenter.sh/disrupted")
    })
}

fn counts(delivery: &Delivery) -> Vec<(&str, usize)> {
    let counts = delivery.counts.iter();
    counts
        .map(|(what, count)| (what.as_str(), *count))
        .collect()
}
