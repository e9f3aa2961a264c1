//! Status of PodDisruptionBudgets without one, such as manifests in git, computed as their controller would.

use model::{
    Snapshot,
    pod::{Pod, PodPhase},
    snapshot::PodDisruptionBudget,
};

use super::{Ownership, is_of};

/// Computes the allowed disruptions of the budgets without a status.
pub(super) fn compute_status(snapshot: &mut Snapshot, ownership: &Ownership) {
    let mut budgets = std::mem::take(&mut snapshot.disruption_budgets);
    for budget in &mut budgets {
        if ownership.new_budgets.contains(&budget.key) {
            fill_in(budget, snapshot, ownership);
        }
    }
    snapshot.disruption_budgets = budgets;
}

fn fill_in(budget: &mut PodDisruptionBudget, snapshot: &Snapshot, ownership: &Ownership) {
    let pods = snapshot.pods.iter().filter(|pod| covers(budget, pod));
    let pods: Vec<&Pod> = pods.collect();
    let healthy = pods
        .iter()
        .filter(|pod| pod.ready && pod.deletion.is_none());
    let healthy = i64::try_from(healthy.count()).unwrap_or(i64::MAX);
    let expected = expected(&pods, snapshot, ownership);
    let unavailable = budget.max_unavailable.as_deref();
    let available = budget.min_available.as_deref();
    let desired = match (unavailable, available) {
        (Some(most), _) => share(most, expected).map(|most| expected.saturating_sub(most)),
        (None, Some(least)) => share(least, expected),
        (None, None) => None,
    };
    let Some(desired) = desired.map(|desired| desired.max(0)) else {
        return;
    };
    budget.disruptions_allowed = healthy.saturating_sub(desired).max(0);
    budget.is_met = desired > 0 && healthy >= desired;
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.selector.as_ref();
    pod.key.namespace == budget.key.namespace
        && !matches!(pod.phase, PodPhase::Failed | PodPhase::Succeeded)
        && selector.is_some_and(|selector| selector.matches(&pod.labels))
}

/// The replicas of the pods' workloads; each pod of an unknown workload counts as one.
fn expected(pods: &[&Pod], snapshot: &Snapshot, ownership: &Ownership) -> i64 {
    let mut others = pods.to_vec();
    let mut expected: i64 = 0;
    for workload in &snapshot.workloads {
        let before = others.len();
        others.retain(|pod| !is_of(pod, workload, ownership));
        if others.len() < before {
            expected = expected.saturating_add(workload.replicas.unwrap_or(1));
        }
    }
    expected.saturating_add(i64::try_from(others.len()).unwrap_or(i64::MAX))
}

/// A number, or a percentage of `all`, rounded up.
fn share(text: &str, all: i64) -> Option<i64> {
    match text.strip_suffix('%') {
        None => text.parse().ok(),
        Some(percent) => {
            let part = all.checked_mul(percent.parse().ok()?)?;
            Some(part.div_euclid(100) + i64::from(part.rem_euclid(100) > 0))
        }
    }
}
