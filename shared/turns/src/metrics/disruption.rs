//! What is decided against, and deleted.

use std::collections::BTreeSet;

use api::{duration::parse_go_duration, names::label};
use jiff::SignedDuration;
use model::{
    NodePoolName, Snapshot,
    ledger::{Command, Method},
    node_claim::NodeClaim,
    node_pool::ConsolidationPolicy,
};
use ports::metrics::{Measured, Metric};

use super::{count, of, timed};

/// A NodeClaim that was deleted for this reason, and so many pods that must move. `policy` is that of a consolidation.
pub(crate) fn of_disruption(
    claim: &NodeClaim,
    moving: usize,
    reason: &str,
    policy: Option<ConsolidationPolicy>,
) -> Vec<Metric> {
    let labels = [
        ("reason", reason.to_owned()),
        ("nodepool", of(&claim.labels, label::NODE_POOL)),
        ("capacity_type", of(&claim.labels, label::CAPACITY_TYPE)),
        (
            "consolidation_policy",
            policy.map_or_else(String::new, snake),
        ),
        ("termination_mode", termination_mode(claim).to_owned()),
    ];
    let disrupted = count("karpenter_nodeclaims_disrupted_total", labels.clone());
    let pods = (moving > 0).then(|| Metric {
        value: Measured::Count(u64::try_from(moving).unwrap_or(u64::MAX)),
        ..count("karpenter_pods_disruption_initiated_total", labels)
    });
    std::iter::once(disrupted).chain(pods).collect()
}

/// Pods of its node that need another place.
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
    of_disruption(claim, moving(snapshot, claim), &reason, policy)
}

/// A decision to disrupt that was committed.
pub(crate) fn of_decision(snapshot: &Snapshot, command: &Command) -> Vec<Metric> {
    let Some(choice) = &command.choice else {
        return Vec::new();
    };
    let labels = decision_labels(command, choice.method);
    let pools: BTreeSet<String> = command
        .delete
        .iter()
        .filter_map(|target| {
            let claims = snapshot.node_claims.iter();
            let claim = claims.into_iter().find(|claim| claim.name == target.name)?;
            Some(of(&claim.labels, label::NODE_POOL))
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

/// What was proposed did not hold when it was judged again.
pub(crate) fn of_failed_validation(method: Method) -> Metric {
    let kind = method.consolidation_type().to_owned();
    count(
        "karpenter_voluntary_disruption_failed_validations_total",
        [("consolidation_type", kind)],
    )
}

/// A command that was taken back.
pub(crate) fn of_rollback(command: &Command) -> Option<Metric> {
    let labels = decision_labels(command, command.choice.as_ref()?.method);
    Some(count(
        "karpenter_voluntary_disruption_queue_failures_total",
        labels,
    ))
}

/// How long it took to find this to disrupt.
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

fn decision_labels(command: &Command, method: Method) -> [(&'static str, String); 3] {
    let decision = match command.replacements.is_empty() {
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
    let name = NodePoolName(of(&claim.labels, label::NODE_POOL));
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

fn termination_mode(claim: &NodeClaim) -> &'static str {
    let period = claim.spec.termination_grace_period.as_deref();
    match period.and_then(parse_go_duration) {
        None => "graceful",
        Some(period) if period <= SignedDuration::ZERO => "forceful",
        Some(_) => "eventual",
    }
}
