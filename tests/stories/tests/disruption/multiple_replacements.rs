//! A consolidation that launches several replacements.

use std::collections::BTreeMap;

use model::{
    CapacityType, NodeClaimName,
    launch::{Instance, InstanceState},
    ledger::{Command, CommandState},
};
use serde_json::json;
use stories::{POD, Relay, Rig, all_bound, consistent, cpu, secs, settled};

use crate::{no_node_is_marked, replacing, states, types, wait};

/// Two on-demand nodes, a little more than half full, of a NodePool that has just been opened to spot and smaller instance types.
/// None of the smaller types holds all pods, so that replacing two nodes by two is the cheapest plan.
async fn half_full() -> Rig {
    let mut rig = Rig::ready(Relay::Watching).await;
    let large_only = json!({
        "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"],
    });
    rig.sim.with(|world| {
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let requirements = &mut pool.spec.template.spec.requirements;
        requirements.push(serde_json::from_value(large_only).unwrap());
    });
    rig.scale(10);
    wait(&mut rig, 300, all_bound).await;
    assert_eq!(types(&rig), ["m5.2xlarge", "m5.2xlarge"]);
    rig.pass(secs(30)).await;
    rig.sim.with(|world| {
        let mut kept: BTreeMap<_, usize> = BTreeMap::new();
        world.api.pods.retain(|_, pod| {
            let of_node = kept.entry(pod.node_name.clone()).or_default();
            *of_node += 1;
            *of_node <= 3
        });
        world.api.scale("web", 6, cpu(POD));
        let pool = world.api.node_pools.get_mut("default").unwrap();
        let requirements = &mut pool.spec.template.spec.requirements;
        requirements.pop();
        let of_any = json!({
            "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"],
        });
        requirements[0] = serde_json::from_value(of_any).unwrap();
    });
    rig
}

/// The command that has just been committed, which replaces two nodes by two.
fn command(world: &mut fakes::World) -> Command {
    let mut commands = world.ledger.of(&Rig::cluster()).commands.values();
    let command = commands.find(|command| command.state == CommandState::Replacing);
    let command = command.unwrap().clone();
    assert_eq!((command.delete.len(), command.replacements.len()), (2, 2));
    command
}

fn now(world: &mut fakes::World, command: &Command) -> Command {
    world.ledger.of(&Rig::cluster()).commands[&command.id].clone()
}

fn in_service(world: &fakes::World, name: &NodeClaimName) -> bool {
    let claim = world.api.node_claims.get(name);
    claim.is_some_and(|claim| claim.is_true("Initialized"))
}

/// Keeps the node of a replacement from becoming ready.
fn hold(world: &mut fakes::World, name: &NodeClaimName) {
    let node = node_of(world, name).unwrap();
    world.api.silent.insert(node);
}

fn node_of(world: &fakes::World, name: &NodeClaimName) -> Option<model::NodeName> {
    let id = world.api.node_claims.get(name)?.status.provider_id.clone();
    let mut instances = world.account.instances.values();
    let own = instances.find(|instance| id.ends_with(instance.id.as_str()))?;
    own.private_dns.clone().map(model::NodeName)
}

#[tokio::test]
async fn candidates_wait_until_every_replacement_is_initialized() {
    let mut rig = half_full().await;
    wait(&mut rig, 300, replacing).await;
    let command = rig.sim.with(command);
    let [first, second] = command.replacements.as_slice() else {
        panic!("{command:?}");
    };
    let launched = |world: &mut fakes::World| {
        let mut both = command.replacements.iter();
        both.all(|name| node_of(world, name).is_some())
    };
    wait(&mut rig, 60, launched).await;
    rig.sim.with(|world| hold(world, second));
    wait(&mut rig, 120, |world| in_service(world, first)).await;
    rig.pass(secs(90)).await;
    let state = rig.sim.with(|world| now(world, &command).state);
    assert_eq!(state, CommandState::Replacing);
    assert_eq!(types(&rig).len(), 4, "{:#?}", rig.transcript);
    rig.sim.with(|world| world.api.silent.clear());
    wait(&mut rig, 600, |world| {
        world.account.alive().count() == 2 && all_bound(world) && consistent(world)
    })
    .await;
    assert_eq!(types(&rig), ["m5.2xlarge", "m5.large"]);
    rig.pass(secs(60)).await;
    rig.sim.with(|world| {
        let on_spot = |one: &Instance| one.capacity_type == CapacityType::Spot;
        assert!(world.account.alive().all(on_spot));
        assert!(states(world).iter().all(|state| state.is_over()));
        assert!(settled(world) && no_node_is_marked(world));
    });
}

#[tokio::test]
async fn replacement_that_vanishes_after_initialization_does_not_roll_back_the_command() {
    let mut rig = half_full().await;
    wait(&mut rig, 300, replacing).await;
    let command = rig.sim.with(command);
    let [first, second] = command.replacements.as_slice() else {
        panic!("{command:?}");
    };
    let launched = |world: &mut fakes::World| {
        let mut both = command.replacements.iter();
        both.all(|name| node_of(world, name).is_some())
    };
    wait(&mut rig, 60, launched).await;
    rig.sim.with(|world| hold(world, second));
    let remembered = |world: &mut fakes::World| now(world, &command).initialized == [first.clone()];
    wait(&mut rig, 180, remembered).await;
    rig.sim.with(|world| {
        let node = node_of(world, first).unwrap();
        for instance in world.account.instances.values_mut() {
            if instance.private_dns.as_deref() == Some(node.as_str()) {
                instance.state = InstanceState::Terminated;
            }
        }
        world.api.node_claims.remove(first);
        world.api.nodes.remove(&node);
    });
    rig.pass(secs(60)).await;
    let state = |world: &mut fakes::World| now(world, &command).state;
    assert_eq!(rig.sim.with(state), CommandState::Replacing);
    rig.sim.with(|world| world.api.silent.clear());
    wait(&mut rig, 300, |world| {
        matches!(
            states(world)[0],
            CommandState::Deleting | CommandState::Done
        )
    })
    .await;
    // Unplaced pods then get a node as any pending pod does.
    let ends = |world: &mut fakes::World| {
        let gone = command
            .delete
            .iter()
            .all(|target| !world.api.node_claims.contains_key(&target.name));
        gone && all_bound(world) && consistent(world)
    };
    wait(&mut rig, 900, ends).await;
    rig.pass(secs(60)).await;
    assert_eq!(rig.sim.with(state), CommandState::Done);
}
