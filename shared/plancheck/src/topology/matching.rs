//! Which pods a term or constraint is about, found through an index by label.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    Memo, StoredAt,
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
            key: scene.topology_key(&term.topology_key).to_owned(),
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

/// Finds the pods that terms are about without asking every pod, through the labels that terms name. What is known of a
/// label is worked out when a term first names it.
#[derive(Default)]
pub(super) struct Index<'a>(RefCell<BTreeMap<String, Rc<ByValue<'a>>>>);

/// The pods that have a label, by their namespace and its value, as indexes into `located`.
#[derive(Default)]
struct ByValue<'a> {
    at: Memo<(&'a str, &'a str), usize>,
    pods: Vec<Vec<usize>>,
    /// By where shapes are stored, the place in `pods` of the pods that share them, and their namespace.
    stored: Memo<StoredAt, (&'a str, Option<usize>)>,
}

impl<'a> Index<'a> {
    /// The pods a term is about, as indexes into `located`, in its order.
    pub(super) fn matching(&self, located: &[Located<'a>], term: &Term) -> Vec<usize> {
        let Some(selector) = &term.selector else {
            return Vec::new();
        };
        let is_about = |index: &usize| {
            let located = located.get(*index);
            located.is_some_and(|located| term.matches(located.pod))
        };
        let rarest = selector
            .match_labels
            .iter()
            .map(|(key, value)| self.by_value(located, key).pods(&term.namespaces, value))
            .min_by_key(Vec::len);
        match rarest {
            None => (0..located.len()).filter(is_about).collect(),
            // The one label is all that is asked.
            Some(pods)
                if selector.match_labels.len() == 1 && selector.match_expressions.is_empty() =>
            {
                pods
            }
            Some(mut pods) => {
                pods.retain(is_about);
                pods
            }
        }
    }

    fn by_value(&self, located: &[Located<'a>], key: &str) -> Rc<ByValue<'a>> {
        if let Some(known) = self.0.borrow().get(key) {
            return Rc::clone(known);
        }
        let mut by_value = ByValue::default();
        for (index, located) in located.iter().enumerate() {
            by_value.add(located.pod, key, index);
        }
        let by_value = Rc::new(by_value);
        self.0
            .borrow_mut()
            .insert(key.to_owned(), Rc::clone(&by_value));
        by_value
    }
}

impl<'a> ByValue<'a> {
    fn add(&mut self, pod: &'a Pod, key: &str, index: usize) {
        let (stored, namespace) = (pod.shape.stored_at(), pod.key.namespace.as_str());
        let at = match self.stored.get(&stored) {
            Some((known, at)) if known == namespace => at,
            _ => {
                let value = pod.labels.get(key);
                let next = self.pods.len();
                let at = value.map(|value| self.at.get_or_insert((namespace, value), next));
                self.stored.insert(stored, (namespace, at));
                at
            }
        };
        let Some(at) = at else {
            return;
        };
        match self.pods.get_mut(at) {
            Some(pods) => pods.push(index),
            None => self.pods.push(vec![index]),
        }
    }

    fn pods(&self, namespaces: &BTreeSet<String>, value: &str) -> Vec<usize> {
        let places = namespaces
            .iter()
            .filter_map(|namespace| self.at.get(&(namespace.as_str(), value)));
        let pods = places.filter_map(|at| self.pods.get(at)).flatten();
        let mut pods: Vec<usize> = pods.copied().collect();
        if namespaces.len() > 1 {
            pods.sort_unstable();
        }
        pods
    }
}

#[cfg(test)]
mod tests {
    use model::{PodKey, pod::PodShape};

    use super::*;

    /// Pods of these namespaces and with these labels; those that are alike share their shape.
    fn pods(of: &[(&str, &[(&str, &str)])]) -> Vec<Pod> {
        let pods = of.iter().zip(0..).map(|((namespace, labels), number)| {
            let labels = labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let shape = PodShape {
                labels: labels.collect(),
                ..PodShape::default()
            };
            Pod {
                key: PodKey {
                    namespace: (*namespace).to_owned(),
                    name: format!("pod-{number}"),
                },
                shape: shape.into(),
                ..Pod::default()
            }
        });
        let mut pods: Vec<Pod> = pods.collect();
        model::share_shapes(&mut pods);
        pods
    }

    /// Which of them a term is about.
    fn found(pods: &[Pod], namespaces: &[&str], selector: LabelSelector) -> Vec<usize> {
        let located = pods.iter().map(|pod| Located {
            pod,
            place: 0,
            subject: None,
            is_to_come: false,
        });
        let located: Vec<Located<'_>> = located.collect();
        let term = Term {
            key: "zone".to_owned(),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            selector: Some(selector),
        };
        Index::default().matching(&located, &term)
    }

    fn with(labels: &[(&str, &str)]) -> LabelSelector {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        LabelSelector {
            match_labels: labels.collect(),
            match_expressions: Vec::new(),
        }
    }

    const WEB: &[(&str, &str)] = &[("app", "web")];

    #[test]
    fn pods_that_are_alike_are_told_apart_by_their_namespaces() {
        let pods = pods(&[("b", WEB), ("a", WEB), ("b", WEB), ("a", &[])]);
        assert_eq!(found(&pods, &["a"], with(WEB)), [1]);
        assert_eq!(found(&pods, &["b"], with(WEB)), [0, 2]);
        assert_eq!(found(&pods, &["a", "b"], with(WEB)), [0, 1, 2], "in order");
        assert!(found(&pods, &["c"], with(WEB)).is_empty());
    }

    #[test]
    fn all_that_a_selector_asks_has_to_hold() {
        let front: &[(&str, &str)] = &[("app", "web"), ("tier", "front")];
        let back: &[(&str, &str)] = &[("app", "web"), ("tier", "back")];
        let other: &[(&str, &str)] = &[("app", "other"), ("tier", "front")];
        let pods = pods(&[("a", front), ("a", back), ("a", other)]);
        assert_eq!(found(&pods, &["a"], with(WEB)), [0, 1]);
        assert_eq!(found(&pods, &["a"], with(front)), [0]);
        let mut not_front = with(WEB);
        not_front.match_expressions.push(LabelExpression {
            key: "tier".to_owned(),
            operator: LabelOperator::NotIn,
            values: vec!["front".to_owned()],
        });
        assert_eq!(found(&pods, &["a"], not_front), [1]);
    }
}
