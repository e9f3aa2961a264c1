//! Pods that select nodes by hostname, with the reason why each node does not take them.

use model::{requirement::Requirement, snapshot::Optimize};

use super::rule;
use crate::{
    algebra::Undefined,
    node::Node,
    outcome::spelled_out,
    ports,
    reason::NodeLack,
    shape::Core,
    solve::Solver,
    topology::ApplicableConstraint,
    world::{Refusal, World},
};

/// Upper bound on the nodes listed in a reason.
const NODES_MAX: usize = 3;

/// Nodes that the pod selects by hostname, with reasons; `None` if it selects none, or under [`Optimize::Upstream`], which
/// does not place such pods.
pub(super) fn refusing<'a>(
    solver: &mut Solver<'a>,
    core: &Core<'a>,
    constraints: &[ApplicableConstraint],
) -> Option<Vec<(String, NodeLack)>> {
    let world = &mut solver.world;
    if core.sets.any_hostname || world.input.options.optimize == Optimize::Upstream {
        return None;
    }
    let wanted = world.algebra.get(core.sets.on_nodes, world.hostname)?;
    let wanted: Requirement = spelled_out(world.hostname, wanted, &world.algebra);
    if wanted.complement {
        return None;
    }
    let named = wanted.values.iter().take(NODES_MAX).map(|name| {
        let node = solver.nodes.iter().find(|node| {
            let found = solver.world.input.nodes.get(node.index);
            found.is_some_and(|found| found.hostname == name)
        });
        let lack = match node {
            None => NodeLack::Missing,
            Some(node) => match node.check(core, constraints, &mut solver.world) {
                Ok(()) => NodeLack::NextRound,
                Err(refusal) => lack(&refusal, node, core, &mut solver.world),
            },
        };
        (name.clone(), lack)
    });
    Some(named.collect())
}

fn lack<'a>(
    refusal: &Refusal,
    node: &Node<'a>,
    core: &Core<'a>,
    world: &mut World<'a>,
) -> NodeLack {
    match refusal {
        Refusal::Taints => world
            .tolerance
            .intolerable(core.tolerations, node.taints)
            .map_or(NodeLack::Closed, |taint| NodeLack::Taint(taint.clone())),
        Refusal::Requirements => labels(node, core, world),
        Refusal::Resources => resource(node, core, world),
        Refusal::Ports => match ports::conflict(core.ports(), &node.ports) {
            Some(port) => NodeLack::HostPort(port.port),
            None => NodeLack::Closed,
        },
        Refusal::VolumeLimit => NodeLack::Attachments,
        Refusal::Volumes => NodeLack::Volumes,
        Refusal::Devices(_) => NodeLack::Devices,
        Refusal::Topology(group, _) => match world.topology.group(*group) {
            Some(group) => NodeLack::Rule {
                rule: rule(group),
                key: world.algebra.text(group.key).to_owned(),
            },
            None => NodeLack::Closed,
        },
        Refusal::CoolingDown
        | Refusal::Hostname
        | Refusal::Types(_)
        | Refusal::MinValues(_)
        | Refusal::Reservation
        | Refusal::NodeLimit
        | Refusal::Limits => NodeLack::Closed,
    }
}

fn labels(node: &Node<'_>, core: &Core<'_>, world: &mut World<'_>) -> NodeLack {
    let (known, asked) = (node.set, core.sets.on_nodes);
    let algebra = &mut world.algebra;
    let undefined = algebra.undefined(known, asked, Undefined::Refused);
    let key = undefined.or_else(|| algebra.conflict(known, asked));
    let wanted = key.and_then(|key| Some(spelled_out(key, algebra.get(asked, key)?, algebra)));
    wanted.map_or(NodeLack::Closed, NodeLack::Label)
}

fn resource(node: &Node<'_>, core: &Core<'_>, world: &World<'_>) -> NodeLack {
    let left = node.remaining.as_deref().unwrap_or_default();
    let names = world.dimensions.names().iter();
    let mut short = names
        .zip(core.requests.iter().zip(left))
        .filter(|(_, (wanted, left))| wanted > left);
    short
        .next()
        .map_or(NodeLack::Closed, |(name, (wanted, left))| {
            NodeLack::Resource {
                name: name.clone(),
                wanted: *wanted,
                left: (*left).max(0),
            }
        })
}
