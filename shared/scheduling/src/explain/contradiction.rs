//! Pods whose own requirements contradict each other.

use std::collections::BTreeMap;

use model::{
    pod::{NodeSelectorTerm, Pod},
    requirement::Requirement,
    selector::Operator,
};

use crate::reason::{ConstraintSource, Reason};

/// Contradicting requirements in the node selector and the first required term, unless another term has no contradiction.
pub(super) fn contradiction(pod: &Pod) -> Option<Reason> {
    let terms = &pod.node_affinity.required;
    if terms.is_empty() {
        return in_term(pod, None);
    }
    let mut found = terms.iter().map(|term| in_term(pod, Some(term)));
    let first = found.next()??;
    found.all(|other| other.is_some()).then_some(first)
}

fn in_term(pod: &Pod, term: Option<&NodeSelectorTerm>) -> Option<Reason> {
    let selected = pod.node_selector.iter().map(|(key, value)| {
        let requirement = Requirement::new(key, Operator::In, [value.clone()]);
        (ConstraintSource::NodeSelector, requirement)
    });
    let expressions = term.into_iter().flat_map(|term| &term.match_expressions);
    let required =
        expressions.map(|entry| (ConstraintSource::NodeAffinity, Requirement::from(entry)));
    let mut known: BTreeMap<String, (ConstraintSource, Requirement)> = BTreeMap::new();
    for (place, wanted) in selected.chain(required) {
        let Some((first_place, first)) = known.get_mut(&wanted.key) else {
            known.insert(wanted.key.clone(), (place, wanted));
            continue;
        };
        let agree = first.intersects(&wanted) || excludes(first) && excludes(&wanted);
        if !agree {
            return Some(Reason::Contradiction {
                first: (*first_place, first.clone()),
                second: (place, wanted),
            });
        }
        *first = first.intersection(&wanted);
    }
    None
}

/// Whether a node without the label meets the requirement.
fn excludes(requirement: &Requirement) -> bool {
    matches!(
        requirement.operator(),
        Operator::NotIn | Operator::DoesNotExist
    )
}
