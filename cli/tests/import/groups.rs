//! Auto Scaling groups and managed node groups.

use harness::{stderr_of, stdout_of};
use serde_json::{Value, json};

use crate::{import, import_group};

const BATCH: [&str; 7] = [
    "asg",
    "-f",
    "asg.json",
    "--launch-template",
    "templates.json",
    "--name",
    "batch",
];

#[test]
fn cluster_autoscaler_flags_become_disruption_settings_and_weights() {
    let priorities = tempfile::NamedTempFile::new().unwrap();
    let config =
        "{apiVersion: v1, kind: ConfigMap, data: {priorities: '{10: [other.*], 50: [bat.*]}'}}";
    std::fs::write(priorities.path(), config).unwrap();
    let mut arguments = BATCH.to_vec();
    let path = priorities.path().to_str().unwrap();
    arguments.extend(["--priorities", path]);
    for flag in [
        "scale-down-unneeded-time=5m",
        "scale-down-utilization-threshold=0",
        "max-empty-bulk-delete=10",
        "scan-interval=10s",
    ] {
        arguments.extend(["--autoscaler-flag", flag]);
    }
    let output = import(&arguments);
    let (manifests, stderr) = (stdout_of(&output), stderr_of(&output));
    assert!(output.status.success(), "{stderr}");
    for line in [
        "consolidateAfter: 5m",
        "consolidationPolicy: WhenEmpty",
        "- nodes: \"10\"",
        "weight: 2",
    ] {
        assert!(manifests.contains(line), "{line}: {manifests}");
    }
    assert!(
        stderr.contains("--scan-interval=10s of Cluster Autoscaler has no counterpart"),
        "{stderr}"
    );
}

#[test]
fn max_nodes_total_below_the_sum_of_groups_is_rejected_with_a_suggested_split() {
    let mut arguments = BATCH.to_vec();
    arguments.extend(["--autoscaler-flag", "max-nodes-total=10"]);
    let output = import(&arguments);
    let stderr = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("may grow to 20 nodes together") && stderr.contains("such as batch 10"),
        "{stderr}"
    );
}

#[test]
fn missing_input_is_requested_by_name() {
    let output = import(&["asg", "-f", "asg.json", "--name", "batch"]);
    let stderr = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("aws ec2 describe-launch-template-versions"),
        "{stderr}"
    );
    for (arguments, remedy) in [
        (
            ["mng", "-f", "asg.json"].as_slice(),
            "give what `aws eks describe-nodegroup` prints",
        ),
        (
            &["asg", "-f", "mng-spot.json"],
            "give what `aws autoscaling describe-auto-scaling-groups` prints",
        ),
        (
            &["asg", "-f", "asg.json", "--name", "nobody"],
            "look at --name and --cluster",
        ),
        (&["asg", "-f", "running.yaml"], "running.yaml is not JSON"),
    ] {
        let output = import(arguments);
        let stderr = stderr_of(&output);
        assert!(
            !output.status.success() && stderr.contains(remedy),
            "{stderr}"
        );
    }
}

#[test]
fn roles_in_aws_auth_need_no_access_entry() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("aws-auth.yaml");
    let roles = "- rolearn: arn:aws:iam::111122223333:role/nodes\n      groups: [system:nodes]";
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: aws-auth, namespace: kube-system}}\ndata:\n  mapRoles: |\n    {roles}\n"
    );
    std::fs::write(&map, text).unwrap();
    let mut arguments = vec![
        "mng",
        "-f",
        "mng-spot.json",
        "--account",
        "access-entries.json",
    ];
    let stderr = stderr_of(&import(&arguments));
    assert!(stderr.contains("role nodes"), "{stderr}");
    arguments.extend(["--manifests", map.to_str().unwrap()]);
    let stderr = stderr_of(&import(&arguments));
    assert!(!stderr.contains("role nodes"), "{stderr}");
}

#[test]
fn unknown_account_file_is_rejected() {
    let output = import(&["mng", "-f", "mng-spot.json", "--account", "mng-own.json"]);
    let stderr = stderr_of(&output);
    assert!(!output.status.success());
    assert!(
        stderr.contains("mng-own.json") && stderr.contains("list-access-entries"),
        "{stderr}"
    );
}

/// A group whose instance types EC2 chooses by these attributes.
fn of_attributes(attributes: Value) -> Value {
    json!({"LaunchTemplate": null, "MixedInstancesPolicy": {"LaunchTemplate": {
        "LaunchTemplateSpecification": {"LaunchTemplateName": "web", "Version": "1"},
        "Overrides": [{"InstanceRequirements": attributes}],
    }}})
}

#[test]
fn generations_are_current_or_previous_by_family() {
    for (generation, operator) in [("current", "NotIn"), ("previous", "In")] {
        let group = of_attributes(json!({"InstanceGenerations": [generation]}));
        let (output, manifests, messages) = import_group("", group, &[]);
        assert!(output.status.success(), "{messages}");
        let families = ["c1", "c3", "g2", "i2", "m1", "m2", "m3", "r3", "t1"];
        let values: String = families
            .map(|family| format!("        - {family}\n"))
            .concat();
        let requirement = format!(
            "key: karpenter.k8s.aws/instance-family\n        operator: {operator}\n        values:\n{values}"
        );
        assert!(manifests.contains(&requirement), "{manifests}");
        assert!(!manifests.contains("instance-generation"), "{manifests}");
    }
}

#[test]
fn sizes_in_other_units_than_nodes_become_limits_of_that_unit() {
    let weighted = |weights: [&str; 2]| {
        json!({"LaunchTemplate": null, "MixedInstancesPolicy": {"LaunchTemplate": {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "web", "Version": "1"},
            "Overrides": [
                {"InstanceType": "m5.large", "WeightedCapacity": weights[0]},
                {"InstanceType": "m6g.large", "WeightedCapacity": weights[1]},
            ],
        }}})
    };
    let by_vcpu = |unit: &str| {
        let mut group = of_attributes(json!({"VCpuCount": {"Min": 2}}));
        group["DesiredCapacityType"] = unit.into();
        group
    };
    for (group, limit) in [
        (weighted(["2", "4"]), "nodes: \"3\""),
        (weighted(["2", "2"]), "nodes: \"3\""),
        (weighted(["1", "1"]), "nodes: \"5\""),
        (by_vcpu("vcpu"), "cpu: \"5\""),
        (by_vcpu("memory-mib"), "memory: 5Mi"),
        (by_vcpu("units"), "nodes: \"5\""),
    ] {
        let (output, manifests, messages) = import_group("", group.clone(), &[]);
        assert!(output.status.success(), "{messages}");
        assert!(
            manifests.contains(&format!("    {limit}\n")),
            "{group}: {manifests}"
        );
    }
    let (_, manifests, _) = import_group("", weighted(["2", "2"]), &["--static"]);
    assert!(manifests.contains("  replicas: 2\n"), "{manifests}");
    for group in [weighted(["2", "4"]), by_vcpu("vcpu")] {
        let (output, manifests, messages) = import_group("", group, &["--static"]);
        assert_eq!((output.status.code(), manifests.as_str()), (Some(1), ""));
        assert!(
            messages.contains("DesiredCapacity is 4: it counts units"),
            "{messages}"
        );
        assert!(messages.contains("leave --static out"), "{messages}");
        assert!(!messages.contains("kubectl apply"), "{messages}");
    }
}

#[test]
fn nodes_of_a_group_without_a_lifetime_do_not_expire() {
    let (_, manifests, messages) = import_group("", json!({}), &[]);
    assert!(
        manifests.contains("      expireAfter: Never\n"),
        "{manifests}"
    );
    assert!(
        messages.contains("without this field v1 ends them by force after 720h"),
        "{messages}"
    );
    let (_, manifests, _) = import_group("", json!({"MaxInstanceLifetime": 604_800}), &[]);
    assert!(
        manifests.contains("      expireAfter: 604800s\n"),
        "{manifests}"
    );
}

#[test]
fn static_node_pool_names_the_feature_gate_that_it_needs() {
    let (output, manifests, messages) = import_group("", json!({}), &["--static"]);
    assert!(
        output.status.success() && manifests.contains("  replicas: 4\n"),
        "{messages}"
    );
    assert!(
        messages.contains("launches nothing until the cluster's feature gate StaticCapacity is on")
            && messages.contains(r#"--settings '{"featureGates": {"staticCapacity": true}}'"#),
        "{messages}"
    );
}

#[test]
fn group_with_a_restricted_label_is_refused_by_the_label_and_gets_no_steps() {
    let tags = json!({"Tags": [{"Key": "k8s.io/cluster-autoscaler/node-template/label/karpenter.sh/team", "Value": "a"}]});
    let (output, manifests, messages) = import_group("", tags, &[]);
    assert_eq!((output.status.code(), manifests.as_str()), (Some(1), ""));
    assert!(
        messages.contains(
            "spec.template.metadata.labels.karpenter.sh/team is a: v1 keeps this label for itself"
        ),
        "{messages}"
    );
    assert!(
        !messages.contains("The move") && !messages.contains("is restricted"),
        "{messages}"
    );
}
