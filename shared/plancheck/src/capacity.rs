//! Whether pods fit: resources besides running pods and expected daemons, and host ports.

use std::rc::Rc;

use model::{
    Resources,
    pod::{HostPort, Pod},
    resources::amount_text,
};

use crate::{
    Findings,
    daemons::Daemons,
    open_node::OpenNode,
    place::{Place, Placements},
    world::{Machine, World, is_owned_by},
};

pub(crate) fn check<'a>(world: &World<'a>, placements: &Placements<'a>, findings: &mut Findings) {
    let daemons = Daemons::new(world);
    for (place, indexes) in placements.by_place() {
        let new_pods: Vec<_> = indexes
            .iter()
            .filter_map(|index| placements.placed.get(*index))
            .collect();
        let pods: Vec<&Pod> = new_pods.iter().map(|placed| placed.pod).collect();
        match placements.places.get(place) {
            Some(Place::Machine(index)) => {
                let Some(machine) = world.machines.get(*index) else {
                    continue;
                };
                // Later pods find no room once it is used up.
                let mut room = RemainingCapacity::of_machine(machine, &daemons);
                for placed in new_pods {
                    if let Some(problem) = room.take(placed.pod) {
                        let text = format!(
                            "pod {} does not fit node {}: {problem}",
                            placed.pod.key, machine.name
                        );
                        findings.add(placed.subject, text);
                    }
                }
            }
            Some(Place::Open(node)) => {
                if let Some(problem) = open_node_problem(node, &pods, &daemons) {
                    for placed in new_pods {
                        findings.add(
                            placed.subject,
                            format!("NodeClaim {}: {problem}", node.name),
                        );
                    }
                }
            }
            None => {}
        }
    }
}

/// Free resources and used host ports of a machine.
struct RemainingCapacity<'a> {
    left: Resources,
    ports: Vec<&'a HostPort>,
}

impl<'a> RemainingCapacity<'a> {
    fn of_machine(machine: &Machine<'a>, daemons: &Daemons<'a>) -> Self {
        let mut left = machine.allocatable.clone();
        let mut running_daemons = Resources::default();
        let mut ports = Vec::new();
        for pod in &machine.bound_pods {
            left.subtract(&pod.requests);
            ports.extend(&pod.host_ports);
            if is_owned_by(pod, "apps/v1", "DaemonSet") {
                running_daemons.add(&pod.requests);
            }
        }
        // Daemons that are expected but do not run yet. Running daemons that are larger than expected never add room
        // (docs/spec/scheduling.md#existing-node).
        let mut to_come = Resources::default();
        for daemon in daemons.on_machine(machine) {
            to_come.add(&daemon.requests);
        }
        to_come.subtract(&running_daemons);
        to_come.0.retain(|_, amount| *amount > 0);
        left.subtract(&to_come);
        Self { left, ports }
    }

    /// Adds the pod, or returns why it does not fit.
    fn take(&mut self, pod: &'a Pod) -> Option<String> {
        if let Some(problem) = shortage(&pod.requests, &self.left) {
            return Some(problem);
        }
        if let Some(port) = clash(&self.ports, &pod.host_ports) {
            return Some(format!("host port {port} is taken"));
        }
        self.left.subtract(&pod.requests);
        self.ports.extend(&pod.host_ports);
        None
    }
}

fn open_node_problem<'a>(
    node: &OpenNode<'a>,
    pods: &[&'a Pod],
    daemons: &Daemons<'a>,
) -> Option<String> {
    let mut ports: Vec<&HostPort> = Vec::new();
    let mut wanted = Resources::default();
    for pod in pods {
        if let Some(port) = clash(&ports, &pod.host_ports) {
            return Some(format!("two of its pods use host port {port}"));
        }
        ports.extend(&pod.host_ports);
        wanted.add(&pod.requests);
    }
    let candidates = daemons.candidates(node);
    let mut last: Option<(Vec<&Pod>, Needed)> = None;
    for (index, instance_type) in node.types() {
        // Most types run the same daemons as the previous one.
        if let Some((_, needed)) = last
            .as_ref()
            .filter(|_| candidates.on_some_types.is_empty())
            && needed.fits(node, index)
        {
            continue;
        }
        let daemons = candidates.on(index);
        if let Some(port) = daemons
            .iter()
            .find_map(|daemon| clash(&ports, &daemon.host_ports))
        {
            return Some(format!(
                "a daemon takes host port {port} on {}",
                instance_type.name
            ));
        }
        let same = |known: &&(Vec<&Pod>, Needed)| {
            known.0.len() == daemons.len()
                && known
                    .0
                    .iter()
                    .zip(&daemons)
                    .all(|(a, b)| std::ptr::eq(*a, *b))
        };
        if last.as_ref().filter(same).is_none() {
            let needed = Needed::new(node, &wanted, &daemons);
            last = Some((daemons, needed));
        }
        let short = last.as_ref().and_then(|(_, needed)| {
            let is_short = !needed.fits(node, index);
            is_short.then(|| shortage_on(node, index, &needed.amounts))?
        });
        if let Some(problem) = short {
            return Some(format!(
                "its pods do not fit {}: {problem}",
                instance_type.name
            ));
        }
    }
    None
}

/// Requests of an open node's pods and daemons, with the allocatable amounts of each type as columns.
struct Needed {
    amounts: Resources,
    columns: Vec<(i64, Rc<[i64]>)>,
}

impl Needed {
    fn new(node: &OpenNode<'_>, wanted: &Resources, daemons: &[&Pod]) -> Self {
        let mut amounts = wanted.clone();
        for daemon in daemons {
            amounts.add(&daemon.requests);
        }
        let positive = amounts.iter().filter(|(_, amount)| *amount > 0);
        let columns = positive.map(|(name, amount)| (amount, node.catalog.allocatables(name)));
        Self {
            columns: columns.collect(),
            amounts,
        }
    }

    /// Whether the requests certainly fit a type. False if offerings override capacities, in which case each offering
    /// is checked.
    fn fits(&self, node: &OpenNode<'_>, index: usize) -> bool {
        let mut columns = self.columns.iter();
        !node.catalog.has_overrides()
            && columns.all(|(amount, there)| there.get(index).is_some_and(|there| amount <= there))
    }
}

/// The first missing resource on a type, if no offering of it fits. One fitting offering is enough, because the others
/// are excluded at launch.
fn shortage_on(node: &OpenNode<'_>, index: usize, needed: &Resources) -> Option<String> {
    let plain = node
        .catalog
        .allocatable(index)
        .and_then(|there| shortage(needed, there));
    let instance_type = node.catalog.get(index)?;
    let shortages = node.offerings(index).map(|offering| {
        let (capacity, overhead) = (&offering.capacity_override, &offering.overhead_override);
        if capacity.is_none() && overhead.is_none() {
            return plain.clone();
        }
        let there = instance_type.allocatable_with(capacity.as_ref(), overhead.as_ref());
        shortage(needed, &there)
    });
    let shortages: Option<Vec<String>> = shortages.collect();
    shortages.and_then(|shortages| shortages.into_iter().next())
}

/// The first resource that is short, with needed and free amounts.
fn shortage(needed: &Resources, there: &Resources) -> Option<String> {
    needed
        .iter()
        .find(|(name, amount)| *amount > 0 && *amount > there.get(name))
        .map(|(name, amount)| {
            format!(
                "{} {name} needed, {} left",
                amount_text(name, amount),
                amount_text(name, there.get(name).max(0))
            )
        })
}

/// A host port that both use. An unspecified address uses the port on every address.
fn clash(taken: &[&HostPort], wanted: &[HostPort]) -> Option<i32> {
    let is_everywhere = |port: &HostPort| matches!(port.ip.as_str(), "0.0.0.0" | "::");
    wanted
        .iter()
        .find(|port| {
            taken.iter().any(|other| {
                port.port == other.port
                    && port.protocol == other.protocol
                    && (port.ip == other.ip || is_everywhere(port) || is_everywhere(other))
            })
        })
        .map(|port| port.port)
}
