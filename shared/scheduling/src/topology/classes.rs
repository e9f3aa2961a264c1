//! Classes of pods that no selector of the input distinguishes: same namespace, same values of all labels that selectors
//! mention.

use std::collections::{BTreeMap, BTreeSet};

use model::{Memo, ShapeAddress, pod::Pod, selector::LabelSelector};

/// Pods that are equal to every selector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId(pub(crate) u32);

/// Namespace and labels of a class.
#[derive(Clone)]
pub(crate) struct Class<'a> {
    pub(crate) namespace: &'a str,
    /// Labels of one of its pods.
    pub(crate) labels: &'a BTreeMap<String, String>,
}

/// Classes found so far.
#[derive(Clone, Default)]
pub(crate) struct Classes<'a> {
    keys: Vec<&'a str>,
    /// Trie over the namespace and the values of one key after the other. Pods that end at the same step form a class.
    steps: Memo<(TrieStep, Option<&'a str>), TrieStep>,
    /// Number of steps.
    taken: u32,
    ends: Memo<TrieStep, ClassId>,
    /// Class by the address of a pod's shape. Pods that share a shape come in sequence.
    stored: Memo<ShapeAddress, (&'a str, ClassId)>,
    pub(crate) all: Vec<Class<'a>>,
}

/// Node of the trie.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TrieStep(u32);

impl TrieStep {
    const FIRST: Self = Self(0);
}

impl<'a> Classes<'a> {
    /// Classes that the selectors of these pods distinguish.
    pub(crate) fn of(pods: impl IntoIterator<Item = &'a Pod>) -> Self {
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        for pod in pods {
            for constraint in &pod.topology_spread {
                keys.extend(constraint.match_label_keys.iter().map(String::as_str));
                mention(&mut keys, constraint.selector.as_ref());
            }
            for affinity in [&pod.pod_affinity, &pod.pod_anti_affinity] {
                let preferred = affinity.preferred.iter().map(|(_, term)| term);
                for term in affinity.required.iter().chain(preferred) {
                    mention(&mut keys, term.selector.as_ref());
                }
            }
        }
        Self {
            keys: keys.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Class of a pod whose shape is known.
    pub(crate) fn known(&self, pod: &Pod) -> Option<ClassId> {
        let (known, class) = self.stored.get(&pod.shape.shape_address())?;
        (known == pod.key.namespace).then_some(class)
    }

    pub(crate) fn class_of(&mut self, pod: &'a Pod) -> ClassId {
        if let Some(class) = self.known(pod) {
            return class;
        }
        let (stored, namespace) = (pod.shape.shape_address(), pod.key.namespace.as_str());
        let class = self.class_by_labels(pod);
        self.stored.insert(stored, (namespace, class));
        class
    }

    fn class_by_labels(&mut self, pod: &'a Pod) -> ClassId {
        let labels = &pod.labels;
        let mut end = self.step(TrieStep::FIRST, Some(&pod.key.namespace));
        for at in 0..self.keys.len() {
            let value = self.keys.get(at).and_then(|key| labels.get(*key));
            end = self.step(end, value.map(String::as_str));
        }
        let next = ClassId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let id = self.ends.get_or_insert(end, next);
        if id == next {
            self.all.push(Class {
                namespace: &pod.key.namespace,
                labels,
            });
        }
        id
    }

    fn step(&mut self, from: TrieStep, value: Option<&'a str>) -> TrieStep {
        let next = TrieStep(self.taken + 1);
        let to = self.steps.get_or_insert((from, value), next);
        self.taken = self.taken.max(to.0);
        to
    }
}

fn mention<'a>(keys: &mut BTreeSet<&'a str>, selector: Option<&'a LabelSelector>) {
    if let Some(selector) = selector {
        keys.extend(selector.match_labels.keys().map(String::as_str));
        keys.extend(selector.match_expressions.iter().map(|e| e.key.as_str()));
    }
}
