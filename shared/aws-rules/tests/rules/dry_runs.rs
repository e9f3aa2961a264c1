use api::{EC2NodeClass, conditions::types::VALIDATION_SUCCEEDED};
use aws_rules::{
    LaunchInput, LaunchRefusal, ProviderSettings,
    launch::{Trial, trial},
    node_class::{DryRunAct, DryRuns, Refusal, StatusInput, ValidationMemory, Verdict, draft},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    node_pool::NodePool,
    selector::{NodeSelectorRequirement, Operator},
};
use serde_json::{Value, json};

use crate::{
    node_class::{condition, found},
    world::{catalog, cluster, node_class, types_of},
};

pub(crate) fn refusal(code: &str, message: &str) -> Refusal {
    Refusal {
        code: code.into(),
        message: message.into(),
    }
}

pub(crate) fn tried(class: &EC2NodeClass, pools: &[NodePool]) -> Result<Trial, LaunchRefusal> {
    let input = LaunchInput {
        cluster: &cluster(),
        settings: &ProviderSettings::default(),
        node_class: class,
        instance_types: &types_of(class),
        free_addresses: &model::FreeAddresses::default(),
    };
    trial(&input, pools)
}

fn pool(key: &str, values: &[&str]) -> NodePool {
    let mut pool = NodePool::default();
    pool.template.node_class.name = "default".into();
    pool.template.requirements = vec![NodeSelectorRequirement {
        key: key.into(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).into()).collect(),
        min_values: None,
    }];
    pool
}

/// The calls that are made, given the refusals of some, and the verdict.
fn run(class: &EC2NodeClass, refused: &[(&str, Refusal)]) -> (Vec<String>, Verdict) {
    verdict_of(class, &tried(class, &[]).unwrap(), refused)
}

pub(crate) fn verdict_of(
    class: &EC2NodeClass,
    trial: &Trial,
    refused: &[(&str, Refusal)],
) -> (Vec<String>, Verdict) {
    let mut runs = DryRuns::new(class, trial);
    let (mut calls, mut answer) = (Vec::new(), Ok(()));
    loop {
        let call = match runs.next(answer) {
            DryRunAct::Done(verdict) => return (calls, verdict),
            DryRunAct::CreateLaunchTemplate => "CreateLaunchTemplate".to_owned(),
            DryRunAct::CreateFleet => "CreateFleet".to_owned(),
            DryRunAct::RunInstances { subnet } => format!("RunInstances {subnet}"),
        };
        let hit = refused.iter().find(|(prefix, _)| call.starts_with(prefix));
        // A dry run that would succeed is answered with an error.
        let yes = match call.as_str() {
            "CreateLaunchTemplate" => Ok(()),
            _ => Err(refusal("DryRunOperation", "would have succeeded")),
        };
        answer = hit.map_or(yes, |(_, refusal)| Err(refusal.clone()));
        calls.push(call);
    }
}

#[test]
fn dry_runs_continue_until_one_subnet_is_allowed() {
    let class = node_class(json!({}));
    let (calls, verdict) = run(&class, &[]);
    assert_eq!(
        calls,
        [
            "CreateLaunchTemplate",
            "CreateFleet",
            "RunInstances subnet-a"
        ]
    );
    assert_eq!(verdict, Verdict::Passed);
    let no = refusal("UnauthorizedOperation", "no");
    let (calls, verdict) = run(&class, &[("RunInstances subnet-a", no)]);
    assert_eq!(calls.last().unwrap(), "RunInstances subnet-b");
    assert_eq!(verdict, Verdict::Passed);
}

#[test]
fn missing_permission_is_reported_by_its_action() {
    let class = node_class(json!({}));
    let scp = "denied with an explicit deny in a service control policy";
    for (action, calls) in [
        ("CreateLaunchTemplate", 1),
        ("CreateFleet", 2),
        ("RunInstances", 5),
    ] {
        let denied = refusal("UnauthorizedOperation", scp);
        let (made, verdict) = run(&class, &[(action, denied)]);
        assert_eq!(made.len(), calls, "{made:?}");
        let Verdict::Refused {
            reason,
            message,
            stands: true,
        } = verdict
        else {
            panic!("{verdict:?}");
        };
        assert_eq!(reason, format!("{action}AuthCheckFailed"));
        assert!(message.contains(&format!("ec2:{action}")), "{message}");
        assert!(message.contains("service control policy"), "{message}");
    }
}

#[test]
fn inconclusive_refusal_leaves_the_condition_unchanged() {
    let class = node_class(json!({}));
    for (code, again) in [
        ("RequestLimitExceeded", true),
        ("InternalError", true),
        ("", true),
        ("InvalidParameterValue", false),
    ] {
        let (_, verdict) = run(&class, &[("CreateFleet", refusal(code, "sorry"))]);
        assert_eq!(verdict.asks_again(), again, "{code}");
        assert!(
            !matches!(verdict, Verdict::Refused { .. } | Verdict::Passed),
            "{code}"
        );
        let before = judged(&class, verdict);
        assert_eq!(
            (before.0.as_str(), before.1.as_str()),
            ("Unknown", "AwaitingReconciliation")
        );
        assert!(before.2.contains("sorry"));
    }
}

#[test]
fn unknown_instance_profile_fails_validation_only_if_user_named() {
    let unknown = refusal(
        "InvalidParameterValue",
        "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
    );
    let own = node_class(json!({ "spec": { "role": null, "instanceProfile": "mine" } }));
    let (_, verdict) = run(&own, &[("RunInstances", unknown.clone())]);
    assert!(verdict.asks_again());
    assert_eq!(judged(&own, verdict).1, "InstanceProfileNotFound");
    let (_, verdict) = run(&node_class(json!({})), &[("RunInstances", unknown)]);
    assert!(matches!(verdict, Verdict::Unanswered { .. }), "{verdict:?}");
}

#[test]
fn too_long_user_data_is_reported() {
    let long = refusal(
        "InvalidUserData.Malformed",
        "User data is limited to 16384 bytes",
    );
    let (_, verdict) = run(&node_class(json!({})), &[("CreateLaunchTemplate", long)]);
    let (status, reason, message) = judged(&node_class(json!({})), verdict);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "UserDataSizeLimitExceeded")
    );
    assert!(message.contains("spec.userData"), "{message}");
}

#[test]
fn unrenderable_launch_is_not_tried_and_names_the_field() {
    for (spec, reason, field) in [
        (
            json!({ "userData": "x".repeat(17_000) }),
            "UserDataSizeLimitExceeded",
            "spec.userData",
        ),
        (
            json!({ "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }], "userData": "no [toml" }),
            "InvalidUserData",
            "spec.userData",
        ),
        (
            json!({ "userData": "MIME-Version: 1.0\nContent-Type: multipart/mixed" }),
            "InvalidUserData",
            "spec.userData",
        ),
        (
            json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda" }] }),
            "InvalidSpec",
            "spec.blockDeviceMappings",
        ),
    ] {
        let problem = tried(&node_class(json!({ "spec": spec })), &[]).unwrap_err();
        let Verdict::Refused {
            reason: got,
            message,
            ..
        } = Verdict::from(problem)
        else {
            panic!("{spec}");
        };
        assert_eq!(got, reason, "{message}");
        assert!(message.contains(field), "{message}");
    }
}

#[test]
fn image_that_boots_no_type_is_reported() {
    let no_such = json!([{ "key": "kubernetes.io/arch", "operator": "In", "values": ["riscv64"] }]);
    let class =
        node_class(json!({ "status": { "amis": [{ "id": "ami-1", "requirements": no_such }] } }));
    let problem = tried(&class, &[]).unwrap_err();
    let (status, reason, message) = judged(&class, problem.into());
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "NoUsableInstanceType")
    );
    assert!(message.contains("spec.amiSelectorTerms"), "{message}");
}

#[test]
fn trial_uses_a_type_of_the_node_pools() {
    let class = node_class(json!({}));
    let chosen = |pools: &[NodePool]| tried(&class, pools).unwrap().instance_type;
    let types = |names: &[&str]| pool("node.kubernetes.io/instance-type", names);
    assert_eq!(chosen(&[types(&["c6g.large"])]), "c6g.large");
    assert_eq!(
        chosen(&[types(&["g4dn.8xlarge", "m5.xlarge"])]),
        "m5.xlarge",
        "rather no accelerator"
    );
    assert_eq!(chosen(&[types(&["g4dn.8xlarge"])]), "g4dn.8xlarge");
    assert_eq!(chosen(&[types(&["nope"])]), "m5.large");
    assert_eq!(chosen(&[]), "m5.large");
    let mut others = types(&["c6g.large"]);
    others.template.node_class.name = "other".into();
    assert_eq!(
        chosen(&[others]),
        "m5.large",
        "others' NodePools do not count"
    );
}

#[test]
fn trial_has_the_tags_and_placement_of_a_launch() {
    let class = node_class(json!({ "spec": { "tags": { "team": "a" } } }));
    let dedicated = pool(
        "karpenter.k8s.aws/instance-tenancy",
        &["default", "dedicated"],
    );
    let trial = tried(&class, &[dedicated]).unwrap();
    assert_eq!(trial.template.tenancy, "dedicated");
    assert_eq!(trial.tags["team"], "a");
    assert_eq!(trial.tags["karpenter.sh/nodepool"], "");
    assert_eq!(trial.tags["eks:eks-cluster-name"], "demo");
    assert_eq!(trial.subnets, ["subnet-a", "subnet-b", "subnet-c"]);
}

#[test]
fn unchanged_node_class_is_not_validated_again() {
    let class = node_class(json!({}));
    let mut memory = ValidationMemory::default();
    let now: Timestamp = "2026-08-22T12:00:00Z".parse().unwrap();
    assert_eq!(memory.recall(&class, now), None);
    memory.keep(&class, &Verdict::Passed, now);
    assert_eq!(memory.recall(&class, now), Some(Verdict::Passed));
    let later = |minutes| now + SignedDuration::from_mins(minutes);
    assert_eq!(memory.recall(&class, later(29)), Some(Verdict::Passed));
    assert_eq!(memory.recall(&class, later(30)), None);
    for change in [
        json!({ "metadata": { "annotations": { "try": "again" } } }),
        json!({ "spec": { "detailedMonitoring": true } }),
        json!({ "status": { "instanceProfile": "other" } }),
    ] {
        assert_eq!(memory.recall(&node_class(change), now), None);
    }
    let message = String::new();
    memory.keep(&class, &Verdict::Unanswered { message }, now);
    assert_eq!(
        memory.recall(&class, now),
        None,
        "no answer is none to remember"
    );
}

/// Status, reason and message of the condition of a new NodeClass.
fn judged(class: &EC2NodeClass, verdict: Verdict) -> (String, String, String) {
    let mut class = class.clone();
    class.status = None;
    let known = StatusInput {
        cluster: &cluster(),
        settings: &ProviderSettings::default(),
        instance_types: &catalog().instance_types,
    };
    let now = "2026-08-22T12:00:00Z".parse().unwrap();
    let draft = draft(&class, found(), known, now);
    assert!(draft.may_launch());
    let status = draft.judged(verdict);
    let (status, reason, message) = condition(&status, VALIDATION_SUCCEEDED);
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn no_dry_run_before_everything_is_resolved() {
    let mut missing = found();
    missing.subnets = aws_rules::node_class::Discovery::Found(Vec::new());
    let class = node_class(json!({ "status": Value::Null }));
    let known = StatusInput {
        cluster: &cluster(),
        settings: &ProviderSettings::default(),
        instance_types: &[],
    };
    let draft = draft(&class, missing, known, Timestamp::UNIX_EPOCH);
    assert!(!draft.may_launch());
    let status = draft.judged(Verdict::Passed);
    assert_eq!(
        condition(&status, VALIDATION_SUCCEEDED).1,
        "DependenciesNotReady"
    );
}
