//! What turns count and time, under Karpenter's names and labels (spec/lifecycle §32).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::types::{DRAINED, INSTANCE_TERMINATING, REGISTERED},
    duration::parse_go_duration,
    names::{annotation, label},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, ClusterName, NodePoolName, Plan, Snapshot,
    ledger::{Command, Method},
    node::{ConditionStatus, Node},
    node_claim::{Condition, NodeClaim},
    node_pool::ConsolidationPolicy,
    plan::{Launch, NodeClaimUpdate},
};
use ports::{
    ClusterError,
    metrics::{Measured, Metric},
};

use crate::World;

/// Hands over what a turn measured, series by series.
pub(crate) fn publish(world: &World, cluster: &ClusterName, metrics: Vec<Metric>) {
    if metrics.is_empty() {
        return;
    }
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for metric in metrics {
        match metric.value {
            Measured::Count(count) => {
                *counts.entry((metric.name, metric.labels)).or_default() += count;
            }
            Measured::Took(_) => all.push(metric),
        }
    }
    let counted = counts.into_iter().map(|((name, labels), count)| Metric {
        name,
        labels,
        value: Measured::Count(count),
    });
    all.splice(..0, counted);
    world
        .metrics
        .publish(Some(cluster), world.clock.now(), &all);
}

/// Counts events that end no node of any cluster, by why: of a version that nobody knows, of an instance that is not ours.
pub(crate) fn publish_ignored(world: &World, ignored: &BTreeMap<&'static str, u64>) {
    let metrics = ignored.iter().map(|(why, count)| Metric {
        name: "whittle_interruptions_ignored_total",
        labels: [("why", (*why).to_owned())].into(),
        value: Measured::Count(*count),
    });
    let metrics: Vec<Metric> = metrics.collect();
    if !metrics.is_empty() {
        world.metrics.publish(None, world.clock.now(), &metrics);
    }
}

/// Counts what a sweep found that needs a person: the stack has an alarm on it.
pub(crate) fn publish_alarms(world: &World, alarms: usize) {
    if alarms > 0 {
        let value = Measured::Count(u64::try_from(alarms).unwrap_or(u64::MAX));
        let metric = Metric {
            name: "whittle_alarms_total",
            labels: BTreeMap::new(),
            value,
        };
        world.metrics.publish(None, world.clock.now(), &[metric]);
    }
}

/// Made for pods, or because a static NodePool lacks them.
pub(crate) const PROVISIONED: &str = "provisioned";

/// NodeClaims that a committed plan makes, for this reason.
pub(crate) fn of_launches(plan: &Plan, reason: &str) -> Vec<Metric> {
    let launches = plan.actions.iter();
    let launches = launches.filter_map(|planned| {
        let Action::Launch(launch) = &planned.action else {
            return None;
        };
        Some(of_launch(launch, reason))
    });
    launches.collect()
}

pub(crate) fn of_launch(launch: &Launch, reason: &str) -> Metric {
    let relaxed = launch.annotations.get(annotation::MIN_VALUES_RELAXED);
    let relaxed = relaxed.is_some_and(|relaxed| relaxed == "true");
    count(
        "karpenter_nodeclaims_created_total",
        [
            ("reason", reason.to_owned()),
            ("nodepool", launch.node_pool.to_string()),
            ("min_values_relaxed", relaxed.to_string()),
        ],
    )
}

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
        .is_some_and(|choice| !consolidation_type(choice.method).is_empty());
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
    let kind = consolidation_type(method).to_owned();
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

/// How long it took to look for something to disrupt.
pub(crate) fn of_search(took: SignedDuration) -> Metric {
    timed(
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        [],
        took,
    )
}

/// A condition whose status changes.
pub(crate) struct Transition<'a> {
    pub(crate) before: ConditionStatus,
    pub(crate) after: &'a Condition,
}

/// What an update changes.
pub(crate) fn transitions<'a>(
    claim: &NodeClaim,
    update: &'a NodeClaimUpdate,
) -> Vec<Transition<'a>> {
    let changed = update.conditions.iter().filter_map(|after| {
        let before = claim
            .condition(&after.kind)
            .map_or(ConditionStatus::Unknown, |before| before.status);
        (before != after.status).then_some(Transition { before, after })
    });
    changed.collect()
}

/// Steps of a NodeClaim that its conditions tell.
pub(crate) fn of_transitions(claim: &NodeClaim, transitions: &[Transition<'_>]) -> Vec<Metric> {
    let pool = || ("nodepool", of(&claim.labels, label::NODE_POOL));
    let steps = transitions.iter().flat_map(|transition| {
        let condition = transition.after;
        let happened = condition.status == ConditionStatus::True;
        let step = match condition.kind.as_str() {
            REGISTERED if happened => {
                let zone = ("zone", of(&claim.labels, label::ZONE));
                Some(count("karpenter_nodes_created_total", [pool(), zone]))
            }
            DRAINED if happened => Some(count("karpenter_nodes_drained_total", [pool()])),
            _ => None,
        };
        let transition = count(
            "operator_nodeclaim_status_condition_transitions_total",
            [
                ("type", condition.kind.clone()),
                ("status", format!("{:?}", condition.status)),
                ("reason", condition.reason.clone()),
                pool(),
            ],
        );
        std::iter::once(transition).chain(step)
    });
    steps.collect()
}

/// A NodeClaim that nothing of ours holds any more.
pub(crate) fn of_finished_claim(claim: &NodeClaim, now: Timestamp) -> Vec<Metric> {
    let pool = ("nodepool", of(&claim.labels, label::NODE_POOL));
    let terminated = count(
        "karpenter_nodeclaims_terminated_total",
        [
            pool.clone(),
            ("capacity_type", of(&claim.labels, label::CAPACITY_TYPE)),
            ("zone", of(&claim.labels, label::ZONE)),
        ],
    );
    let deleted = claim.deleted_at.map(|at| {
        let name = "karpenter_nodeclaims_termination_duration_seconds";
        timed(name, [pool.clone()], now.duration_since(at))
    });
    let ending = claim.condition(INSTANCE_TERMINATING);
    let ending = ending.filter(|ending| ending.status == ConditionStatus::True);
    let ended = ending.map(|ending| {
        let name = "karpenter_nodeclaims_instance_termination_duration_seconds";
        let took = now.duration_since(ending.last_transition);
        timed(name, [pool.clone()], took)
    });
    let all = std::iter::once(terminated).chain(deleted).chain(ended);
    all.collect()
}

/// A Node that nothing of ours holds any more.
pub(crate) fn of_finished_node(node: &Node, now: Timestamp) -> Vec<Metric> {
    let pool = ("nodepool", of(&node.labels, label::NODE_POOL));
    let zone = ("zone", of(&node.labels, label::ZONE));
    let terminated = count("karpenter_nodes_terminated_total", [pool.clone(), zone]);
    let since = |name, at: Option<Timestamp>| {
        let took = now.duration_since(at?);
        Some(timed(name, [pool.clone()], took))
    };
    let went = since(
        "karpenter_nodes_termination_duration_seconds",
        node.deleted_at,
    );
    let lived = since("karpenter_nodes_lifetime_duration_seconds", node.created_at);
    let all = std::iter::once(terminated).chain(went).chain(lived);
    all.collect()
}

/// What the API server answered to a request to evict, as its code; `None` where it did not answer.
pub(crate) fn of_eviction(answer: Result<(), &ClusterError>) -> Option<Metric> {
    let code = match answer {
        Ok(()) => "200",
        Err(ClusterError::NotFound { .. }) => "404",
        Err(ClusterError::Conflict { .. }) => "409",
        Err(ClusterError::Refused { .. } | ClusterError::Throttled { .. }) => "429",
        Err(ClusterError::Invalid { .. }) => "500",
        Err(ClusterError::Denied { .. }) => "403",
        Err(
            ClusterError::Unavailable { .. }
            | ClusterError::KindMissing { .. }
            | ClusterError::NoCluster { .. },
        ) => return None,
    };
    Some(count(
        "karpenter_pods_eviction_requests_total",
        [("code", code.to_owned())],
    ))
}

pub(crate) fn of_drained_pod(reason: &str) -> Metric {
    count(
        "karpenter_pods_drained_total",
        [("reason", reason.to_owned())],
    )
}

/// An announcement about an instance of this cluster.
pub(crate) fn of_interruption(kind: &str) -> Metric {
    count(
        "karpenter_interruption_received_messages_total",
        [("message_type", kind.to_owned())],
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
        ("consolidation_type", consolidation_type(method).to_owned()),
    ]
}

/// Drift is no consolidation.
fn consolidation_type(method: Method) -> &'static str {
    match method {
        Method::Emptiness => "empty",
        Method::MultiNode => "multi",
        Method::SingleNode => "single",
        Method::StaticDrift | Method::Drift => "",
    }
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

fn of(labels: &BTreeMap<String, String>, key: &str) -> String {
    labels.get(key).cloned().unwrap_or_default()
}

fn count(name: &'static str, labels: impl IntoIterator<Item = (&'static str, String)>) -> Metric {
    Metric {
        name,
        labels: labels.into_iter().collect(),
        value: Measured::Count(1),
    }
}

fn timed(
    name: &'static str,
    labels: impl IntoIterator<Item = (&'static str, String)>,
    took: SignedDuration,
) -> Metric {
    Metric {
        name,
        labels: labels.into_iter().collect(),
        value: Measured::Took(took.max(SignedDuration::ZERO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> NodeClaim {
        let mut claim = NodeClaim {
            deleted_at: Timestamp::from_second(100).ok(),
            ..NodeClaim::default()
        };
        let labels = [
            (label::NODE_POOL, "general"),
            (label::CAPACITY_TYPE, "spot"),
            (label::ZONE, "us-east-1a"),
        ];
        claim.labels = labels
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into();
        claim
    }

    fn texts(metrics: &[Metric]) -> Vec<String> {
        let text = |metric: &Metric| {
            let value = match metric.value {
                Measured::Count(count) => count.to_string(),
                Measured::Took(took) => format!("{took:#}"),
            };
            format!("{} {:?} {value}", metric.name, metric.labels)
        };
        metrics.iter().map(text).collect()
    }

    #[test]
    fn a_deletion_is_counted_with_its_reason_and_the_pods_that_move() {
        let mut claim = claim();
        let modes = [
            (None, "graceful"),
            (Some("0s"), "forceful"),
            (Some("1h"), "eventual"),
        ];
        for (period, mode) in modes {
            claim.spec.termination_grace_period = period.map(str::to_owned);
            let metrics = of_disruption(&claim, 3, "expired", None);
            assert_eq!(metrics[0].labels["termination_mode"], mode);
            assert_eq!(metrics[0].labels["reason"], "expired");
            assert_eq!(metrics[1].name, "karpenter_pods_disruption_initiated_total");
            assert_eq!(metrics[1].value, Measured::Count(3));
        }
        let policy = Some(ConsolidationPolicy::WhenEmptyOrUnderutilized);
        let metrics = of_disruption(&claim, 0, "empty", policy);
        let [disrupted] = metrics.as_slice() else {
            panic!("an empty node moves no pod: {metrics:?}");
        };
        let policy = &disrupted.labels["consolidation_policy"];
        assert_eq!(policy, "when_empty_or_underutilized");
    }

    #[test]
    fn how_long_a_node_took_to_go_is_measured() {
        let now = Timestamp::from_second(190).unwrap();
        let finished = texts(&of_finished_claim(&claim(), now));
        assert_eq!(
            finished[1],
            "karpenter_nodeclaims_termination_duration_seconds {\"nodepool\": \"general\"} 1m 30s"
        );
        let node = Node {
            created_at: Some(Timestamp::UNIX_EPOCH),
            deleted_at: Timestamp::from_second(130).ok(),
            ..Node::default()
        };
        let names: Vec<_> = of_finished_node(&node, now)
            .iter()
            .map(|metric| metric.name)
            .collect();
        assert_eq!(
            names,
            [
                "karpenter_nodes_terminated_total",
                "karpenter_nodes_termination_duration_seconds",
                "karpenter_nodes_lifetime_duration_seconds",
            ]
        );
    }

    #[test]
    fn an_eviction_is_counted_by_the_answer() {
        let what = || "pod web".to_owned();
        let refused = ClusterError::Refused {
            what: what(),
            message: "its budget".to_owned(),
        };
        let gone = ClusterError::NotFound { what: what() };
        let silent = ClusterError::Unavailable {
            action: what(),
            message: "no answer".to_owned(),
        };
        let code = |answer| of_eviction(answer).map(|metric| metric.labels["code"].clone());
        assert_eq!(code(Ok(())).as_deref(), Some("200"));
        assert_eq!(code(Err(&refused)).as_deref(), Some("429"));
        assert_eq!(code(Err(&gone)).as_deref(), Some("404"));
        assert_eq!(code(Err(&silent)), None);
    }
}
