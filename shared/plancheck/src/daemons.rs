//! The pods that DaemonSets will put on nodes that have joined lately or are still to be made.

use std::collections::BTreeMap;

use model::{labels, pod::Pod, selector::NodeSelectorRequirement};

use crate::{
    bits::Bits,
    label::Label,
    node_rules::{Wanted, intolerable},
    open_node::OpenNode,
    world::{Machine, World, is_owned_by},
};

/// The pods that DaemonSets will put on nodes.
pub(crate) struct Daemons<'a> {
    pods: Vec<Daemon<'a>>,
}

struct Daemon<'a> {
    /// The newest real one, which shows what admission made of the template (docs/spec/scheduling.md#simulation-setup); else the
    /// template's.
    pod: &'a Pod,
    /// By the template: a real pod is pinned to its node.
    wanted: Wanted<'a>,
}

/// Daemons that may run on one node; some only on some of its types.
pub(crate) struct Candidates<'a> {
    everywhere: Vec<&'a Pod>,
    pub(crate) somewhere: Vec<(&'a Pod, Bits)>,
}

impl<'a> Daemons<'a> {
    /// Daemons that use resource claims are left out where those do not count (docs/spec/scheduling.md#daemon-overhead).
    pub(crate) fn new(world: &World<'a>) -> Self {
        let mut newest: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
        let residents = world.machines.iter().flat_map(|machine| &machine.residents);
        for pod in residents.filter(|pod| is_owned_by(pod, "apps/v1", "DaemonSet")) {
            let owner = pod.owner.as_ref().map_or("", |owner| &owner.name);
            let known = newest.entry((&pod.key.namespace, owner)).or_insert(pod);
            if (known.created_at, &known.key) < (pod.created_at, &pod.key) {
                *known = pod;
            }
        }
        let counts_claims = world.snapshot.settings.device_claims;
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
            pods: pods
                .filter(|daemon| counts_claims || !daemon.pod.resource_claims)
                .collect(),
        }
    }

    /// Daemons that the machine runs, or will run.
    pub(crate) fn on_machine(&self, machine: &Machine<'_>) -> impl Iterator<Item = &'a Pod> {
        let holds =
            |wanted: &NodeSelectorRequirement| machine.label(&wanted.key).guarantees(wanted);
        let suiting = self.pods.iter().filter(move |daemon| {
            intolerable(daemon.pod, machine.taints.clone()).is_none()
                && daemon.wanted.unmet(holds).is_none()
        });
        suiting.map(|daemon| daemon.pod)
    }

    /// The node and each type are asked apart, as upstream does (docs/spec/scheduling.md#daemon-overhead).
    pub(crate) fn candidates(&self, node: &OpenNode<'a>) -> Candidates<'a> {
        let mut candidates = Candidates {
            everywhere: Vec::new(),
            somewhere: Vec::new(),
        };
        for Daemon { pod, wanted } in &self.pods {
            if intolerable(pod, node.taints.iter().collect()).is_some() {
                continue;
            }
            let guarantees = |requirement: &NodeSelectorRequirement| {
                node.label_of_all(&requirement.key).guarantees(requirement)
            };
            let mut somewhere = Bits::none(node.catalog.len());
            for alternative in wanted.alternatives() {
                somewhere.unite(&possible_types(node, &alternative));
            }
            // A label that the node does not have may be ruled out by some of its types.
            let is_on_all = node.options.iter().all(|at| somewhere.contains(at));
            if is_on_all && wanted.unmet(guarantees).is_none() {
                candidates.everywhere.push(pod);
            } else if !somewhere.is_empty() {
                candidates.somewhere.push((pod, somewhere));
            }
        }
        candidates
    }
}

/// The types on which a node may meet all of these.
fn possible_types(node: &OpenNode<'_>, alternative: &[&NodeSelectorRequirement]) -> Bits {
    let mut types = node.options.clone();
    for requirement in alternative {
        let label = node.label_of_all(&requirement.key);
        let is_told_by_types = matches!(label, Label::Absent)
            && !node.is_without(&requirement.key)
            && node.catalog.knows(labels::normalized(&requirement.key));
        if !is_told_by_types && !label.permits(requirement) {
            return Bits::none(node.catalog.len());
        }
        types.intersect(&node.catalog.permitting(requirement));
    }
    types
}

impl<'a> Candidates<'a> {
    /// Daemons that may run on the node if it becomes this type.
    pub(crate) fn on(&self, index: usize) -> Vec<&'a Pod> {
        let somewhere = self
            .somewhere
            .iter()
            .filter(|(_, types)| types.contains(index));
        self.everywhere
            .iter()
            .copied()
            .chain(somewhere.map(|(pod, _)| *pod))
            .collect()
    }

    /// Daemons that run on the node whichever of its types it becomes.
    pub(crate) fn for_certain(&self, node: &OpenNode<'_>) -> impl Iterator<Item = &'a Pod> {
        let somewhere = self.somewhere.iter();
        let on_all =
            somewhere.filter(|(_, types)| node.options.iter().all(|at| types.contains(at)));
        self.everywhere
            .iter()
            .copied()
            .chain(on_all.map(|(pod, _)| *pod))
    }
}
