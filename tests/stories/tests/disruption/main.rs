//! Disruption of nodes over whole turns (docs/spec/lifecycle.md#disruption-loop).
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

mod crash;
mod cursor;
mod multiple_replacements;
mod rates;
mod rebooting;
mod repairing;
mod replacing;
mod reserving;
mod revalidation;

use fakes::World;
use model::{NodeName, ledger::CommandState, node_claim::NodeClaim};
use stories::{POD, Relay, Rig, all_bound, cpu, secs};

/// One pod on a node that four others have left, so that the node is four times as large as it needs to be.
async fn oversized() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(5);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    assert_eq!(types(&rig), ["m5.2xlarge"]);
    rig.pass(secs(30)).await;
    rig.scale(1);
    rig
}

/// One pod on a node that was created before its NodePool's labels changed.
async fn outdated() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(1);
    let bound = rig.until(secs(180), all_bound).await;
    assert!(bound.is_some(), "{:#?}", rig.transcript);
    rig.pass(secs(30)).await;
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        pool.metadata.generation = Some(2);
        relabel(pool);
    });
    rig
}

/// Changes a label of the NodePool's template, so that its nodes drift.
fn relabel(pool: &mut api::NodePool) {
    let metadata = pool.spec.template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("team".to_owned(), "new".to_owned());
}

/// Instance types of the nodes in service, sorted.
fn types(rig: &Rig) -> Vec<String> {
    let mut types: Vec<String> = rig.sim.with(|world| {
        let alive = world.account.alive();
        alive
            .map(|instance| instance.instance_type.clone())
            .collect()
    });
    types.sort();
    types
}

/// States of the commands, in their order.
fn states(world: &mut World) -> Vec<CommandState> {
    let rows = world.ledger.of(&Rig::cluster());
    let mut commands: Vec<_> = rows.commands.values().cloned().collect();
    commands.sort_by_key(|command| command.committed_at);
    commands.iter().map(|command| command.state).collect()
}

/// Whether a command waits for its replacements.
fn replacing(world: &mut World) -> bool {
    states(world).contains(&CommandState::Replacing)
}

fn rolled_back(world: &mut World) -> bool {
    states(world).contains(&CommandState::RolledBack)
}

/// Whether no node that stays is tainted and no NodeClaim has the disruption condition.
fn no_node_is_marked(world: &mut World) -> bool {
    let claims = world.api.node_claims.values();
    let mut claims = claims.filter(|claim| claim.deleted_at.is_none());
    let nodes = world
        .api
        .nodes
        .values()
        .filter(|node| node.deleted_at.is_none());
    let mut taints = nodes.flat_map(|node| &node.taints);
    taints.all(|taint| taint.key != "karpenter.sh/disrupted")
        && claims.all(|claim| claim.condition("DisruptionReason").is_none())
}

/// The NodeClaim that was created last.
fn newest(world: &mut World) -> NodeClaim {
    let claims = world.api.node_claims.values();
    claims
        .max_by_key(|claim| claim.created_at)
        .cloned()
        .unwrap()
}

/// The node of the first pod.
fn node_of_first_pod(world: &mut World) -> NodeName {
    let mut pods = world.api.pods.values();
    pods.find_map(|pod| pod.node_name.clone()).unwrap()
}

/// Messages of the events with this reason on Nodes, NodeClaims and NodePools.
fn event_messages(world: &mut World, reason: &str) -> Vec<String> {
    let events = world.api.events.iter();
    let events = events.filter(|event| event.reason == reason);
    events.map(|event| event.message.clone()).collect()
}

/// Advances the clock until the condition holds, which must be within `limit` seconds.
async fn wait(rig: &mut Rig, limit: i64, is_so: impl Fn(&mut World) -> bool) {
    for _ in 0..limit {
        if rig.sim.with(&is_so) {
            return;
        }
        rig.pass(secs(1)).await;
    }
    panic!("{:#?}\n{:?}", rig.transcript, rig.sim.with(states));
}

fn grow(rig: &Rig, name: &str, replicas: usize) {
    rig.sim
        .with(|world| world.api.scale(name, replicas, cpu(POD)));
}
