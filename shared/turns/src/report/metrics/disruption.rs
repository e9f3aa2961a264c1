//! Metrics of disruption decisions and deletions.

use std::collections::BTreeSet;

use api::{duration::parse_go_duration, names::label};
use jiff::SignedDuration;
use model::{
    NodePoolName, Snapshot,
    ledger::{Command, Method},
    node_claim::NodeClaim,
    node_pool::ConsolidationPolicy,
};
use planner::BalancedVerdict;
use ports::metrics::{Measured, Metric};

use super::{count, label_value, timed};

/// A NodeClaim that was deleted for this reason, and the number of pods that must move. `policy` is that of a consolidation.
pub(crate) fn of_disruption(
    claim: &NodeClaim,
    moving: usize,
    reason: &str,
    policy: Option<ConsolidationPolicy>,
) -> Vec<Metric> {
    let mode = termination_mode(claim, None);
    disrupted(claim, moving, reason, policy, mode)
}

/// A NodeClaim that was deleted by force, regardless of its pods, because of a condition of the node.
pub(crate) fn of_forced_repair(
    claim: &NodeClaim,
    moving: usize,
    reason: &str,
    condition: &str,
) -> Vec<Metric> {
    let mode = termination_mode(claim, Some(SignedDuration::ZERO));
    let mut metrics = disrupted(claim, moving, reason, None, mode);
    metrics.push(of_repair(claim, condition, mode));
    metrics
}

fn disrupted(
    claim: &NodeClaim,
    moving: usize,
    reason: &str,
    policy: Option<ConsolidationPolicy>,
    mode: &'static str,
) -> Vec<Metric> {
    let labels = [
        ("reason", reason.to_owned()),
        ("nodepool", label_value(&claim.labels, label::NODE_POOL)),
        (
            "capacity_type",
            label_value(&claim.labels, label::CAPACITY_TYPE),
        ),
        (
            "consolidation_policy",
            policy.map_or_else(String::new, snake),
        ),
        ("termination_mode", mode.to_owned()),
    ];
    let disrupted = count("karpenter_nodeclaims_disrupted_total", labels.clone());
    let pods = (moving > 0).then(|| Metric {
        value: Measured::Count(u64::try_from(moving).unwrap_or(u64::MAX)),
        ..count("karpenter_pods_disruption_initiated_total", labels)
    });
    std::iter::once(disrupted).chain(pods).collect()
}

/// Number of pods on the NodeClaim's node that need another place.
pub(crate) fn moving(snapshot: &Snapshot, claim: &NodeClaim) -> usize {
    let pods = snapshot.pods.iter();
    pods.filter(|pod| pod.node_name.is_some() && pod.node_name == claim.status.node_name)
        .filter(|pod| planner::is_reschedulable(pod))
        .count()
}

/// A NodeClaim that a command deleted.
pub(crate) fn of_command(snapshot: &Snapshot, command: &Command, claim: &NodeClaim) -> Vec<Metric> {
    let consolidates = command
        .choice
        .as_ref()
        .is_some_and(|choice| !choice.method.consolidation_type().is_empty());
    let policy = consolidates.then(|| policy_of(snapshot, claim)).flatten();
    let reason = command.reason.to_lowercase();
    let repair = command
        .choice
        .as_ref()
        .and_then(|choice| choice.repair.as_ref());
    let mode = termination_mode(claim, repair.and_then(|repair| repair.drain_bound));
    let mut metrics = disrupted(claim, moving(snapshot, claim), &reason, policy, mode);
    metrics.extend(repair.map(|repair| of_repair(claim, &repair.condition, mode)));
    metrics
}

/// A NodeClaim that was deleted because its node stayed unhealthy.
fn of_repair(claim: &NodeClaim, condition: &str, mode: &'static str) -> Metric {
    let image = claim.status.image_id.clone();
    count(
        "karpenter_nodeclaims_unhealthy_disrupted_total",
        [
            ("condition", snake_case(condition)),
            ("nodepool", label_value(&claim.labels, label::NODE_POOL)),
            (
                "capacity_type",
                label_value(&claim.labels, label::CAPACITY_TYPE),
            ),
            ("image_id", image),
            ("termination_mode", mode.to_owned()),
        ],
    )
}

/// Converts `AcceleratedHardwareReady` to `accelerated_hardware_ready`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// A committed decision to disrupt.
pub(crate) fn of_decision(snapshot: &Snapshot, command: &Command) -> Vec<Metric> {
    let Some(choice) = &command.choice else {
        return Vec::new();
    };
    let labels = decision_labels(command, choice.method);
    let pools: BTreeSet<String> = command
        .targets()
        .filter_map(|target| {
            let claims = snapshot.node_claims.iter();
            let claim = claims.into_iter().find(|claim| claim.name == target.name)?;
            Some(label_value(&claim.labels, label::NODE_POOL))
        })
        .collect();
    let by_pool = pools.into_iter().map(|pool| {
        let mut metric = count(
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            labels.clone(),
        );
        metric.labels.insert("nodepool", pool);
        metric
    });
    let all = count(
        "karpenter_voluntary_disruption_decisions_total",
        labels.clone(),
    );
    std::iter::once(all).chain(by_pool).collect()
}

/// A proposal that its validation rejected.
pub(crate) fn of_failed_validation(method: Method) -> Metric {
    let kind = method.consolidation_type().to_owned();
    count(
        "karpenter_voluntary_disruption_failed_validations_total",
        [("consolidation_type", kind)],
    )
}

/// A command that was rolled back.
pub(crate) fn of_rollback(command: &Command) -> Option<Metric> {
    let labels = decision_labels(command, command.choice.as_ref()?.method);
    Some(count(
        "karpenter_voluntary_disruption_queue_failures_total",
        labels,
    ))
}

/// Duration of the evaluation that found this disruption.
pub(crate) fn of_search(took: SignedDuration, found: &planner::Command) -> Metric {
    let kind = found.method.consolidation_type().to_owned();
    timed(
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        [
            ("reason", found.reason.as_str().to_lowercase()),
            ("consolidation_type", kind),
        ],
        took,
    )
}

/// Moves that policy Balanced approved or rejected.
pub(crate) fn of_judged(judged: &[BalancedVerdict]) -> Vec<Metric> {
    let metrics = judged.iter().flat_map(|judged| {
        let decision = match judged.approved {
            true => "approved",
            false => "rejected",
        };
        let labels = [
            ("decision", decision.to_owned()),
            ("nodepool", judged.node_pool.to_string()),
            ("policy", "Balanced".to_owned()),
        ];
        let score = Metric {
            value: Measured::Value(judged.score),
            ..count("karpenter_consolidation_score", labels.clone())
        };
        [count("karpenter_consolidation_moves_total", labels), score]
    });
    metrics.collect()
}

/// A write of a pod's deletion cost, by its result.
pub(crate) fn of_deletion_cost(result: &str) -> Metric {
    count(
        "karpenter_pod_deletion_cost_pod_annotation_writes_total",
        [("result", result.to_owned())],
    )
}

fn decision_labels(command: &Command, method: Method) -> [(&'static str, String); 3] {
    let choice = command.choice.as_ref();
    let decision = match command.replacements.is_empty() {
        true if command.reboot.is_some() => "reboot",
        true if choice.is_some_and(|choice| choice.terminate_first) => "terminate-first",
        true => "delete",
        false => "replace",
    };
    [
        ("decision", decision.to_owned()),
        ("reason", command.reason.to_lowercase()),
        ("consolidation_type", method.consolidation_type().to_owned()),
    ]
}

fn policy_of(snapshot: &Snapshot, claim: &NodeClaim) -> Option<ConsolidationPolicy> {
    let name = NodePoolName(label_value(&claim.labels, label::NODE_POOL));
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == name)?;
    Some(pool.disruption.policy)
}

fn snake(policy: ConsolidationPolicy) -> String {
    match policy {
        ConsolidationPolicy::WhenEmpty => "when_empty",
        ConsolidationPolicy::WhenEmptyOrUnderutilized => "when_empty_or_underutilized",
        ConsolidationPolicy::Balanced => "balanced",
    }
    .to_owned()
}

/// Manner in which pods leave: by force immediately, by force after a while, or in their own time.
fn termination_mode(claim: &NodeClaim, bound: Option<SignedDuration>) -> &'static str {
    let period = claim.spec.termination_grace_period.as_deref();
    let period = period.and_then(parse_go_duration);
    match period.into_iter().chain(bound).min() {
        None => "graceful",
        Some(period) if period <= SignedDuration::ZERO => "forceful",
        Some(_) => "eventual",
    }
}
