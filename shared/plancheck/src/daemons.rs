//! Pods of DaemonSets that will run on new nodes, and on nodes that joined recently.

use std::collections::BTreeMap;

use model::{labels, pod::Pod, selector::NodeSelectorRequirement};

use crate::{
    bits::Bits,
    label::Label,
    node_rules::{NodeConstraints, intolerable},
    open_node::OpenNode,
    world::{Machine, World, is_owned_by},
};

/// Pods that DaemonSets will run on nodes.
pub(crate) struct Daemons<'a> {
    pods: Vec<Daemon<'a>>,
}

struct Daemon<'a> {
    /// The newest running pod of the DaemonSet, which shows the effects of admission
    /// (docs/spec/scheduling.md#simulation-setup), or else the template's.
    pod: &'a Pod,
    /// Constraints of the template, because a running pod is pinned to its node.
    wanted: NodeConstraints<'a>,
}

/// Daemons that may run on an open node: on all of its types, or on some.
pub(crate) struct Candidates<'a> {
    on_all_types: Vec<&'a Pod>,
    pub(crate) on_some_types: Vec<(&'a Pod, Bits)>,
}

impl<'a> Daemons<'a> {
    /// Daemons with resource claims are excluded if device claims are disabled
    /// (docs/spec/scheduling.md#daemon-overhead).
    pub(crate) fn new(world: &World<'a>) -> Self {
        let mut newest: BTreeMap<(&str, &str), &Pod> = BTreeMap::new();
        let bound_pods = world
            .machines
            .iter()
            .flat_map(|machine| &machine.bound_pods);
        for pod in bound_pods.filter(|pod| is_owned_by(pod, "apps/v1", "DaemonSet")) {
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
                wanted: NodeConstraints::of(&daemon_set.pod),
            }
        });
        Self {
            pods: pods
                .filter(|daemon| counts_claims || !daemon.pod.resource_claims)
                .collect(),
        }
    }

    /// Daemons that run or will run on the machine.
    pub(crate) fn on_machine(&self, machine: &Machine<'_>) -> impl Iterator<Item = &'a Pod> {
        let holds =
            |wanted: &NodeSelectorRequirement| machine.label(&wanted.key).guarantees(wanted);
        let suiting = self.pods.iter().filter(move |daemon| {
            intolerable(daemon.pod, machine.taints.clone()).is_none()
                && daemon.wanted.unmet(holds).is_none()
        });
        suiting.map(|daemon| daemon.pod)
    }

    /// Matches daemons against the node and against each type separately, as Karpenter does
    /// (docs/spec/scheduling.md#daemon-overhead).
    pub(crate) fn candidates(&self, node: &OpenNode<'a>) -> Candidates<'a> {
        let mut candidates = Candidates {
            on_all_types: Vec::new(),
            on_some_types: Vec::new(),
        };
        for Daemon { pod, wanted } in &self.pods {
            if intolerable(pod, node.taints.iter().collect()).is_some() {
                continue;
            }
            let guarantees = |requirement: &NodeSelectorRequirement| {
                node.label_of_all(&requirement.key).guarantees(requirement)
            };
            let mut on_some_types = Bits::none(node.catalog.len());
            for alternative in wanted.alternatives() {
                on_some_types.unite(&possible_types(node, &alternative));
            }
            // Some types may exclude a label that the node's requirements do not mention.
            let is_on_all = node.options.iter().all(|at| on_some_types.contains(at));
            if is_on_all && wanted.unmet(guarantees).is_none() {
                candidates.on_all_types.push(pod);
            } else if !on_some_types.is_empty() {
                candidates.on_some_types.push((pod, on_some_types));
            }
        }
        candidates
    }
}

/// Types on which a node may satisfy all of these requirements.
fn possible_types(node: &OpenNode<'_>, alternative: &[&NodeSelectorRequirement]) -> Bits {
    let mut types = node.options.clone();
    for requirement in alternative {
        let label = node.label_of_all(&requirement.key);
        let is_specified_by_types = matches!(label, Label::Absent)
            && !node.is_without(&requirement.key)
            && node.catalog.knows(labels::normalized(&requirement.key));
        if !is_specified_by_types && !label.permits(requirement) {
            return Bits::none(node.catalog.len());
        }
        types.intersect(&node.catalog.permitting(requirement));
    }
    types
}

impl<'a> Candidates<'a> {
    /// Daemons that may run on the node if it becomes this type.
    pub(crate) fn on(&self, index: usize) -> Vec<&'a Pod> {
        let on_some_types = self
            .on_some_types
            .iter()
            .filter(|(_, types)| types.contains(index));
        self.on_all_types
            .iter()
            .copied()
            .chain(on_some_types.map(|(pod, _)| *pod))
            .collect()
    }

    /// Daemons that run on the node whichever of its types it becomes.
    pub(crate) fn for_certain(&self, node: &OpenNode<'_>) -> impl Iterator<Item = &'a Pod> {
        let on_some_types = self.on_some_types.iter();
        let on_all =
            on_some_types.filter(|(_, types)| node.options.iter().all(|at| types.contains(at)));
        self.on_all_types
            .iter()
            .copied()
            .chain(on_all.map(|(pod, _)| *pod))
    }
}
