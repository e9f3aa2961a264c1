//! Every placed pod needs, for each required affinity term, a matching pod in its domain; the first of its kind may be alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::labels;

use super::{
    Column, Located, Scene,
    matching::{Term, Terms},
};
use crate::{Findings, node_rules::Wanted, place::PlaceId};

pub(super) fn check(scene: &Scene<'_, '_>, findings: &mut Findings) {
    let mut terms = Terms::default();
    let mut terms_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
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
    if !terms_of.is_empty() {
        Settling::new(scene, terms.all()).run(terms_of, findings);
    }
}

/// Puts pods in place one after the other, as the scheduler would, until no further pod finds its peers.
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

    fn run(&mut self, terms_of: BTreeMap<usize, Vec<usize>>, findings: &mut Findings) {
        for index in 0..self.scene.located.len() {
            if !terms_of.contains_key(&index) {
                self.settle(index);
            }
        }
        let mut waiting = terms_of;
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
            // Nobody finds a peer any more: one pod may start its own group.
            let founder = waiting
                .iter()
                .find(|(index, terms)| {
                    terms.iter().all(|term| {
                        self.is_near_peer(**index, *term) || self.may_found(**index, *term)
                    })
                })
                .map(|(index, _)| *index);
            match founder {
                Some(founder) => {
                    waiting.remove(&founder);
                    self.settle(founder);
                }
                None => break,
            }
        }
        for (index, terms) in waiting {
            let (Some(located), Some(term)) = (
                self.scene.located.get(index),
                terms.iter().find(|term| !self.is_near_peer(index, **term)),
            ) else {
                continue;
            };
            let key = self
                .groups
                .get(*term)
                .map_or("", |group| group.term.key.as_str());
            if let Some(subject) = located.subject {
                findings.add(
                    subject,
                    format!(
                        "pod {} has no pod that it wants to be near in its {key}",
                        located.pod.key
                    ),
                );
            }
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

    /// Whether the pod may be the first of its kind: it is about itself, and no pod of the kind is anywhere it could go.
    fn may_found(&self, index: usize, term: usize) -> bool {
        let (Some(located), Some(group)) = (self.scene.located.get(index), self.groups.get(term))
        else {
            return false;
        };
        let has_domain = !group.column.of(located.place).is_empty();
        let nobody_yet = group.places.is_empty();
        let nobody_in_reach = group.places.iter().all(|place| !self.is_new(*place))
            && group
                .before
                .iter()
                .all(|domain| !is_open_to(located, &group.term.key, domain));
        has_domain && group.term.matches(located.pod) && (nobody_yet || nobody_in_reach)
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
