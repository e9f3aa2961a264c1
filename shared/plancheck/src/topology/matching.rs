//! Selection of pods by terms and constraints, with an index by label.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    Memo, ShapeAddress,
    pod::{Pod, PodAffinityTerm},
    selector::{LabelExpression, LabelOperator, LabelSelector},
};

use super::{Located, TopologyContext};

/// A selection of pods: a topology key, namespaces and a label selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    pub key: String,
    pub namespaces: BTreeSet<String>,
    /// `None` selects nothing.
    pub selector: Option<LabelSelector>,
}

impl Term {
    fn of_affinity(context: &TopologyContext<'_, '_>, term: &PodAffinityTerm, owner: &Pod) -> Self {
        Self {
            key: context.topology_key(&term.topology_key).to_owned(),
            namespaces: namespaces(context, term, owner),
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

    /// A spread constraint selects pods of the owner's namespace only.
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

/// Without a list or selector, the owner's namespace. A namespace selector adds the namespaces that it matches to the
/// list.
fn namespaces(
    context: &TopologyContext<'_, '_>,
    term: &PodAffinityTerm,
    owner: &Pod,
) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = term.namespaces.iter().cloned().collect();
    match &term.namespace_selector {
        None if names.is_empty() => {
            names.insert(owner.key.namespace.clone());
        }
        None => {}
        Some(selector) => {
            let matching = context
                .world
                .snapshot
                .namespaces
                .iter()
                .filter(|namespace| selector.matches(&namespace.labels));
            names.extend(matching.map(|namespace| namespace.name.clone()));
        }
    }
    names
}

/// Distinct terms of many pods, each resolved once.
#[derive(Default)]
pub(super) struct Terms<'a> {
    all: Vec<Rc<Term>>,
    ids: BTreeMap<Rc<Term>, usize>,
    /// Ids of unresolved terms by namespace, for terms that do not depend on their pod's labels.
    written: BTreeMap<(&'a str, &'a PodAffinityTerm), usize>,
}

impl<'a> Terms<'a> {
    /// Index of a term in [`Self::all`].
    pub(super) fn id(
        &mut self,
        context: &TopologyContext<'_, 'a>,
        term: &'a PodAffinityTerm,
        owner: &'a Pod,
    ) -> usize {
        let is_fixed = term.match_label_keys.is_empty() && term.mismatch_label_keys.is_empty();
        let written = (owner.key.namespace.as_str(), term);
        if is_fixed && let Some(id) = self.written.get(&written) {
            return *id;
        }
        let term = Rc::new(Term::of_affinity(context, term, owner));
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

/// Selects pods without visiting all of them, by the labels in the selector. Each label is indexed when a selector
/// first uses it.
#[derive(Default)]
pub(super) struct Index<'a>(RefCell<BTreeMap<String, Rc<ByValue<'a>>>>);

/// Pods by namespace and label value, as indexes into `located`.
#[derive(Default)]
struct ByValue<'a> {
    at: Memo<(&'a str, &'a str), usize>,
    pods: Vec<Vec<usize>>,
    /// By shape address, the namespace of the pods with that shape and their index in `pods`.
    stored: Memo<ShapeAddress, (&'a str, Option<usize>)>,
}

impl<'a> Index<'a> {
    /// Pods that a term selects, as indexes into `located`, in its order.
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
            // The single label is the whole selector.
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
        let (stored, namespace) = (pod.shape.shape_address(), pod.key.namespace.as_str());
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

    /// Pods with these namespaces and labels. Equal ones share their shape.
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

    /// Indexes of the pods that a selector matches.
    fn found(pods: &[Pod], namespaces: &[&str], selector: LabelSelector) -> Vec<usize> {
        let located = pods.iter().map(|pod| Located {
            pod,
            place: 0,
            subject: None,
            is_expected: false,
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
    fn equal_pods_are_distinguished_by_namespace() {
        let pods = pods(&[("b", WEB), ("a", WEB), ("b", WEB), ("a", &[])]);
        assert_eq!(found(&pods, &["a"], with(WEB)), [1]);
        assert_eq!(found(&pods, &["b"], with(WEB)), [0, 2]);
        assert_eq!(found(&pods, &["a", "b"], with(WEB)), [0, 1, 2], "in order");
        assert!(found(&pods, &["c"], with(WEB)).is_empty());
    }

    #[test]
    fn all_parts_of_a_selector_must_match() {
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
