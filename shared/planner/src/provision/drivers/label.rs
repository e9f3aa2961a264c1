//! Finds the constraint that narrowed a label of a new node to its remaining values.

use std::fmt;

use model::{
    labels::{self, CAPACITY_TYPE},
    pod::{NodeSelectorTerm, Pod, PodAffinityTerm, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    selector::Operator,
};
use scheduling::Volumes;

/// Constraints that may narrow a node's labels.
pub(super) struct Labels<'n> {
    /// Requirements of the NodePool.
    pub(super) own: &'n Requirements,
    pub(super) pods: Vec<&'n Pod>,
    pub(super) volumes: &'n Volumes<'n>,
    pub(super) with_preferences: bool,
}

/// Values that a label was narrowed to, and the last constraint that narrowed it.
pub(super) struct Narrowing<'n> {
    known: Requirement,
    source: Source<'n>,
}

/// Constraint that narrowed a label.
#[derive(Clone, Copy)]
enum Source<'n> {
    NodePool,
    Asks(&'n Pod),
    Prefers(&'n Pod),
    Volumes(&'n Pod),
    Spread(&'n Pod),
    Affinity(&'n Pod),
    AntiAffinity(&'n Pod),
    /// Anti-affinity of pods elsewhere.
    Others,
}

impl<'n> Labels<'n> {
    /// Returns `None` if nothing constrains the label.
    pub(super) fn narrowing(&self, left: &Requirement) -> Option<Narrowing<'n>> {
        let mut known = self.own.get(&left.key).map(|own| Narrowing {
            known: own.clone(),
            source: Source::NodePool,
        });
        for pod in &self.pods {
            if is_narrowed_to(left, known.as_ref()) {
                return known;
            }
            self.narrow_by_affinity(pod, left, &mut known);
        }
        for pod in self.pods.iter().filter(|pod| !pod.volumes.is_empty()) {
            if is_narrowed_to(left, known.as_ref()) {
                return known;
            }
            // A pod with unresolved volumes was not placed.
            let alternatives = self.volumes.alternatives(pod).unwrap_or_default();
            let mut wanted = alternatives.iter().filter_map(|all| all.get(&left.key));
            if let Some(wanted) = wanted.find(|wanted| admits(wanted, left)) {
                narrow(&mut known, wanted, Source::Volumes(pod));
            }
        }
        // Topology narrows a label to a single value.
        if left.complement || is_narrowed_to(left, known.as_ref()) {
            return known;
        }
        let source = match self.topology(&left.key) {
            // Availability narrows capacity types as well.
            None if left.key == CAPACITY_TYPE => return known,
            found => found.unwrap_or(Source::Others),
        };
        Some(Narrowing {
            known: left.clone(),
            source,
        })
    }

    fn narrow_by_affinity(
        &self,
        pod: &'n Pod,
        left: &Requirement,
        known: &mut Option<Narrowing<'n>>,
    ) {
        let key = left.key.as_str();
        for value in labels::spellings(key).filter_map(|name| pod.node_selector.get(name)) {
            let wanted = Requirement::new(key, Operator::In, [value.clone()]);
            narrow(known, &wanted, Source::Asks(pod));
        }
        // Any of the terms that admit the remaining values may be the one that holds.
        let met = |term: &NodeSelectorTerm| about(term, key).filter(|wanted| admits(wanted, left));
        let affinity = &pod.node_affinity;
        if let Some(wanted) = affinity.required.iter().find_map(met) {
            narrow(known, &wanted, Source::Asks(pod));
        }
        let mut preferred = affinity.preferred.iter();
        if self.with_preferences
            && let Some(wanted) = preferred.find_map(|(_, term)| met(term))
        {
            narrow(known, &wanted, Source::Prefers(pod));
        }
    }

    /// Required constraints come first, because preferences may have been relaxed.
    fn topology(&self, key: &str) -> Option<Source<'n>> {
        self.rules(key, true)
            .or_else(|| self.rules(key, false).filter(|_| self.with_preferences))
    }

    fn rules(&self, key: &str, strict: bool) -> Option<Source<'n>> {
        let names = |topology_key: &str| labels::normalized(topology_key) == key;
        let pods = || self.pods.iter().copied();
        let spreads = |pod: &&Pod| {
            pod.topology_spread.iter().any(|spread| {
                let is_strict = spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
                is_strict == strict && names(&spread.topology_key)
            })
        };
        let any = |required: &[PodAffinityTerm], preferred: &[(i32, PodAffinityTerm)]| {
            let required = required.iter().filter(|_| strict);
            let preferred = preferred.iter().filter(|_| !strict);
            let mut terms = required.chain(preferred.map(|(_, term)| term));
            terms.any(|term| names(&term.topology_key))
        };
        let follows = |pod: &&Pod| any(&pod.pod_affinity.required, &pod.pod_affinity.preferred);
        let avoids = |pod: &&Pod| {
            any(
                &pod.pod_anti_affinity.required,
                &pod.pod_anti_affinity.preferred,
            )
        };
        let spread = pods().find(spreads).map(Source::Spread);
        let spread = spread.or_else(|| pods().find(follows).map(Source::Affinity));
        spread.or_else(|| pods().find(avoids).map(Source::AntiAffinity))
    }
}

impl Narrowing<'_> {
    pub(super) fn is_for_pods(&self) -> bool {
        !matches!(self.source, Source::NodePool)
    }

    /// Whether a single value remains.
    pub(super) fn is_final(&self) -> bool {
        !self.known.complement && self.known.values.len() == 1
    }

    pub(super) fn allows(&self, value: &str) -> bool {
        self.known.has(value)
    }
}

/// Formats as `In [a b] asked for by default/web`.
impl fmt::Display for Narrowing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.known.values_text())?;
        match self.source {
            Source::NodePool => f.write_str("of the NodePool"),
            Source::Asks(pod) => write!(f, "asked for by {}", pod.key),
            Source::Prefers(pod) => write!(f, "preferred by {}", pod.key),
            Source::Volumes(pod) => write!(f, "for the volumes of {}", pod.key),
            Source::Spread(pod) => write!(f, "for the topology spread of {}", pod.key),
            Source::Affinity(pod) => write!(f, "for the pod affinity of {}", pod.key),
            Source::AntiAffinity(pod) => write!(f, "for the pod anti-affinity of {}", pod.key),
            Source::Others => f.write_str("for pods that others keep away from"),
        }
    }
}

fn narrow<'n>(known: &mut Option<Narrowing<'n>>, wanted: &Requirement, source: Source<'n>) {
    let narrowed = match known {
        Some(known) => known.known.intersection(wanted),
        None => wanted.clone(),
    };
    if known.as_ref().is_none_or(|known| known.known != narrowed) {
        *known = Some(Narrowing {
            known: narrowed,
            source,
        });
    }
}

/// Requirement of a term on a label.
fn about(term: &NodeSelectorTerm, key: &str) -> Option<Requirement> {
    let expressions = term.match_expressions.iter();
    let about = expressions.filter(|expression| labels::normalized(&expression.key) == key);
    about
        .map(Requirement::from)
        .reduce(|a, b| a.intersection(&b))
}

fn is_narrowed_to(left: &Requirement, known: Option<&Narrowing<'_>>) -> bool {
    known.is_some_and(|Narrowing { known, .. }| {
        (known.complement, known.gte, known.lte, &known.values)
            == (left.complement, left.gte, left.lte, &left.values)
    })
}

/// Whether the constraint admits all remaining values; otherwise the node does not follow it. A remaining complement results
/// from complements alone.
fn admits(wanted: &Requirement, left: &Requirement) -> bool {
    if left.complement {
        wanted.complement
    } else {
        left.values.iter().all(|value| wanted.has(value))
    }
}
