//! Pods on machines that go away: which of them need another place (spec/scheduling §11.3).

use jiff::{SignedDuration, Timestamp};
use model::{
    Snapshot,
    pod::{Pod, PodPhase},
    snapshot::PodDisruptionBudget,
    taint::{Taint, TaintEffect},
};

use crate::inventory::{is_daemon, is_terminal};

pub(crate) fn is_movable(pod: &Pod, snapshot: &Snapshot) -> bool {
    let stays_by_name = pod
        .owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "StatefulSet");
    let active = !is_terminal(pod) && pod.deletion.is_none();
    let reschedulable = active || stays_by_name && pod.deletion.is_some();
    reschedulable
        && !is_daemon(pod)
        && !is_static(pod)
        && !must_not_be_disrupted(pod, snapshot.now)
        && !is_blocked(pod, snapshot)
}

pub(crate) fn is_static(pod: &Pod) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "Node" && owner.api_version == "v1")
}

/// `true` always holds, a duration holds for that long after the pod's start; anything else says nothing.
pub(crate) fn must_not_be_disrupted(pod: &Pod, now: Timestamp) -> bool {
    let active = !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    let annotation = pod.annotations.get(api::names::annotation::DO_NOT_DISRUPT);
    let Some(text) = annotation.filter(|_| active && pod.deletion.is_none()) else {
        return false;
    };
    if text == "true" {
        return true;
    }
    api::duration::parse_go_duration(text)
        .filter(|duration| *duration > SignedDuration::ZERO)
        .is_some_and(|duration| {
            pod.started_at
                .is_none_or(|start| now.duration_since(start) < duration)
        })
}

/// Its budgets can never allow an eviction.
fn is_blocked(pod: &Pod, snapshot: &Snapshot) -> bool {
    let disrupted = Taint {
        key: api::names::taint::DISRUPTED.to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    };
    let evictable = !is_terminal(pod)
        && pod.deletion.is_none()
        && !pod.tolerations.iter().any(|t| t.tolerates(&disrupted));
    let mut budgets = snapshot.disruption_budgets.iter().filter(|budget| {
        let selector = budget.selector.as_ref();
        budget.key.namespace == pod.key.namespace
            && selector.is_some_and(|s| s.matches(&pod.labels))
    });
    match (budgets.next(), budgets.next()) {
        (Some(_), Some(_)) => evictable,
        (Some(budget), None) => {
            evictable && never_allows(budget) && (pod.ready || !budget.always_allow_unhealthy)
        }
        (None, _) => false,
    }
}

fn never_allows(budget: &PodDisruptionBudget) -> bool {
    matches!(budget.max_unavailable.as_deref(), Some("0" | "0%"))
        || budget.min_available.as_deref() == Some("100%")
}
