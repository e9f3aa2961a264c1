use api::{
    conditions::types::{
        REBOOT_FAILED, REBOOT_ISSUED, REBOOT_REQUESTED, REBOOT_SUCCEEDED, REBOOTING,
    },
    names::{annotation, label},
};
use jiff::Timestamp;
use model::{
    ledger::{Choice, Command, Method},
    node::{ConditionStatus, Node},
    node_claim::{Condition, NodeClaim},
    node_pool::ConsolidationPolicy,
};

use super::*;
use crate::report::transitions::Transition;

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
            Measured::Duration(took) => format!("{took:#}"),
            Measured::Value(thousandths) => thousandths.to_string(),
            Measured::PricePerHour(price) => price.to_string(),
        };
        format!("{} {:?} {value}", metric.name, metric.labels)
    };
    metrics.iter().map(text).collect()
}

#[test]
fn deletion_is_counted_with_its_reason_and_the_pods_that_move() {
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
fn ended_reboot_is_counted_by_outcome() {
    let second = |second| Timestamp::from_second(second).unwrap();
    let rebooting = |status, reason: &str, since| Condition {
        kind: REBOOTING.to_owned(),
        status,
        reason: reason.to_owned(),
        message: String::new(),
        last_transition: second(since),
        observed_generation: None,
    };
    let series = |begun: &str, annotations: &[&str], ended: &str| {
        let mut claim = claim();
        claim.status.conditions = vec![rebooting(ConditionStatus::True, begun, 100)];
        for key in annotations {
            claim
                .annotations
                .insert((*key).to_owned(), second(160).to_string());
        }
        let after = rebooting(ConditionStatus::False, ended, 400);
        let before = ConditionStatus::True;
        let transition = Transition {
            before,
            after: &after,
        };
        let metrics = of_transitions(&claim, &[transition]).into_iter();
        let own = metrics.filter(|metric| metric.name.starts_with("karpenter_nodes_reboot"));
        texts(&own.collect::<Vec<_>>())
    };
    let ended = |result: &str| {
        vec![
            format!("karpenter_nodes_reboots_total {{\"result\": {result:?}}} 1"),
            format!("karpenter_nodes_reboot_duration_seconds {{\"result\": {result:?}}} 5m"),
        ]
    };
    let called = &[annotation::REBOOT_PRE_BOOT_ID, annotation::REBOOT_LAST_CALL];
    let (requested, issued) = (REBOOT_REQUESTED, REBOOT_ISSUED);
    let mut succeeded = ended("succeeded");
    succeeded.push("karpenter_nodes_reboot_recovery_duration_seconds {} 4m".to_owned());
    assert_eq!(series(issued, called, REBOOT_SUCCEEDED), succeeded);
    let timed_out = ended("recovery_timeout");
    assert_eq!(series(issued, called, REBOOT_FAILED), timed_out);
    let refused = ended("provider_error");
    assert_eq!(series(requested, called, REBOOT_FAILED), refused);
    let unreadable = ended("invalid_request");
    assert_eq!(series(requested, &[], REBOOT_FAILED), unreadable);
}

#[test]
fn repair_by_force_is_counted_by_its_condition() {
    let metrics = of_forced_repair(&claim(), 0, "unhealthy", "StorageReady");
    let [disrupted, repaired] = metrics.as_slice() else {
        panic!("{metrics:?}");
    };
    assert_eq!(disrupted.labels["reason"], "unhealthy");
    let name = "karpenter_nodeclaims_unhealthy_disrupted_total";
    assert_eq!(repaired.name, name);
    assert_eq!(repaired.labels["condition"], "storage_ready");
    for metric in [disrupted, repaired] {
        assert_eq!(metric.labels["termination_mode"], "forceful");
    }
}

#[test]
fn judged_moves_are_counted_and_scored_by_decision() {
    let judged = |approved, score| planner::BalancedVerdict {
        node_pool: "general".into(),
        approved,
        score,
    };
    let metrics = of_judged(&[judged(true, 500), judged(false, 482)]);
    let labels = |decision| {
        format!(r#"{{"decision": "{decision}", "nodepool": "general", "policy": "Balanced"}}"#)
    };
    assert_eq!(
        texts(&metrics),
        [
            format!(
                "karpenter_consolidation_moves_total {} 1",
                labels("approved")
            ),
            format!("karpenter_consolidation_score {} 500", labels("approved")),
            format!(
                "karpenter_consolidation_moves_total {} 1",
                labels("rejected")
            ),
            format!("karpenter_consolidation_score {} 482", labels("rejected")),
        ]
    );
}

#[test]
fn terminate_first_decision_has_its_own_label() {
    for (terminate_first, decision) in [(true, "terminate-first"), (false, "delete")] {
        let command = Command {
            choice: Some(Choice {
                method: Method::Drift,
                validate_at: None,
                instance_types: Vec::new(),
                others: Vec::new(),
                wanted: Vec::new(),
                evicts: BTreeMap::new(),
                repair: None,
                terminate_first,
                freed: None,
            }),
            ..Command::default()
        };
        let metric = of_rollback(&command).unwrap();
        assert_eq!(metric.labels["decision"], decision);
    }
}

#[test]
fn termination_duration_of_a_node_is_measured() {
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
fn eviction_is_counted_by_its_status_code() {
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

#[test]
fn failed_launches_are_counted_by_class_and_by_offering() {
    use executor::{LackingOffering, LaunchError};
    let outcome = executor::ExecutionOutcome {
        errors: vec![LaunchError::InsufficientCapacity, LaunchError::Unclassified],
        lacking: vec![LackingOffering {
            zone: "us-east-1a".to_owned(),
            zone_id: "use1-az1".to_owned(),
            capacity_type: model::CapacityType::Spot,
            code: "InsufficientInstanceCapacity".to_owned(),
        }],
        requests: vec![SignedDuration::from_millis(1_500)],
        ..executor::ExecutionOutcome::default()
    };
    let counted = of_launching(model::Lane::Provisioner, &outcome);
    assert_eq!(
        texts(&counted),
        [
            r#"karpenter_cloudprovider_errors_total {"controller": "provisioner", "error": "InsufficientCapacityError", "method": "Create", "provider": "aws"} 1"#,
            r#"karpenter_cloudprovider_errors_total {"controller": "provisioner", "error": "unknown", "method": "Create", "provider": "aws"} 1"#,
            r#"karpenter_cloudprovider_instance_launch_failures_total {"capacity_type": "spot", "reason": "InsufficientInstanceCapacity", "zone": "us-east-1a", "zone_id": "use1-az1"} 1"#,
            r#"karpenter_cloudprovider_duration_seconds {"controller": "provisioner", "method": "Create", "provider": "aws"} 1s 500ms"#,
        ]
    );
}

#[test]
fn refused_termination_is_an_error_and_unknown_instance_is_not() {
    let refusal = ports::TerminationRefusal {
        code: "OperationNotPermitted".to_owned(),
        message: "termination protection".to_owned(),
    };
    let mut refused = claim();
    refused.status.provider_id = "aws:///us-east-1a/i-1".to_owned();
    let results = crate::report::TerminationResults {
        ended: ["i-2".into()].into(),
        refused: [("i-1".into(), refusal)].into(),
        unanswered: None,
        took: Some(SignedDuration::from_secs(2)),
    };
    let counted = of_ending(model::Lane::Terminator, &results, &[refused]);
    assert_eq!(
        texts(&counted),
        [
            r#"karpenter_cloudprovider_errors_total {"controller": "terminator", "error": "unknown", "method": "Delete", "provider": "aws"} 1"#,
            r#"karpenter_cloudprovider_instance_termination_failures_total {"zone": "us-east-1a", "zone_id": ""} 1"#,
            r#"karpenter_cloudprovider_duration_seconds {"controller": "terminator", "method": "Delete", "provider": "aws"} 2s"#,
        ]
    );
}
