//! Every placed pod needs, for each required affinity term, a matching pod in its domain; the first of its kind may be alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{labels, snapshot::Optimize};

use super::{
    Column, Located, Scene,
    matching::{Term, Terms},
};
use crate::{Findings, node_rules::Wanted, place::PlaceId};

pub(super) fn check(scene: &Scene<'_, '_>, findings: &mut Findings) {
    let mut terms = Terms::default();
    let mut terms_of = TermsOf::new();
    let new = scene
        .located
        .iter()
        .enumerate()
        .filter(|(_, located)| located.subject.is_some());
    for (index, located) in new {
        for term in &located.pod.pod_affinity.required {
            let id = terms.id(scene, term, located.pod);
            terms_of.entry(index).or_default().push(id);
        }
    }
    for (index, term) in left_over(scene, terms.all(), &terms_of) {
        let (Some(located), Some(term)) = (scene.located.get(index), terms.all().get(term)) else {
            continue;
        };
        if let Some(subject) = located.subject {
            findings.add(
                subject,
                format!(
                    "pod {} has no pod that it wants to be near in its {}",
                    located.pod.key, term.key
                ),
            );
        }
    }
}

/// Which terms pods have, by the pods' places in the scene.
type TermsOf = BTreeMap<usize, Vec<usize>>;

/// How many of the pods that are left over are tried as the first of their kind.
const FIRSTS: usize = 32;

/// The pods that find no peer in any order that was tried, each with a term that fails it.
///
/// Who comes first matters: a pod may begin a group only while no other of its kind is in place. The scheduler may take pods in
/// any order, so of those that are left over some are tried as the first of their kind, and remain that where it leaves fewer.
fn left_over(
    scene: &Scene<'_, '_>,
    terms: &[Rc<Term>],
    terms_of: &TermsOf,
) -> BTreeMap<usize, usize> {
    if terms_of.is_empty() {
        return BTreeMap::new();
    }
    let settle = |first: &BTreeSet<usize>| Settling::new(scene, terms).run(terms_of, first);
    let mut first = BTreeSet::new();
    let mut left = settle(&first);
    let candidates: Vec<usize> = left.keys().take(FIRSTS).copied().collect();
    for candidate in candidates {
        if !left.contains_key(&candidate) {
            continue;
        }
        first.insert(candidate);
        let now = settle(&first);
        if now.len() < left.len() {
            left = now;
        } else {
            first.remove(&candidate);
        }
    }
    left
}

/// Puts pods in place one after the other, until no further pod finds its peers.
struct Settling<'c, 's, 'a> {
    scene: &'c Scene<'s, 'a>,
    groups: Vec<Group<'c, 's>>,
    /// The terms that are about a pod.
    about: BTreeMap<usize, Vec<usize>>,
}

/// A term, and where pods that it is about are for certain.
struct Group<'c, 's> {
    term: &'c Term,
    column: Rc<Column<'s>>,
    domains: BTreeSet<&'s str>,
    places: BTreeSet<PlaceId>,
    /// Matching pods that ran before the plan, by domain.
    before: BTreeSet<&'s str>,
}

impl<'c, 's, 'a> Settling<'c, 's, 'a> {
    fn new(scene: &'c Scene<'s, 'a>, terms: &'c [Rc<Term>]) -> Self {
        let mut about: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (id, term) in terms.iter().enumerate() {
            for pod in scene.matching(term) {
                about.entry(pod).or_default().push(id);
            }
        }
        let groups = terms
            .iter()
            .map(|term| Group {
                term,
                column: scene.column(&term.key),
                domains: BTreeSet::new(),
                places: BTreeSet::new(),
                before: BTreeSet::new(),
            })
            .collect();
        Self {
            scene,
            groups,
            about,
        }
    }

    /// Settles what can be, `first` before all others of their kind.
    fn run(mut self, terms_of: &TermsOf, first: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
        let held = self.others_of_their_kind(terms_of, first);
        let mut waiting = BTreeMap::new();
        for is_turn_of_held in [false, true] {
            for index in 0..self.scene.located.len() {
                if held.contains(&index) != is_turn_of_held {
                    continue;
                }
                match terms_of.get(&index) {
                    Some(terms) => _ = waiting.insert(index, terms.as_slice()),
                    None => self.settle(index),
                }
            }
            self.gather(&mut waiting);
        }
        let left = waiting.into_iter().filter_map(|(index, terms)| {
            let failed = terms.iter().find(|term| !self.is_near_peer(index, **term));
            failed.map(|term| (index, *term))
        });
        left.collect()
    }

    /// The pods of the plan that would keep one of `first` from being the first of its kind.
    fn others_of_their_kind(&self, terms_of: &TermsOf, first: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_placed = |index: &usize| {
            let located = self.scene.located.get(*index);
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

    /// Settles who has a peer, and who may begin a group where nobody has one any more.
    fn gather(&mut self, waiting: &mut BTreeMap<usize, &[usize]>) {
        loop {
            let before = waiting.len();
            waiting.retain(|index, terms| {
                let is_settled = terms.iter().all(|term| self.is_near_peer(*index, *term));
                if is_settled {
                    self.settle(*index);
                }
                !is_settled
            });
            if waiting.len() < before {
                continue;
            }
            let founder = waiting.iter().find(|(index, terms)| {
                terms
                    .iter()
                    .all(|term| self.is_near_peer(**index, *term) || self.may_found(**index, *term))
            });
            let Some(founder) = founder.map(|(index, _)| *index) else {
                return;
            };
            waiting.remove(&founder);
            self.settle(founder);
        }
    }

    fn settle(&mut self, index: usize) {
        let Some(located) = self.scene.located.get(index) else {
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

    /// Whether, whichever domain the pod's node gets, a matching pod is there.
    fn is_near_peer(&self, index: usize, term: usize) -> bool {
        let (Some(located), Some(group)) = (self.scene.located.get(index), self.groups.get(term))
        else {
            return false;
        };
        let domains = group.column.of(located.place);
        !domains.is_empty()
            && (group.places.contains(&located.place)
                || domains.iter().all(|domain| group.domains.contains(*domain)))
    }

    /// Whether the pod may be the first of its kind: it is about itself, and no pod of the kind is anywhere, or, for upstream,
    /// anywhere it could go.
    fn may_found(&self, index: usize, term: usize) -> bool {
        let (Some(located), Some(group)) = (self.scene.located.get(index), self.groups.get(term))
        else {
            return false;
        };
        let has_domain = |place: PlaceId| !group.column.of(place).is_empty();
        let nobody_yet = !group.places.iter().any(|place| has_domain(*place));
        let as_upstream = self.scene.world.snapshot.settings.optimize == Optimize::Upstream;
        let nobody_in_reach = as_upstream
            && group.places.iter().all(|place| !self.is_new(*place))
            && group
                .before
                .iter()
                .all(|domain| !is_open_to(located, &group.term.key, domain));
        has_domain(located.place)
            && group.term.matches(located.pod)
            && (nobody_yet || nobody_in_reach)
    }

    fn is_new(&self, place: PlaceId) -> bool {
        place >= self.scene.world.machines.len()
    }
}

/// Whether the pod's own node selector and affinity let it into a domain.
fn is_open_to(located: &Located<'_>, key: &str, domain: &str) -> bool {
    use crate::label::Label;
    let wanted = Wanted::of(located.pod);
    wanted.alternatives().iter().any(|alternative| {
        alternative
            .iter()
            .filter(|requirement| labels::normalized(&requirement.key) == key)
            .all(|requirement| Label::Is(domain).guarantees(requirement))
    })
}
