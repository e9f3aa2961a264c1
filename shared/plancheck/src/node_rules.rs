//! Whether each pod may run on its place: taints, node selector and required node affinity.

use std::collections::BTreeMap;

use model::{
    pod::{NodeSelectorTerm, Pod},
    selector::{NodeSelectorRequirement, Operator},
    taint::{Taint, TaintEffect},
};

use crate::{
    Findings,
    label::Label,
    open_node::OpenNode,
    place::{Place, PlaceId, Placements},
    world::World,
};

/// The part of a pod that these rules depend on, and its place. Pods of one workload share it.
type Shape<'a> = (
    PlaceId,
    &'a BTreeMap<String, String>,
    &'a [NodeSelectorTerm],
    &'a [model::taint::Toleration],
);

pub(crate) fn check<'a>(world: &World<'a>, placements: &Placements<'a>, findings: &mut Findings) {
    let mut judged: BTreeMap<Shape<'_>, Option<String>> = BTreeMap::new();
    for placed in &placements.placed {
        let Some(place) = placements.places.get(placed.place) else {
            continue;
        };
        let pod = placed.pod;
        let shape = (
            placed.place,
            &pod.node_selector,
            pod.node_affinity.required.as_slice(),
            pod.tolerations.as_slice(),
        );
        let verdict = judged
            .entry(shape)
            .or_insert_with(|| problem(world, place, pod));
        if let Some(problem) = verdict {
            let node = place.name(world);
            findings.add(
                placed.subject,
                format!("pod {} {problem} (node {node})", pod.key),
            );
        }
    }
}

fn problem<'a>(world: &World<'a>, place: &Place<'a>, pod: &Pod) -> Option<String> {
    if let Some(taint) = intolerable(pod, place.taints(world)) {
        return Some(format!("does not tolerate taint {taint}"));
    }
    if let Place::Machine(index) = place
        && let Some(node) = world.machines.get(*index).and_then(|machine| machine.node)
        && node.unschedulable
        && !tolerates_cordon(pod)
    {
        return Some("may not go to a cordoned node".to_owned());
    }
    let wanted = NodeConstraints::of(pod);
    wanted
        .unmet(|requirement| holds(world, place, requirement))
        .map(|key| format!("requires another value of {key}"))
}

/// The first taint that repels the pod. PreferNoSchedule never does, by Kubernetes' rules.
pub(crate) fn intolerable<'t>(pod: &Pod, taints: Vec<&'t Taint>) -> Option<&'t Taint> {
    taints.into_iter().find(|taint| {
        taint.effect != TaintEffect::PreferNoSchedule
            && !pod
                .tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
    })
}

fn tolerates_cordon(pod: &Pod) -> bool {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    pod.tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&cordon))
}

/// A pod's constraints on labels of its node: the node selector, and at least one of the affinity terms.
pub(crate) struct NodeConstraints<'a> {
    selector: Vec<NodeSelectorRequirement>,
    terms: &'a [NodeSelectorTerm],
}

impl<'a> NodeConstraints<'a> {
    pub(crate) fn of(pod: &'a Pod) -> Self {
        let selector = pod
            .node_selector
            .iter()
            .map(|(key, value)| NodeSelectorRequirement {
                key: key.clone(),
                operator: Operator::In,
                values: vec![value.clone()],
                min_values: None,
            });
        Self {
            selector: selector.collect(),
            terms: &pod.node_affinity.required,
        }
    }

    /// Key of a requirement that does not hold. If no term holds, that of the last term.
    pub(crate) fn unmet(&self, holds: impl Fn(&NodeSelectorRequirement) -> bool) -> Option<&str> {
        let selected = self.selector.iter().find(|requirement| !holds(requirement));
        if let Some(requirement) = selected {
            return Some(&requirement.key);
        }
        let mut unmet = None;
        for term in self.terms {
            match unmet_of_term(term, &holds) {
                None => return None,
                unmet_key => unmet = unmet_key,
            }
        }
        unmet
    }

    /// The alternatives, each as the node selector and one term.
    pub(crate) fn alternatives(&self) -> Vec<Vec<&NodeSelectorRequirement>> {
        if self.terms.is_empty() {
            return vec![self.selector.iter().collect()];
        }
        let terms = self.terms.iter();
        terms
            .map(|term| {
                self.selector
                    .iter()
                    .chain(&term.match_expressions)
                    .collect()
            })
            .collect()
    }
}

/// Key of a requirement of the term that does not hold. An empty term matches nothing.
fn unmet_of_term<'t>(
    term: &'t NodeSelectorTerm,
    holds: &impl Fn(&NodeSelectorRequirement) -> bool,
) -> Option<&'t str> {
    let mut all = term
        .match_expressions
        .iter()
        .chain(&term.match_fields)
        .peekable();
    if all.peek().is_none() {
        return Some("nothing");
    }
    all.find(|requirement| !holds(requirement))
        .map(|requirement| requirement.key.as_str())
}

/// Whether a requirement holds on a place for every outcome. The only supported field is `metadata.name`.
pub(crate) fn holds<'a>(
    world: &World<'a>,
    place: &Place<'a>,
    wanted: &NodeSelectorRequirement,
) -> bool {
    let key = wanted.key.as_str();
    if key == "metadata.name" {
        return match place {
            Place::Machine(_) => Label::Is(place.name(world)).guarantees(wanted),
            Place::Open(_) => false,
        };
    }
    if place.label(world, key).guarantees(wanted) {
        return true;
    }
    match place {
        Place::Machine(_) => false,
        Place::Open(node) => holds_for_each(node, key, wanted),
    }
}

/// Checks the requirement for each type and offering, which may specify labels that the node's own requirements leave
/// open.
fn holds_for_each(node: &OpenNode<'_>, key: &str, wanted: &NodeSelectorRequirement) -> bool {
    !node.options.is_empty()
        && node.types().all(|(index, instance_type)| {
            node.offerings(index)
                .all(|offering| node.label(key, instance_type, offering).guarantees(wanted))
        })
}
