//! Conditions that `kubectl describe ec2nodeclass` shows for every mistake in a NodeClass, as one table.

use std::fmt::Write;

use api::{ConditionStatus, conditions::types::VALIDATION_SUCCEEDED};
use aws_rules::{
    ProviderSettings,
    node_class::{Discovered, Discovery, StatusInput, Verdict, draft},
};
use expect_test::expect;
use jiff::Timestamp;
use model::Warning;
use serde_json::{Value, json};

use crate::{
    dry_runs::{refusal, tried, verdict_of},
    node_class::{found, subnet},
    world::{catalog, cluster, node_class},
};

/// The conditions of a new NodeClass that are not true, after its dry runs if there are any.
fn shown(spec: &Value, discovered: Discovered, refused: &[(&str, &str, &str)]) -> String {
    let class = node_class(json!({ "spec": spec }));
    let refused: Vec<_> = refused
        .iter()
        .map(|(call, code, message)| (*call, refusal(code, message)))
        .collect();
    let mut new = class.clone();
    new.status = None;
    let facts = catalog().instance_types;
    let known = StatusInput {
        cluster: &cluster(),
        settings: &ProviderSettings::default(),
        instance_types: &facts,
    };
    let draft = draft(&new, discovered, known, Timestamp::UNIX_EPOCH);
    let verdict = if draft.may_launch() {
        match tried(&class, &[]) {
            Ok(trial) => verdict_of(&class, &trial, &refused).1,
            Err(problem) => problem.into(),
        }
    } else {
        Verdict::Passed
    };
    let mut shown = String::new();
    for Warning { reason, message } in &draft.warnings {
        writeln!(shown, "  Event Warning {reason}: {message}").unwrap();
    }
    let status = draft.judged(verdict);
    for condition in status.conditions.unwrap_or_default() {
        let by_another = condition.r#type == "Ready"
            || (condition.r#type == VALIDATION_SUCCEEDED
                && condition.reason == "DependenciesNotReady");
        if condition.status != ConditionStatus::True && !by_another {
            let api::Condition {
                r#type,
                status,
                reason,
                message,
                ..
            } = condition;
            writeln!(shown, "  {type}={status} {reason}: {message}").unwrap();
        }
    }
    shown
}

#[test]
fn every_mistake_is_reported_with_its_field() {
    let mut page = String::new();
    let mut case =
        |mistake: &str, spec: Value, discovered: Discovered, refused: &[(&str, &str, &str)]| {
            let shown = shown(&spec, discovered, refused);
            assert!(!shown.is_empty(), "{mistake}: nothing is reported");
            write!(page, "{mistake}\n{shown}").unwrap();
        };
    let alias = |alias: &str| json!({ "amiSelectorTerms": [{ "alias": alias }] });
    for (mistake, spec) in [
        ("an alias of no family", alias("ubuntu@latest")),
        ("an alias without a version", alias("al2023")),
        (
            "a family that is not the alias's",
            json!({ "amiFamily": "Bottlerocket" }),
        ),
        (
            "an unknown family",
            json!({ "amiFamily": "Ubuntu", "amiSelectorTerms": [{ "id": "ami-1" }] }),
        ),
        (
            "a role with a name too long",
            json!({ "role": "r".repeat(65) }),
        ),
        (
            "a tag key that marks what is a cluster's",
            json!({ "tags": { "kubernetes.io/cluster/demo": "owned" } }),
        ),
        (
            "a tag key that marks whose a node is",
            json!({ "tags": { "karpenter.sh/nodepool": "mine" } }),
        ),
        (
            "user data over 16 KB",
            json!({ "userData": "x".repeat(17_000) }),
        ),
        (
            "user data that is no TOML",
            json!({
                "amiSelectorTerms": [{ "alias": "bottlerocket@latest" }], "userData": "no [toml",
            }),
        ),
        (
            "user data that is no MIME archive",
            json!({
                "userData": "MIME-Version: 1.0\nContent-Type: multipart/mixed",
            }),
        ),
    ] {
        case(mistake, spec, found(), &[]);
    }
    case(
        "no subnet",
        json!({}),
        Discovered {
            subnets: Discovery::Found(Vec::new()),
            ..found()
        },
        &[],
    );
    case(
        "a subnet without free addresses",
        json!({}),
        Discovered {
            subnets: Discovery::Found(vec![subnet("subnet-1", 0), subnet("subnet-2", 12)]),
            ..found()
        },
        &[],
    );
    case(
        "no security group",
        json!({}),
        Discovered {
            security_groups: Discovery::Found(Vec::new()),
            ..found()
        },
        &[],
    );
    case(
        "a parameter or name that no image has",
        json!({}),
        Discovered {
            amis: Discovery::Found(Vec::new()),
            ..found()
        },
        &[],
    );
    for (mistake, spec, call, code, message) in [
        (
            "a security group of another VPC",
            json!({}),
            "RunInstances",
            "InvalidParameter",
            "Security group sg-1 and subnet subnet-a belong to different networks.",
        ),
        (
            "an instance profile that does not exist",
            json!({ "role": null, "instanceProfile": "mine" }),
            "RunInstances",
            "InvalidParameterValue",
            "Value (mine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
        ),
        (
            "an instance profile that may not be passed",
            json!({ "role": null, "instanceProfile": "mine" }),
            "RunInstances",
            "UnauthorizedOperation",
            "You are not authorized to perform: iam:PassRole",
        ),
        (
            "a device name that EC2 does not know",
            json!({ "blockDeviceMappings": [{ "deviceName": "sda", "ebs": { "volumeSize": "20Gi" } }] }),
            "RunInstances",
            "InvalidBlockDeviceMapping",
            "Invalid device name sda",
        ),
        (
            "a volume key that the nodes may not use",
            json!({ "blockDeviceMappings": [{ "deviceName": "/dev/xvda", "ebs": { "volumeSize": "20Gi", "encrypted": true, "kmsKeyID": "key" } }] }),
            "RunInstances",
            "InvalidKmsKey.InvalidState",
            "The KMS key provided is in an incorrect state",
        ),
    ] {
        case(mistake, spec, found(), &[(call, code, message)]);
    }
    expect![[r#"
        an alias of no family
          ValidationSucceeded=False InvalidSpec: spec.amiSelectorTerms[0].alias: "ubuntu@latest" is not allowed: expected family@version with a family of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025, and a version such as v20240807 or latest; for Windows only latest
        an alias without a version
          ValidationSucceeded=False InvalidSpec: spec.amiSelectorTerms[0].alias: "al2023" is not allowed: expected family@version with a family of al2, al2023, bottlerocket, windows2019, windows2022 and windows2025, and a version such as v20240807 or latest; for Windows only latest
        a family that is not the alias's
          ValidationSucceeded=False InvalidSpec: spec.amiFamily: "Bottlerocket" is not allowed: expected the family of the alias, al2023, or Custom
        an unknown family
          ValidationSucceeded=False InvalidSpec: spec.amiFamily: "Ubuntu" is not allowed: expected one of AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025
        a role with a name too long
          ValidationSucceeded=False InvalidSpec: spec.role: "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr" is not allowed: expected a name of at most 64 characters
        a tag key that marks what is a cluster's
          ValidationSucceeded=False TagValidationFailed: spec.tags: "kubernetes.io/cluster/demo" is not allowed: expected a key other than karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass, eks:eks-cluster-name and those beginning with kubernetes.io/cluster/: these mark the cluster's resources
        a tag key that marks whose a node is
          ValidationSucceeded=False TagValidationFailed: spec.tags: "karpenter.sh/nodepool" is not allowed: expected a key other than karpenter.sh/nodepool, karpenter.sh/nodeclaim, karpenter.k8s.aws/ec2nodeclass, eks:eks-cluster-name and those beginning with kubernetes.io/cluster/: these mark the cluster's resources
        user data over 16 KB
          ValidationSucceeded=False UserDataSizeLimitExceeded: the user data, with the part that joins the node to the cluster, has 17665 bytes: expected at most 16384; shorten spec.userData
        user data that is no TOML
          ValidationSucceeded=False InvalidUserData: spec.userData is not TOML that Bottlerocket can use: key with no value, expected `=`
        user data that is no MIME archive
          ValidationSucceeded=False InvalidUserData: spec.userData is not a MIME archive: its Content-Type names no boundary
        no subnet
          Event Warning SubnetsNotFound: subnetSelectorTerms select no subnets in this Region: correct the terms, or tag the subnets accordingly
          SubnetsReady=False SubnetsNotFound: SubnetSelector did not match any Subnets
        a subnet without free addresses
          Event Warning InsufficientFreeAddressesInSubnet: subnetSelectorTerms: no instance can be launched in subnets without free addresses: subnet-1 in us-east-1a
        no security group
          Event Warning SecurityGroupsNotFound: securityGroupSelectorTerms select no security groups in this Region: correct the terms, or tag the security groups accordingly
          SecurityGroupsReady=False SecurityGroupsNotFound: SecurityGroupSelector did not match any SecurityGroups
        a parameter or name that no image has
          Event Warning AMINotFound: amiSelectorTerms select no images in this Region: correct the terms, or tag the images accordingly
          AMIsReady=False AMINotFound: AMISelector did not match any AMIs
        a security group of another VPC
          ValidationSucceeded=False SecurityGroupSubnetVPCMismatch: spec.securityGroupSelectorTerms and spec.subnetSelectorTerms: Security groups and subnets must be in the same VPC: ec2:RunInstances answered InvalidParameter: Security group sg-1 and subnet subnet-a belong to different networks.
        an instance profile that does not exist
          ValidationSucceeded=False InstanceProfileNotFound: spec.instanceProfile does not exist: ec2:RunInstances answered InvalidParameterValue: Value (mine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name
        an instance profile that may not be passed
          ValidationSucceeded=False RunInstancesAuthCheckFailed: ec2:RunInstances is not allowed. No identity-based policy allows this operation: UnauthorizedOperation: You are not authorized to perform: iam:PassRole
        a device name that EC2 does not know
          ValidationSucceeded=Unknown AwaitingReconciliation: spec.blockDeviceMappings: ec2:RunInstances answered InvalidBlockDeviceMapping: Invalid device name sda
        a volume key that the nodes may not use
          ValidationSucceeded=Unknown AwaitingReconciliation: spec.blockDeviceMappings[].ebs.kmsKeyID: ec2:RunInstances answered InvalidKmsKey.InvalidState: The KMS key provided is in an incorrect state
    "#]].assert_eq(&page);
}
