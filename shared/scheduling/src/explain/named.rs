//! Pods that select nodes by hostname, with the reason why each node does not take them.

use model::{requirement::Requirement, snapshot::Optimize};

use super::constraint_name;
use crate::{
    algebra::Undefined,
    node::Node,
    outcome::to_requirement,
    placement_context::{PlacementContext, Refusal},
    ports,
    reason::NodeReason,
    shape::ShapeCore,
    solve::Solver,
    topology::ApplicableConstraint,
};

/// Upper bound on the nodes listed in a reason.
const NODES_MAX: usize = 3;

/// Nodes that the pod selects by hostname, with reasons; `None` if it selects none, or under [`Optimize::Upstream`], which
/// does not place such pods.
pub(super) fn refusing<'a>(
    solver: &mut Solver<'a>,
    core: &ShapeCore<'a>,
    constraints: &[ApplicableConstraint],
) -> Option<Vec<(String, NodeReason)>> {
    let context = &mut solver.context;
    if core.sets.any_hostname || context.input.options.optimize == Optimize::Upstream {
        return None;
    }
    let wanted = context.algebra.get(core.sets.on_nodes, context.hostname)?;
    let wanted: Requirement = to_requirement(context.hostname, wanted, &context.algebra);
    if wanted.complement {
        return None;
    }
    let named = wanted.values.iter().take(NODES_MAX).map(|name| {
        let node = solver.nodes.iter().find(|node| {
            let found = solver.context.input.nodes.get(node.index);
            found.is_some_and(|found| found.hostname == name)
        });
        let lack = match node {
            None => NodeReason::Missing,
            Some(node) => match node.check(core, constraints, &mut solver.context) {
                Ok(()) => NodeReason::NextRound,
                Err(refusal) => lack(&refusal, node, core, &mut solver.context),
            },
        };
        (name.clone(), lack)
    });
    Some(named.collect())
}

fn lack<'a>(
    refusal: &Refusal,
    node: &Node<'a>,
    core: &ShapeCore<'a>,
    context: &mut PlacementContext<'a>,
) -> NodeReason {
    match refusal {
        Refusal::Taints => context
            .tolerance
            .intolerable(core.tolerations, node.taints)
            .map_or(NodeReason::Closed, |taint| NodeReason::Taint(taint.clone())),
        Refusal::Requirements => labels(node, core, context),
        Refusal::Resources => resource(node, core, context),
        Refusal::Ports => match ports::conflict(core.ports(), &node.ports) {
            Some(port) => NodeReason::HostPort(port.port),
            None => NodeReason::Closed,
        },
        Refusal::VolumeLimit => NodeReason::Attachments,
        Refusal::Volumes => NodeReason::Volumes,
        Refusal::Devices(_) => NodeReason::Devices,
        Refusal::Topology(group, _) => match context.topology.group(*group) {
            Some(group) => NodeReason::Rule {
                rule: constraint_name(group),
                key: context.algebra.text(group.key).to_owned(),
            },
            None => NodeReason::Closed,
        },
        Refusal::CoolingDown
        | Refusal::Hostname
        | Refusal::Types(_)
        | Refusal::MinValues(_)
        | Refusal::Reservation
        | Refusal::NodeLimit
        | Refusal::Limits => NodeReason::Closed,
    }
}

fn labels(node: &Node<'_>, core: &ShapeCore<'_>, context: &mut PlacementContext<'_>) -> NodeReason {
    let (known, required) = (node.set, core.sets.on_nodes);
    let algebra = &mut context.algebra;
    let undefined = algebra.undefined(known, required, Undefined::Refused);
    let key = undefined.or_else(|| algebra.conflict(known, required));
    let wanted =
        key.and_then(|key| Some(to_requirement(key, algebra.get(required, key)?, algebra)));
    wanted.map_or(NodeReason::Closed, NodeReason::Label)
}

fn resource(node: &Node<'_>, core: &ShapeCore<'_>, context: &PlacementContext<'_>) -> NodeReason {
    let left = node.remaining.as_deref().unwrap_or_default();
    let names = context.dimensions.names().iter();
    let mut short = names
        .zip(core.requests.iter().zip(left))
        .filter(|(_, (wanted, left))| wanted > left);
    short
        .next()
        .map_or(NodeReason::Closed, |(name, (wanted, left))| {
            NodeReason::Resource {
                name: name.clone(),
                wanted: *wanted,
                left: (*left).max(0),
            }
        })
}
