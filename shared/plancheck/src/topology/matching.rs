//! Which pods a term or constraint is about, found through an index by label.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    pod::{Pod, PodAffinityTerm},
    selector::{LabelExpression, LabelOperator, LabelSelector},
};

use super::{Located, Scene};

/// A question about other pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub key: String,
    pub namespaces: BTreeSet<String>,
    /// `None` selects nothing.
    pub selector: Option<LabelSelector>,
}

impl Term {
    fn of_affinity(scene: &Scene<'_, '_>, term: &PodAffinityTerm, owner: &Pod) -> Self {
        Self {
            key: term.topology_key.clone(),
            namespaces: namespaces(scene, term, owner),
            selector: term.selector.as_ref().map(|selector| {
                let mut selector = selector.clone();
                add_keys(
                    &mut selector,
                    owner,
                    &term.match_label_keys,
                    LabelOperator::In,
                );
                add_keys(
                    &mut selector,
                    owner,
                    &term.mismatch_label_keys,
                    LabelOperator::NotIn,
                );
                selector
            }),
        }
    }

    /// A constraint's selector sees the pod's own namespace only.
    pub(super) fn of_spread(
        key: &str,
        selector: Option<&LabelSelector>,
        keys: &[String],
        owner: &Pod,
    ) -> Self {
        Self {
            key: key.to_owned(),
            namespaces: BTreeSet::from([owner.key.namespace.clone()]),
            selector: selector.map(|selector| {
                let mut selector = selector.clone();
                add_keys(&mut selector, owner, keys, LabelOperator::In);
                selector
            }),
        }
    }

    pub(super) fn matches(&self, pod: &Pod) -> bool {
        self.namespaces.contains(&pod.key.namespace)
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(&pod.labels))
    }

    /// A label that every pod it is about has.
    fn anchors(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self
            .selector
            .iter()
            .flat_map(|selector| &selector.match_labels);
        labels.map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn add_keys(selector: &mut LabelSelector, owner: &Pod, keys: &[String], operator: LabelOperator) {
    for key in keys {
        if let Some(value) = owner.labels.get(key) {
            let expression = LabelExpression {
                key: key.clone(),
                operator,
                values: vec![value.clone()],
            };
            if !selector.match_expressions.contains(&expression) {
                selector.match_expressions.push(expression);
            }
        }
    }
}

/// No list and no selector: the pod's own namespace. A selector adds those it matches to the list.
fn namespaces(scene: &Scene<'_, '_>, term: &PodAffinityTerm, owner: &Pod) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    match &term.namespace_selector {
        None if names.is_empty() => {
            names.insert(owner.key.namespace.clone());
        }
        None => {}
        Some(selector) => {
            let matching = scene
                .world
                .snapshot
                .namespaces
                .iter()
                .filter(|one| selector.matches(&one.labels));
            names.extend(matching.map(|namespace| namespace.name.clone()));
        }
    }
    names
}

/// The different terms of many pods, each worked out once.
#[derive(Default)]
pub(super) struct Terms<'a> {
    all: Vec<Rc<Term>>,
    ids: BTreeMap<Rc<Term>, usize>,
    /// As written, by namespace; for terms that do not depend on their pod's labels.
    written: BTreeMap<(&'a str, &'a PodAffinityTerm), usize>,
}

impl<'a> Terms<'a> {
    /// The number of a term, counted from zero.
    pub(super) fn id(
        &mut self,
        scene: &Scene<'_, 'a>,
        term: &'a PodAffinityTerm,
        owner: &'a Pod,
    ) -> usize {
        let is_fixed = term.match_label_keys.is_empty() && term.mismatch_label_keys.is_empty();
        let written = (owner.key.namespace.as_str(), term);
        if is_fixed && let Some(id) = self.written.get(&written) {
            return *id;
        }
        let term = Rc::new(Term::of_affinity(scene, term, owner));
        let next = self.all.len();
        let id = *self.ids.entry(Rc::clone(&term)).or_insert(next);
        if id == next {
            self.all.push(term);
        }
        if is_fixed {
            self.written.insert(written, id);
        }
        id
    }

    pub(super) fn all(&self) -> &[Rc<Term>] {
        &self.all
    }
}

/// Finds the pods that terms are about without asking every pod: by the rarest label a term names.
pub(super) struct Index<'i> {
    by_label: BTreeMap<(&'i str, &'i str), Vec<usize>>,
    all: Vec<usize>,
}

impl<'i> Index<'i> {
    /// Only labels that some term names are indexed.
    pub(super) fn new<'a: 'i>(
        located: &'i [Located<'a>],
        terms: impl Iterator<Item = &'i Term>,
    ) -> Self {
        let mut by_label: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for term in terms {
            by_label.extend(term.anchors().map(|anchor| (anchor, Vec::new())));
        }
        let keys: BTreeSet<&str> = by_label.keys().map(|(key, _)| *key).collect();
        for (index, located) in located.iter().enumerate() {
            for key in &keys {
                let value = located.pod.labels.get(*key);
                if let Some(pods) =
                    value.and_then(|value| by_label.get_mut(&(*key, value.as_str())))
                {
                    pods.push(index);
                }
            }
        }
        Self {
            by_label,
            all: (0..located.len()).collect(),
        }
    }

    /// The pods a term is about, as indexes into `located`, in its order.
    pub(super) fn matching(&self, located: &[Located<'_>], term: &Term) -> Vec<usize> {
        if term.selector.is_none() {
            return Vec::new();
        }
        let candidates = term
            .anchors()
            .filter_map(|anchor| self.by_label.get(&anchor))
            .min_by_key(|pods| pods.len())
            .unwrap_or(&self.all);
        let is_about = |index: &&usize| {
            located
                .get(**index)
                .is_some_and(|located| term.matches(located.pod))
        };
        candidates.iter().filter(is_about).copied().collect()
    }
}
