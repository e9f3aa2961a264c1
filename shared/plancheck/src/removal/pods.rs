//! Pods that block the disruption of their node, and pods that may be evicted or deleted.

use jiff::{SignedDuration, Timestamp};
use model::{
    PodKey, Uid,
    labels::CAPACITY_TYPE,
    node::ConditionStatus,
    pod::Pod,
    snapshot::{Optimize, PodDisruptionBudget},
    taint::{Taint, TaintEffect},
};

use super::{Check, DO_NOT_DISRUPT};
use crate::world::{Machine, is_owned_by, is_reschedulable, is_terminal};

const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const DELETION_COST_WRITTEN: &str = "whittle.sh/pod-deletion-cost";
const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";
const DISRUPTED: &str = "karpenter.sh/disrupted";

impl<'a> Check<'_, 'a> {
    /// A pod that must not be disrupted now; `None` if pods do not block this disruption.
    pub(super) fn blocked_by_pod(
        &self,
        machine: &Machine<'a>,
        ignores_pods: bool,
    ) -> Option<String> {
        if ignores_pods {
            return None;
        }
        let now = self.world.snapshot.now;
        let mut bound_pods = machine.bound_pods.iter();
        if let Some(pod) = bound_pods.clone().find(|pod| is_protected(pod, now)) {
            return Some(format!(
                "runs pod {}, which carries the annotation {DO_NOT_DISRUPT}",
                pod.key
            ));
        }
        let pod = bound_pods.find(|pod| self.is_blocked_by_budget(pod))?;
        Some(format!(
            "runs pod {}, which a disruption budget keeps",
            pod.key
        ))
    }

    /// A pod that would be evicted although the plan does not place it. Pods that may never be evicted are deleted at
    /// the end of the drain, and are recreated only then (docs/spec/lifecycle.md#pod-predicates,
    /// docs/spec/lifecycle.md#simulation).
    pub(super) fn pod_without_place(&self, machine: &Machine<'a>) -> Option<String> {
        let now = self.world.snapshot.now;
        let mut moving = machine.bound_pods.iter().filter(|pod| {
            is_reschedulable(pod)
                && !is_protected(pod, now)
                && !self.is_permanently_blocked_by_budget(pod)
        });
        let pod = moving.find(|pod| !self.placed.contains(&pod.key))?;
        Some(format!("is not empty: pod {} has no other place", pod.key))
    }

    /// Whether the node may be terminated before its pods have a place: it frees an instance of a reservation that is
    /// otherwise full.
    pub(super) fn may_terminate_first(&self, machine: &Machine<'a>, gate: &str) -> bool {
        let settings = &self.world.snapshot.settings;
        let labels = machine.claim.map(|claim| &claim.labels);
        let is_reserved = labels.is_some_and(|labels| {
            let kind = labels.get(CAPACITY_TYPE).map(String::as_str);
            kind == Some("reserved") && labels.contains_key(&settings.reservation_id_label)
        });
        is_reserved && settings.feature_gates.get(gate) == Some(&true)
    }

    fn is_permanently_blocked_by_budget(&self, pod: &Pod) -> bool {
        let about = self.budgets_of(pod);
        let never = match about.as_slice() {
            [] => false,
            [budget] => {
                (matches!(budget.max_unavailable.as_deref(), Some("0" | "0%"))
                    || budget.min_available.as_deref() == Some("100%"))
                    && !self.allows_unhealthy_eviction(budget, pod)
            }
            _ => true,
        };
        never && is_evictable(pod, self.world.snapshot.now)
    }

    /// Whether a PodDisruptionBudget currently forbids evicting this pod
    /// (docs/spec/lifecycle.md#pod-disruption-budgets).
    fn is_blocked_by_budget(&self, pod: &Pod) -> bool {
        if !is_evictable(pod, self.world.snapshot.now) {
            return false;
        }
        match self.budgets_of(pod).as_slice() {
            [] => false,
            [budget] => {
                budget.disruptions_allowed <= 0 && !self.allows_unhealthy_eviction(budget, pod)
            }
            _ => true,
        }
    }

    /// Whether the budget allows evicting the pod because it is not ready: always, or while the budget is met.
    /// Karpenter does not consider the latter.
    fn allows_unhealthy_eviction(&self, budget: &PodDisruptionBudget, pod: &Pod) -> bool {
        let is_met = budget.is_met && self.world.snapshot.settings.optimize == Optimize::Cost;
        !pod.ready && (budget.always_allow_unhealthy || is_met)
    }

    fn budgets_of(&self, pod: &Pod) -> Vec<&'a PodDisruptionBudget> {
        let budgets = self.world.snapshot.disruption_budgets.iter();
        let about = budgets.filter(|budget| {
            budget.key.namespace == pod.key.namespace
                && budget
                    .selector
                    .as_ref()
                    .is_some_and(|selector| selector.matches(&pod.labels))
        });
        about.collect()
    }

    pub(super) fn evict(&self, key: &PodKey, uid: &Uid) -> Option<String> {
        let pod = match self.drained(key, uid) {
            Ok(pod) => pod,
            Err(problem) => return Some(problem),
        };
        (!is_evictable(pod, self.world.snapshot.now))
            .then(|| format!("pod {key} may not be evicted"))
    }

    /// Deletion bypasses PodDisruptionBudgets, so it is allowed only for pods that are finished, or whose node cannot
    /// wait for them any longer.
    pub(super) fn delete_pod(&self, key: &PodKey, uid: &Uid) -> Option<String> {
        let pod = match self.drained(key, uid) {
            Ok(pod) => pod,
            Err(problem) => return Some(problem),
        };
        let machine = self.world.machine_of(pod);
        let has_deadline = machine.is_some_and(|machine| {
            let claim = machine.claim.map(|claim| &claim.annotations);
            let node = machine.node.map(|node| &node.annotations);
            [claim, node]
                .into_iter()
                .flatten()
                .any(|annotations| annotations.contains_key(TERMINATION_TIMESTAMP))
        });
        let is_done = is_terminal(pod) || pod.deletion.is_some();
        let is_lost = machine
            .and_then(|machine| machine.node)
            .is_some_and(|node| node.ready.status != ConditionStatus::True);
        (!has_deadline && !is_done && !is_lost)
            .then(|| format!("pod {key} is deleted without eviction, but its node may wait for it"))
    }

    /// The pod, if it is unchanged since the decision and its node is being drained.
    fn drained(&self, key: &PodKey, uid: &Uid) -> Result<&'a Pod, String> {
        let pod = self
            .world
            .pods
            .get(key)
            .ok_or_else(|| format!("pod {key} does not exist"))?;
        if pod.uid != *uid {
            return Err(format!(
                "pod {key} is not the one that the plan was based on"
            ));
        }
        let machine = self.world.machine_of(pod);
        let is_draining = machine.is_some_and(|machine| {
            machine.leaving || machine.node.is_some_and(|node| node.deleted_at.is_some())
        });
        if is_draining {
            Ok(pod)
        } else {
            Err(format!("pod {key} would be removed, but its node stays"))
        }
    }
}

/// The rule docs/spec/lifecycle.md#pod-do-not-disrupt.
fn is_protected(pod: &Pod, now: Timestamp) -> bool {
    if is_terminal(pod) || pod.deletion.is_some() {
        return false;
    }
    match pod.annotations.get(DO_NOT_DISRUPT).map(String::as_str) {
        None => false,
        Some("true") => true,
        Some(text) => text
            .parse::<SignedDuration>()
            .ok()
            .filter(|window| window.is_positive())
            .is_some_and(|window| {
                pod.started_at
                    .is_none_or(|started| now.duration_since(started) < window)
            }),
    }
}

/// The rule docs/spec/lifecycle.md#pod-predicates.
fn is_evictable(pod: &Pod, now: Timestamp) -> bool {
    let disrupted = Taint {
        key: DISRUPTED.to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    !is_terminal(pod)
        && pod.deletion.is_none()
        && !is_owned_by(pod, "v1", "Node")
        && !pod
            .tolerations
            .iter()
            .any(|toleration| toleration.tolerates(&disrupted))
        && !is_protected(pod, now)
}

/// Whether moving the pod has a cost: 1 + deletion cost / 2^27 + priority / 2^25 > 0
/// (docs/spec/lifecycle.md#eviction-cost).
pub(super) fn has_disruption_cost(pod: &Pod) -> bool {
    let annotation = |name| pod.annotations.get(name);
    let own = annotation(DISRUPTION_COST).and_then(|text| text.parse::<i32>().ok());
    let stated = own.map(i64::from);
    let of_owner = annotation(POD_DELETION_COST)
        .filter(|cost| Some(*cost) != annotation(DELETION_COST_WRITTEN));
    let stated = stated.or_else(|| of_owner?.parse().ok());
    let priority = i64::from(pod.priority.unwrap_or(0));
    (1_i64 << 27)
        .saturating_add(stated.unwrap_or(0))
        .saturating_add(priority.saturating_mul(4))
        > 0
}
