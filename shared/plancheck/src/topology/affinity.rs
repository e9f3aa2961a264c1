//! Required pod affinity: every placed pod needs, for each term, a matching pod in its domain. The first pod that
//! matches its own term may be alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{labels, snapshot::Optimize};

use super::{
    Column, Located, TopologyContext,
    matching::{Term, Terms},
};
use crate::{Findings, node_rules::NodeConstraints, place::PlaceId};

pub(super) fn check(context: &TopologyContext<'_, '_>, findings: &mut Findings) {
    let mut terms = Terms::default();
    let mut terms_of = TermsOf::new();
    let new = context
        .located
        .iter()
        .enumerate()
        .filter(|(_, located)| located.subject.is_some());
    for (index, located) in new {
        for term in &located.pod.pod_affinity.required {
            let id = terms.id(context, term, located.pod);
            terms_of.entry(index).or_default().push(id);
        }
    }
    for (index, term) in unsatisfied_pods(context, terms.all(), &terms_of) {
        let (Some(located), Some(term)) = (context.located.get(index), terms.all().get(term))
        else {
            continue;
        };
        if let Some(subject) = located.subject {
            findings.add(
                subject,
                format!(
                    "pod {} has no pod that matches its affinity in its {}",
                    located.pod.key, term.key
                ),
            );
        }
    }
}

/// Terms of pods, by the pods' indexes into `located`.
type TermsOf = BTreeMap<usize, Vec<usize>>;

/// Upper bound on the unsatisfied pods that are tried as the first pod of their term: each trial resolves all terms again.
const FIRST_CANDIDATES_MAX: usize = 32;

/// The pods without a matching pod in any order that was tried, each with a failing term.
///
/// The order matters: a pod may be the first of its term only while no matching pod is placed. The scheduler may take
/// pods in any order, so some of the unsatisfied pods are tried as the first, and stay first if that leaves fewer
/// unsatisfied.
fn unsatisfied_pods(
    context: &TopologyContext<'_, '_>,
    terms: &[Rc<Term>],
    terms_of: &TermsOf,
) -> BTreeMap<usize, usize> {
    if terms_of.is_empty() {
        return BTreeMap::new();
    }
    let place_pod =
        |first: &BTreeSet<usize>| AffinityResolver::new(context, terms).run(terms_of, first);
    let mut first = BTreeSet::new();
    let mut left = place_pod(&first);
    let candidates: Vec<usize> = left.keys().take(FIRST_CANDIDATES_MAX).copied().collect();
    for candidate in candidates {
        if !left.contains_key(&candidate) {
            continue;
        }
        first.insert(candidate);
        let now = place_pod(&first);
        if now.len() < left.len() {
            left = now;
        } else {
            first.remove(&candidate);
        }
    }
    left
}

/// Places pods one after another, until no further pod finds a matching one.
struct AffinityResolver<'c, 's, 'a> {
    context: &'c TopologyContext<'s, 'a>,
    groups: Vec<Group<'c, 's>>,
    /// Terms that select a pod, by the pod's index.
    about: BTreeMap<usize, Vec<usize>>,
}

/// A term, and the certain positions of pods that it selects.
struct Group<'c, 's> {
    term: &'c Term,
    column: Rc<Column<'s>>,
    domains: BTreeSet<&'s str>,
    places: BTreeSet<PlaceId>,
    /// Domains of matching pods that ran before the plan.
    before: BTreeSet<&'s str>,
}

impl<'c, 's, 'a> AffinityResolver<'c, 's, 'a> {
    fn new(context: &'c TopologyContext<'s, 'a>, terms: &'c [Rc<Term>]) -> Self {
        let mut about: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (id, term) in terms.iter().enumerate() {
            for pod in context.matching(term) {
                about.entry(pod).or_default().push(id);
            }
        }
        let groups = terms
            .iter()
            .map(|term| Group {
                term,
                column: context.column(&term.key),
                domains: BTreeSet::new(),
                places: BTreeSet::new(),
                before: BTreeSet::new(),
            })
            .collect();
        Self {
            context,
            groups,
            about,
        }
    }

    /// Places all pods that can be placed, `first` before the others that match their terms.
    fn run(mut self, terms_of: &TermsOf, first: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
        let deferred = self.competitors(terms_of, first);
        let mut waiting = BTreeMap::new();
        for is_turn_of_deferred in [false, true] {
            for index in 0..self.context.located.len() {
                if deferred.contains(&index) != is_turn_of_deferred {
                    continue;
                }
                match terms_of.get(&index) {
                    Some(terms) => _ = waiting.insert(index, terms.as_slice()),
                    None => self.place_pod(index),
                }
            }
            self.place_waiting(&mut waiting);
        }
        let left = waiting.into_iter().filter_map(|(index, terms)| {
            let failed = terms.iter().find(|term| !self.is_near_peer(index, **term));
            failed.map(|term| (index, *term))
        });
        left.collect()
    }

    /// Placed pods that match a term of one of `first`, and so would prevent it from being the first.
    fn competitors(&self, terms_of: &TermsOf, first: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_placed = |index: &usize| {
            let located = self.context.located.get(*index);
            located.is_some_and(|located| located.subject.is_some())
        };
        let about = |index: usize| self.about.get(&index).into_iter().flatten();
        let own = first.iter().flat_map(|index| {
            let terms = terms_of.get(index).into_iter().flatten();
            terms.filter(|term| about(*index).any(|own| own == *term))
        });
        let own: BTreeSet<usize> = own.copied().collect();
        let others = self.about.iter();
        let others = others.filter(|(_, terms)| terms.iter().any(|term| own.contains(term)));
        let others = others.map(|(index, _)| *index);
        let others = others.filter(|index| !first.contains(index));
        others.filter(is_placed).collect()
    }

    /// Places pods that have a matching pod, and, if none has, one that may be the first of its term.
    fn place_waiting(&mut self, waiting: &mut BTreeMap<usize, &[usize]>) {
        loop {
            let before = waiting.len();
            waiting.retain(|index, terms| {
                let has_peers = terms.iter().all(|term| self.is_near_peer(*index, *term));
                if has_peers {
                    self.place_pod(*index);
                }
                !has_peers
            });
            if waiting.len() < before {
                continue;
            }
            let first = waiting.iter().find(|(index, terms)| {
                terms.iter().all(|term| {
                    self.is_near_peer(**index, *term) || self.may_be_first(**index, *term)
                })
            });
            let Some(first) = first.map(|(index, _)| *index) else {
                return;
            };
            waiting.remove(&first);
            self.place_pod(first);
        }
    }

    fn place_pod(&mut self, index: usize) {
        let Some(located) = self.context.located.get(index) else {
            return;
        };
        for id in self.about.get(&index).into_iter().flatten() {
            let Some(group) = self.groups.get_mut(*id) else {
                continue;
            };
            group.places.insert(located.place);
            if let [domain] = *group.column.of(located.place) {
                group.domains.insert(domain);
                if located.subject.is_none() {
                    group.before.insert(domain);
                }
            }
        }
    }

    /// Whether a matching pod is in every domain that the pod's node may be in.
    fn is_near_peer(&self, index: usize, term: usize) -> bool {
        let (Some(located), Some(group)) = (self.context.located.get(index), self.groups.get(term))
        else {
            return false;
        };
        let domains = group.column.of(located.place);
        !domains.is_empty()
            && (group.places.contains(&located.place)
                || domains.iter().all(|domain| group.domains.contains(*domain)))
    }

    /// Whether the pod may be the first of its term: the term selects the pod itself, and no matching pod is placed
    /// anywhere or, in upstream mode, in any domain that is open to the pod.
    fn may_be_first(&self, index: usize, term: usize) -> bool {
        let (Some(located), Some(group)) = (self.context.located.get(index), self.groups.get(term))
        else {
            return false;
        };
        let has_domain = |place: PlaceId| !group.column.of(place).is_empty();
        let none_placed = !group.places.iter().any(|place| has_domain(*place));
        let as_upstream = self.context.world.snapshot.settings.optimize == Optimize::Upstream;
        let none_in_open_domains = as_upstream
            && group.places.iter().all(|place| !self.is_new(*place))
            && group
                .before
                .iter()
                .all(|domain| !is_open_to(located, &group.term.key, domain));
        has_domain(located.place)
            && group.term.matches(located.pod)
            && (none_placed || none_in_open_domains)
    }

    fn is_new(&self, place: PlaceId) -> bool {
        place >= self.context.world.machines.len()
    }
}

/// Whether the pod's own node selector and affinity allow a domain.
fn is_open_to(located: &Located<'_>, key: &str, domain: &str) -> bool {
    use crate::label::Label;
    let wanted = NodeConstraints::of(located.pod);
    wanted.alternatives().iter().any(|alternative| {
        alternative
            .iter()
            .filter(|requirement| labels::normalized(&requirement.key) == key)
            .all(|requirement| Label::Is(domain).guarantees(requirement))
    })
}
