//! Whether pods fit: resources beside what runs there and the daemons to come, and host ports.

use std::collections::BTreeMap;

use model::{
    InstanceType, Offering, Resources,
    pod::{HostPort, Pod},
    resources::amount_text,
    selector::NodeSelectorRequirement,
};

use crate::{
    Findings,
    label::Label,
    node_rules::{Wanted, intolerable},
    open_node::{Choice, OpenNode},
    place::{Place, Placements},
    world::{Machine, World, is_owned_by},
};

pub(crate) fn check(world: &World<'_>, placements: &Placements<'_>, findings: &mut Findings) {
    let daemons = Daemons::new(world);
    let mut sizes = Sizes::default();
    for (place, indexes) in placements.by_place() {
        let newcomers: Vec<_> = indexes
            .iter()
            .filter_map(|index| placements.placed.get(*index))
            .collect();
        let pods: Vec<&Pod> = newcomers.iter().map(|placed| placed.pod).collect();
        match placements.places.get(place) {
            Some(Place::Machine(index)) => {
                let Some(machine) = world.machines.get(*index) else {
                    continue;
                };
                // Whoever comes after the room is used up has none.
                let mut room = Room::of_machine(machine, &daemons);
                for placed in newcomers {
                    if let Some(trouble) = room.take(placed.pod) {
                        let text = format!(
                            "pod {} does not fit node {}: {trouble}",
                            placed.pod.key, machine.name
                        );
                        findings.add(placed.subject, text);
                    }
                }
            }
            Some(Place::Open(node)) => {
                if let Some(trouble) = open_node_trouble(node, &pods, &daemons, &mut sizes) {
                    for placed in newcomers {
                        findings.add(
                            placed.subject,
                            format!("NodeClaim {}: {trouble}", node.name),
                        );
                    }
                }
            }
            None => {}
        }
    }
}

/// What a machine has left.
struct Room<'a> {
    left: Resources,
    ports: Vec<&'a HostPort>,
}

impl<'a> Room<'a> {
    fn of_machine(machine: &Machine<'a>, daemons: &Daemons<'a>) -> Self {
        let mut left = machine.allocatable.clone();
        let mut running_daemons = Resources::default();
        let mut ports = Vec::new();
        for pod in &machine.residents {
            left.subtract(&pod.requests);
            ports.extend(&pod.host_ports);
            if is_owned_by(pod, "apps/v1", "DaemonSet") {
                running_daemons.add(&pod.requests);
            }
        }
        // Daemons that are still to come; those beyond what was expected never make room (spec/scheduling §12.3).
        let mut to_come = daemons.on_machine(machine);
        to_come.subtract(&running_daemons);
        to_come.0.retain(|_, amount| *amount > 0);
        left.subtract(&to_come);
        Self { left, ports }
    }

    /// Why the pod cannot be added, or `None` after adding it.
    fn take(&mut self, pod: &'a Pod) -> Option<String> {
        if let Some(trouble) = shortage(&pod.requests, &self.left) {
            return Some(trouble);
        }
        if let Some(port) = clash(&self.ports, &pod.host_ports) {
            return Some(format!("host port {port} is taken"));
        }
        self.left.subtract(&pod.requests);
        self.ports.extend(&pod.host_ports);
        None
    }
}

fn open_node_trouble<'a>(
    node: &OpenNode<'a>,
    pods: &[&'a Pod],
    daemons: &Daemons<'a>,
    sizes: &mut Sizes,
) -> Option<String> {
    let mut ports: Vec<&HostPort> = Vec::new();
    let mut wanted = Resources::default();
    for pod in pods {
        if let Some(port) = clash(&ports, &pod.host_ports) {
            return Some(format!("two of its pods want host port {port}"));
        }
        ports.extend(&pod.host_ports);
        wanted.add(&pod.requests);
    }
    let candidates = daemons.candidates(node);
    for choice in &node.options {
        let daemons = candidates.on(node, choice);
        if let Some(port) = daemons
            .iter()
            .find_map(|daemon| clash(&ports, &daemon.host_ports))
        {
            return Some(format!(
                "a daemon takes host port {port} on {}",
                choice.instance_type.name
            ));
        }
        let mut needed = wanted.clone();
        for daemon in &daemons {
            needed.add(&daemon.requests);
        }
        // One offering that fits is enough: those that do not are left out when it is launched.
        let shortages: Option<Vec<String>> = choice
            .offerings
            .iter()
            .map(|offering| sizes.shortage(choice.instance_type, offering, &needed))
            .collect();
        if let Some(trouble) = shortages.and_then(|shortages| shortages.into_iter().next()) {
            return Some(format!(
                "its pods do not fit {}: {trouble}",
                choice.instance_type.name
            ));
        }
    }
    None
}

/// The first resource that is missing, and by how much.
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

/// Allocatable amounts by instance type, which many nodes share. Types are told apart by where they are.
#[derive(Default)]
struct Sizes(BTreeMap<*const InstanceType, Resources>);

impl Sizes {
    fn shortage(
        &mut self,
        instance_type: &InstanceType,
        offering: &Offering,
        needed: &Resources,
    ) -> Option<String> {
        let overridden = [&offering.capacity_override, &offering.overhead_override]
            .into_iter()
            .any(Option::is_some);
        if overridden {
            let allocatable = instance_type.allocatable_with(
                offering.capacity_override.as_ref(),
                offering.overhead_override.as_ref(),
            );
            return shortage(needed, &allocatable);
        }
        let allocatable = self
            .0
            .entry(std::ptr::from_ref(instance_type))
            .or_insert_with(|| instance_type.allocatable());
        shortage(needed, allocatable)
    }
}

/// A port that both take. An unspecified address takes the port on every address.
fn clash(taken: &[&HostPort], wanted: &[HostPort]) -> Option<i32> {
    let is_everywhere = |port: &HostPort| matches!(port.ip.as_str(), "0.0.0.0" | "::");
    wanted
        .iter()
        .find(|one| {
            taken.iter().any(|other| {
                one.port == other.port
                    && one.protocol == other.protocol
                    && (one.ip == other.ip || is_everywhere(one) || is_everywhere(other))
            })
        })
        .map(|port| port.port)
}

/// The pods that DaemonSets will put on nodes.
struct Daemons<'a> {
    pods: Vec<Daemon<'a>>,
}

struct Daemon<'a> {
    /// The newest real one, which shows what admission made of the template (spec/scheduling §12); else the template's.
    pod: &'a Pod,
    /// By the template: a real pod is pinned to its node.
    wanted: Wanted<'a>,
}

/// Those that may run on one node; some only on some of its types.
struct Candidates<'d, 'a> {
    everywhere: Vec<&'a Pod>,
    somewhere: Vec<&'d Daemon<'a>>,
}

impl<'a> Daemons<'a> {
    /// Daemons that use resource claims are left out, as those are not supported (spec/scheduling §12.2).
    fn new(world: &World<'a>) -> Self {
        let mut newest: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
        let residents = world.machines.iter().flat_map(|machine| &machine.residents);
        for pod in residents.filter(|pod| is_owned_by(pod, "apps/v1", "DaemonSet")) {
            let owner = pod.owner.as_ref().map_or("", |owner| &owner.name);
            let known = newest.entry((&pod.key.namespace, owner)).or_insert(pod);
            if (known.created_at, &known.key) < (pod.created_at, &pod.key) {
                *known = pod;
            }
        }
        let daemon_sets = world.snapshot.daemon_sets.iter();
        let pods = daemon_sets.map(|daemon_set| {
            let key = (
                daemon_set.key.namespace.as_str(),
                daemon_set.key.name.as_str(),
            );
            Daemon {
                pod: newest.get(&key).copied().unwrap_or(&daemon_set.pod),
                wanted: Wanted::of(&daemon_set.pod),
            }
        });
        Self {
            pods: pods.filter(|daemon| !daemon.pod.resource_claims).collect(),
        }
    }

    fn on_machine(&self, machine: &Machine<'_>) -> Resources {
        let mut total = Resources::default();
        let holds =
            |wanted: &NodeSelectorRequirement| machine.label(&wanted.key).guarantees(wanted);
        for Daemon { pod, wanted } in &self.pods {
            if intolerable(pod, machine.taints.clone()).is_none() && wanted.unmet(holds).is_none() {
                total.add(&pod.requests);
            }
        }
        total
    }

    fn candidates<'d>(&'d self, node: &OpenNode<'a>) -> Candidates<'d, 'a> {
        let mut candidates = Candidates {
            everywhere: Vec::new(),
            somewhere: Vec::new(),
        };
        for daemon in &self.pods {
            let Daemon { pod, wanted } = daemon;
            if intolerable(pod, node.taints.iter().collect()).is_some() {
                continue;
            }
            if wanted
                .unmet(|requirement| node.label_of_all(&requirement.key).guarantees(requirement))
                .is_none()
            {
                candidates.everywhere.push(pod);
            } else {
                candidates.somewhere.push(daemon);
            }
        }
        candidates
    }
}

impl<'a> Candidates<'_, 'a> {
    /// Those that may run on the node if it becomes this type.
    fn on(&self, node: &OpenNode<'a>, choice: &Choice<'a>) -> Vec<&'a Pod> {
        let may_run = |daemon: &&&Daemon<'a>| {
            choice.offerings.iter().any(|offering| {
                let permits = |requirement: &NodeSelectorRequirement| {
                    let label: Label<'_> = node.label(&requirement.key, choice, offering);
                    label.permits(requirement)
                };
                daemon.wanted.unmet(permits).is_none()
            })
        };
        let somewhere = self
            .somewhere
            .iter()
            .filter(may_run)
            .map(|daemon| daemon.pod);
        self.everywhere.iter().copied().chain(somewhere).collect()
    }
}
