//! Auto Scaling groups and managed node groups.

use harness::{stderr_of, stdout_of};
use serde_json::{Value, json};

use crate::{import, import_group, import_group_with};

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
            "check --name and --cluster",
        ),
        (
            &["asg", "-f", "running.yaml"],
            "running.yaml holds no AutoScalingGroups: give what",
        ),
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
    for (group, warning) in [
        (
            weighted(["2", "4"]),
            "a NodePool counts nodes: spec.limits.nodes 3 is MaxSize 5 divided by the least weight 2, and as many nodes of the heaviest \
             type have 12 units: set spec.limits.cpu or spec.limits.memory",
        ),
        (
            weighted(["2", "2"]),
            "a NodePool counts nodes: spec.limits.nodes 3 is MaxSize 5 divided by the weight 2; --min-size and --desired-capacity of \
             step 6 count the group's units, too",
        ),
        (
            by_vcpu("vcpu"),
            "the group's sizes count vCPUs, and so does spec.limits.cpu; the group launches until MaxSize 5 is reached or exceeded",
        ),
        (
            by_vcpu("memory-mib"),
            "the group's sizes count MiB of memory, and so does spec.limits.memory;",
        ),
    ] {
        let (_, _, messages) = import_group("", group, &[]);
        assert!(messages.contains(warning), "{warning}: {messages}");
    }
    for (group, count) in [
        (weighted(["2", "2"]), "head -n 1 |"),
        (
            weighted(["2", "4"]),
            "head -n $(( ($(nodes false | wc -l) + 9) / 10 )) |",
        ),
        (
            by_vcpu("vcpu"),
            "head -n $(( ($(nodes false | wc -l) + 9) / 10 )) |",
        ),
    ] {
        let (_, _, messages) = import_group("", group, &[]);
        assert!(messages.contains(count), "{count}: {messages}");
    }
    for group in [weighted(["1", "1"]), by_vcpu("units")] {
        let (_, _, messages) = import_group("", group, &[]);
        assert!(!messages.contains("the group's sizes count"), "{messages}");
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

#[test]
fn bandwidth_of_attributes_becomes_requirements_in_megabits() {
    let group = of_attributes(json!({
        "BaselineEbsBandwidthMbps": {"Min": 1000}, "NetworkBandwidthGbps": {"Min": 12.5, "Max": 50},
    }));
    let (output, manifests, messages) = import_group("", group, &[]);
    assert!(output.status.success(), "{messages}");
    for (key, operator, value) in [
        ("ebs", "Gte", "1000"),
        ("network", "Gte", "12500"),
        ("network", "Lte", "50000"),
    ] {
        let requirement = format!(
            "key: karpenter.k8s.aws/instance-{key}-bandwidth\n        operator: {operator}\n        values:\n        - \"{value}\"\n"
        );
        assert!(
            manifests.contains(&requirement),
            "{requirement}: {manifests}"
        );
    }
}

#[test]
fn placement_in_a_zone_becomes_a_requirement() {
    let data = json!({
        "Placement": {"AvailabilityZone": "us-east-1a", "GroupName": "", "Tenancy": "default"},
        "EbsOptimized": false, "LicenseSpecifications": [],
    });
    let (output, manifests, messages) = import_group_with(data, json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    assert!(
        manifests.contains("key: topology.kubernetes.io/zone\n        operator: In\n        values:\n        - us-east-1a\n"),
        "{manifests}"
    );
    assert!(!manifests.contains("placementGroup"), "{manifests}");
    assert!(!messages.contains("EbsOptimized"), "{messages}");
}

#[test]
fn network_interface_of_another_kind_is_refused() {
    let data = json!({"NetworkInterfaces": [{"DeviceIndex": 0, "InterfaceType": "efa"}]});
    let (output, manifests, messages) = import_group_with(data, json!({}), &[]);
    assert_eq!((output.status.code(), manifests.as_str()), (Some(1), ""));
    assert!(
        messages
            .contains("only plain network interfaces are imported: write spec.networkInterfaces"),
        "{messages}"
    );
}

#[test]
fn groups_of_one_object_name_are_refused_and_long_names_are_cut() {
    let name = |name: String| json!({"AutoScalingGroupName": name});
    let (_, manifests, messages) = import_group("", name("Web_1.".repeat(20)), &[]);
    let cut = "web-1.".repeat(10);
    assert!(
        manifests.contains(&format!("  name: {cut}web\n")),
        "{manifests} {messages}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("groups.json");
    let groups = ["Batch_x", "batch-x"].map(|name| {
        let group = json!({"nodegroupName": name, "clusterName": "c", "subnets": ["subnet-1"], "nodeRole": "r", "amiType": "AL2023_x86_64_STANDARD"});
        json!({ "nodegroup": group }).to_string()
    });
    // As printed by a command for each group.
    std::fs::write(&file, groups.join("\n")).unwrap();
    let output = import(&["mng", "-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout_of(&output).contains("name: batch-x"), "{output:?}");
    let stderr = stderr_of(&output);
    assert!(
        stderr.contains(
            "its objects would be named batch-x, as those of Batch_x: import it alone with --name"
        ),
        "{stderr}"
    );
}
