//! PodDisruptionBudgets that prevent the eviction of pods (docs/spec/lifecycle.md#pod-disruption-budgets).

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use model::{
    Memo, ShapeAddress,
    pod::Pod,
    snapshot::{Optimize, PodDisruptionBudget},
};

use crate::{inventory::is_terminal, pods::tolerates_disruption, provision::movable::is_static};

type Budgets<'a> = Rc<[&'a PodDisruptionBudget]>;

/// PodDisruptionBudgets of a cluster. Results are cached per namespace and labels.
pub(crate) struct PdbLimits<'a> {
    by_namespace: BTreeMap<&'a str, Vec<&'a PodDisruptionBudget>>,
    optimize: Optimize,
    known: RefCell<Known<'a>>,
}

/// Budgets that select a pod, by namespace and labels.
#[derive(Default)]
struct Known<'a> {
    at: Memo<(&'a str, ShapeAddress), usize>,
    found: Vec<Budgets<'a>>,
}

impl<'a> PdbLimits<'a> {
    pub(crate) fn new(budgets: &'a [PodDisruptionBudget], optimize: Optimize) -> Self {
        let mut by_namespace: BTreeMap<&str, Vec<&PodDisruptionBudget>> = BTreeMap::new();
        for budget in budgets {
            let namespace = budget.key.namespace.as_str();
            by_namespace.entry(namespace).or_default().push(budget);
        }
        Self {
            by_namespace,
            optimize,
            known: RefCell::default(),
        }
    }

    /// Budgets that prevent the eviction of the pod now; `None` if the pod may be evicted, or would not be evicted anyway.
    pub(crate) fn blocking_budgets(&self, pod: &'a Pod) -> Option<Budgets<'a>> {
        let about = self.about(pod);
        let refuses = match &*about {
            [] => false,
            [budget] => budget.disruptions_allowed <= 0 && !self.lets_unhealthy_go(budget, pod),
            // The eviction API refuses pods with several budgets.
            _ => true,
        };
        (refuses && is_evictable(pod)).then_some(about)
    }

    /// Whether the pod can never be evicted.
    pub(crate) fn never_allows_eviction(&self, pod: &'a Pod) -> bool {
        let about = self.about(pod);
        let never = match &*about {
            [] => false,
            [budget] => never_allows(budget) && !self.lets_unhealthy_go(budget, pod),
            _ => true,
        };
        never && is_evictable(pod)
    }

    /// Whether the pod may be evicted because it is not ready. The eviction API also allows that if the budget is met, which
    /// Karpenter does not consider.
    fn lets_unhealthy_go(&self, budget: &PodDisruptionBudget, pod: &Pod) -> bool {
        let is_met = budget.is_met && self.optimize == Optimize::Cost;
        !pod.ready && (budget.always_allow_unhealthy || is_met)
    }

    fn about(&self, pod: &'a Pod) -> Budgets<'a> {
        let namespace = pod.key.namespace.as_str();
        let Some(budgets) = self.by_namespace.get(namespace) else {
            return Rc::default();
        };
        let mut known = self.known.borrow_mut();
        let shape = (namespace, pod.shape.shape_address());
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

/// Whether a drain evicts the pod, rather than leaving or deleting it.
fn is_evictable(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.deletion.is_none() && !is_static(pod) && !tolerates_disruption(pod)
}

fn never_allows(budget: &PodDisruptionBudget) -> bool {
    matches!(budget.max_unavailable.as_deref(), Some("0" | "0%"))
        || budget.min_available.as_deref() == Some("100%")
}

#[cfg(test)]
mod tests {
    use model::{PodKey, pod::Deletion, pod::PodPhase, selector::LabelSelector};

    use super::*;
    use crate::fixtures;

    /// Whether a budget that selects all pods and allows no disruptions refuses the eviction now, and forever.
    fn refuses(budget: fn(&mut PodDisruptionBudget), change: fn(&mut Pod)) -> (bool, bool) {
        let mut about = PodDisruptionBudget {
            key: PodKey::new("default", "all"),
            selector: Some(LabelSelector {
                match_labels: BTreeMap::new(),
                match_expressions: Vec::new(),
            }),
            ..PodDisruptionBudget::default()
        };
        budget(&mut about);
        let mut pod = fixtures::pod("p", "n");
        change(&mut pod);
        let budgets = [about];
        let pdb_limits = PdbLimits::new(&budgets, Optimize::Cost);
        (
            pdb_limits.blocking_budgets(&pod).is_some(),
            pdb_limits.never_allows_eviction(&pod),
        )
    }

    #[test]
    fn pdb_that_never_allows_disruptions_refuses_forever() {
        let of = |budget| refuses(budget, |_| {});
        assert_eq!(of(|_| {}), (true, false));
        assert_eq!(of(|budget| budget.disruptions_allowed = 1), (false, false));
        assert_eq!(
            of(|budget| budget.key = PodKey::new("other", "all")),
            (false, false)
        );
        assert_eq!(
            of(|budget| budget.max_unavailable = Some("1".into())),
            (true, false)
        );
        assert_eq!(
            of(|budget| budget.max_unavailable = Some("0".into())),
            (true, true)
        );
        assert_eq!(
            of(|budget| budget.max_unavailable = Some("0%".into())),
            (true, true)
        );
        assert_eq!(
            of(|budget| budget.min_available = Some("99%".into())),
            (true, false)
        );
        assert_eq!(
            of(|budget| budget.min_available = Some("100%".into())),
            (true, true)
        );
    }

    #[test]
    fn pdb_may_allow_the_eviction_of_unready_pods() {
        let lenient: fn(&mut PodDisruptionBudget) = |budget| {
            budget.max_unavailable = Some("0".into());
            budget.always_allow_unhealthy = true;
        };
        let strict: fn(&mut PodDisruptionBudget) =
            |budget| budget.max_unavailable = Some("0".into());
        let unready: fn(&mut Pod) = |pod| pod.ready = false;
        let met: fn(&mut PodDisruptionBudget) = |budget| budget.is_met = true;
        assert_eq!(refuses(met, |_| {}), (true, false));
        assert_eq!(refuses(met, unready), (false, false));
        assert_eq!(refuses(|_| {}, unready), (true, false));
        assert_eq!(refuses(lenient, |_| {}), (true, true));
        assert_eq!(refuses(lenient, unready), (false, false));
        assert_eq!(refuses(strict, unready), (true, true));
    }

    #[test]
    fn pdb_does_not_apply_to_pods_that_are_not_evicted() {
        let never: fn(&mut PodDisruptionBudget) =
            |budget| budget.max_unavailable = Some("0".into());
        let others: [fn(&mut Pod); 4] = [
            |pod| pod.phase = PodPhase::Succeeded,
            |pod| {
                pod.deletion = Some(Deletion {
                    at: fixtures::now(),
                    grace_seconds: 30,
                })
            },
            |pod| {
                pod.owner = Some(model::pod::Owner {
                    api_version: "v1".into(),
                    kind: "Node".into(),
                    name: "n".into(),
                    uid: "n".into(),
                })
            },
            |pod| {
                pod.tolerations = vec![model::taint::Toleration {
                    key: String::new(),
                    operator: model::taint::TolerationOperator::Exists,
                    value: String::new(),
                    effect: None,
                    toleration_seconds: None,
                }]
            },
        ];
        for change in others {
            assert_eq!(refuses(never, change), (false, false));
        }
    }
}
