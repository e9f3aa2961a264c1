//! PodDisruptionBudgets: which pods they keep from being evicted (spec/lifecycle §14.5).

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use model::{Memo, StoredAt, pod::Pod, snapshot::PodDisruptionBudget};

use crate::{inventory::is_terminal, pods::tolerates_disruption, provision::movable::is_static};

type Budgets<'a> = Rc<[&'a PodDisruptionBudget]>;

/// The budgets of a cluster; what is found for a pod holds for all with its labels.
pub(crate) struct Guards<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>,
    known: RefCell<Known<'a>>,
}

#[derive(Default)]
struct Known<'a> {
    at: Memo<(&'a str, StoredAt), usize>,
    found: Vec<Budgets<'a>>,
}

impl<'a> Guards<'a> {
    pub(crate) fn new(budgets: &'a [PodDisruptionBudget]) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for budget in budgets {
            let namespace = budget.key.namespace.as_str();
            by_namespace.entry(namespace).or_default().push(budget);
        }
        Self {
            by_namespace,
            known: RefCell::default(),
        }
    }

    /// The budgets that keep the pod from being evicted now; none if it may go, or would not be evicted anyway.
    pub(crate) fn refusing(&self, pod: &'a Pod) -> Option<Budgets<'a>> {
        let about = self.about(pod);
        let refuses = match &*about {
            [] => false,
            [budget] => budget.disruptions_allowed <= 0 && !lets_unhealthy_go(budget, pod),
            // The eviction API serves no pod with several.
            _ => true,
        };
        (refuses && is_evictable(pod)).then_some(about)
    }

    /// Whether no eviction of the pod will ever be allowed.
    pub(crate) fn never_allow(&self, pod: &'a Pod) -> bool {
        let about = self.about(pod);
        let never = match &*about {
            [] => false,
            [budget] => never_allows(budget) && !lets_unhealthy_go(budget, pod),
            _ => true,
        };
        never && is_evictable(pod)
    }

    fn about(&self, pod: &'a Pod) -> Budgets<'a> {
        let namespace = pod.key.namespace.as_str();
        let Some(budgets) = self.by_namespace.get(namespace) else {
            return Rc::default();
        };
        let mut known = self.known.borrow_mut();
        let shape = (namespace, pod.shape.stored_at());
        if let Some(found) = known.at.get(&shape).and_then(|at| known.found.get(at)) {
            return Rc::clone(found);
        }
        let selects = |budget: &&&PodDisruptionBudget| {
            let selector = budget.selector.as_ref();
            selector.is_some_and(|selector| selector.matches(&pod.labels))
        };
        let found: Budgets<'a> = budgets.iter().filter(selects).copied().collect();
        let at = known.found.len();
        known.at.insert(shape, at);
        known.found.push(Rc::clone(&found));
        found
    }
}

/// Would be evicted, not left or deleted.
fn is_evictable(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.deletion.is_none() && !is_static(pod) && !tolerates_disruption(pod)
}

fn lets_unhealthy_go(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    budget.always_allow_unhealthy && !pod.ready
}

fn never_allows(budget: &PodDisruptionBudget) -> bool {
    matches!(budget.max_unavailable.as_deref(), Some("0" | "0%"))
        || budget.min_available.as_deref() == Some("100%")
}
