//! `whittle import`, run on recorded output of the AWS CLI and compared with the golden files `import/<name>.out` (standard output and
//! standard error). `UPDATE_EXPECT=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use expect_test::expect_file;
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import")
}

fn import(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whittle"))
        .arg("import")
        .args(arguments)
        .current_dir(folder())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn output_of_every_example_matches_its_golden_file() {
    let nodes = "templates-nodes.json";
    let pages: [(&str, &[&str], i32); 15] = [
        (
            "asg-nodes",
            &["asg", "-f", "asg-nodes.json", "--launch-template", nodes],
            0,
        ),
        (
            "asg-nodes-refused",
            &[
                "asg",
                "-f",
                "asg-nodes-refused.json",
                "--launch-template",
                nodes,
            ],
            1,
        ),
        (
            "asg-attributes",
            &[
                "asg",
                "-f",
                "asg-attributes.json",
                "--launch-template",
                nodes,
            ],
            0,
        ),
        ("asg-lost", &["asg", "-f", "asg-lost.json"], 1),
        (
            "mng-nodeadm",
            &["mng", "-f", "mng-nodeadm.json", "--launch-template", nodes],
            0,
        ),
        (
            "asg-choices",
            &[
                "asg",
                "-f",
                "asg-choices.json",
                "--launch-template",
                "templates-choices.json",
            ],
            1,
        ),
        ("mng-remarks", &["mng", "-f", "mng-remarks.json"], 0),
        ("mng-repair", &["mng", "-f", "mng-repair.json"], 0),
        (
            "asg",
            &[
                "asg",
                "-f",
                "asg.json",
                "--launch-template",
                "templates.json",
                "--cluster",
                "demo",
            ],
            1,
        ),
        (
            "mng",
            &[
                "mng",
                "-f",
                "mng-spot.json",
                "mng-own.json",
                "--launch-template",
                "templates.json",
                "--pin",
            ],
            0,
        ),
        (
            "asg-refused",
            &[
                "asg",
                "-f",
                "asg-refused.json",
                "--launch-template",
                "templates-refused.json",
            ],
            1,
        ),
        (
            "flags-refused",
            &[
                "asg",
                "-f",
                "asg.json",
                "--launch-template",
                "templates.json",
                "--name",
                "batch",
                "--autoscaler-flag",
                "max-nodes-total=10",
                "--autoscaler-flag",
                "max-empty-bulk-delete=few",
                "--autoscaler-flag",
                "scale-down-unneeded-time=soon",
                "--autoscaler-flag",
                "expander=grpc",
            ],
            1,
        ),
        (
            "mng-refused",
            &["mng", "-f", "mng-refused.json", "mng-odd.json"],
            1,
        ),
        (
            "preflight",
            &[
                "mng",
                "-f",
                "mng-spot.json",
                "--static",
                "--manifests",
                "running.yaml",
            ],
            0,
        ),
        (
            "account",
            &[
                "mng",
                "-f",
                "mng-spot.json",
                "--manifests",
                "volumes.yaml",
                "--account",
                "subnets.json",
                "access-entries.json",
                "quotas.json",
            ],
            0,
        ),
    ];
    for (name, arguments, code) in pages {
        let output = import(arguments);
        let shown = format!(
            "{}\n=== told\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        expect_file![folder().join(format!("{name}.out"))].assert_eq(&shown);
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
}

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
    let (manifests, stderr) = (text(&output.stdout), text(&output.stderr));
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
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("may grow to 20 nodes together") && stderr.contains("such as batch 10"),
        "{stderr}"
    );
}

#[test]
fn missing_input_is_requested_by_name() {
    let output = import(&["asg", "-f", "asg.json", "--name", "batch"]);
    let stderr = text(&output.stderr);
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
        let stderr = text(&output.stderr);
        assert!(
            !output.status.success() && stderr.contains(remedy),
            "{stderr}"
        );
    }
}

#[test]
fn node_termination_handler_options_become_settings() {
    for (name, refused) in [
        ("nth", false),
        ("nth-template", false),
        ("nth-heartbeat", true),
        ("nth-odd", true),
        ("nth-refused", true),
        ("nth-secret", true),
        ("nth-current", false),
        ("nth-older", false),
        ("nth-older-refused", true),
        ("nth-text", false),
        ("nth-none", false),
        ("nth-empty", false),
    ] {
        let output = import(&["nth", "-f", &format!("{name}.yaml")]);
        let shown = format!(
            "{}\n=== told\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        expect_file![folder().join(name).with_extension("out")].assert_eq(&shown);
        assert_eq!(output.status.code(), Some(i32::from(refused)), "{name}");
    }
    let parameter = "/whittle/credentials/nth";
    let output = import(&[
        "nth",
        "-f",
        "nth-template.yaml",
        "--webhook-parameter",
        parameter,
    ]);
    let settings = text(&output.stdout);
    assert!(
        settings.contains(r#""to": "ssm:/whittle/credentials/nth""#),
        "{settings}"
    );
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
    let stderr = text_of(&import(&arguments));
    assert!(stderr.contains("role nodes"), "{stderr}");
    arguments.extend(["--manifests", map.to_str().unwrap()]);
    let stderr = text_of(&import(&arguments));
    assert!(!stderr.contains("role nodes"), "{stderr}");
}

fn text_of(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn unknown_account_file_is_rejected() {
    let output = import(&["mng", "-f", "mng-spot.json", "--account", "mng-own.json"]);
    let stderr = text(&output.stderr);
    assert!(!output.status.success());
    assert!(
        stderr.contains("mng-own.json") && stderr.contains("list-access-entries"),
        "{stderr}"
    );
}

/// Output and messages for an Auto Scaling group with these fields, whose launch template has this user data.
fn import_group(user_data: &str, fields: Value, arguments: &[&str]) -> (Output, String, String) {
    let mut group = json!({
        "AutoScalingGroupName": "web", "MinSize": 0, "DesiredCapacity": 4, "MaxSize": 5, "VPCZoneIdentifier": "subnet-1",
        "LaunchTemplate": {"LaunchTemplateName": "web", "Version": "1"},
    });
    if let (Some(group), Some(fields)) = (group.as_object_mut(), fields.as_object()) {
        group.extend(fields.clone());
        group.retain(|_, value| !value.is_null());
    }
    let template = json!({"LaunchTemplateVersions": [{
        "LaunchTemplateName": "web", "LaunchTemplateId": "lt-1", "VersionNumber": 1, "DefaultVersion": true,
        "LaunchTemplateData": {
            "ImageId": "ami-12345678", "SecurityGroupIds": ["sg-1"], "UserData": STANDARD.encode(user_data),
        },
    }]});
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: Value| {
        let file = folder.path().join(name);
        std::fs::write(&file, value.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let groups = write("groups.json", json!({"AutoScalingGroups": [group]}));
    let templates = write("templates.json", template);
    let mut all = vec![
        "asg",
        "-f",
        &groups,
        "--launch-template",
        &templates,
        "--role",
        "nodes",
    ];
    all.extend(arguments);
    let output = import(&all);
    let (manifests, messages) = (text(&output.stdout), text(&output.stderr));
    (output, manifests, messages)
}

#[test]
fn variables_that_the_script_sets_to_literals_are_resolved_in_bootstrap_arguments() {
    let script = "MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=\"//\"

--//
Content-Type: text/x-shellscript; charset=\"us-ascii\"
#!/bin/bash
set -ex
B64_CLUSTER_CA=QUJD
API_SERVER_URL=https://x
K8S_CLUSTER_DNS_IP=172.20.0.10
PODS=17 TEAM='a'
export ARGS=\"--node-labels=team=$TEAM --max-pods=$PODS\"
/etc/eks/bootstrap.sh prod --kubelet-extra-args \"$ARGS\" \\
  --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint $API_SERVER_URL --dns-cluster-ip ${K8S_CLUSTER_DNS_IP} --use-max-pods false
--//--
";
    let (output, manifests, messages) = import_group(script, json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    for line in [
        "    - 172.20.0.10\n",
        "    maxPods: 17\n",
        "        team: a\n",
    ] {
        assert!(manifests.contains(line), "{line}: {manifests}");
    }
    assert!(!manifests.contains("bootstrap.sh"), "{manifests}");
}

#[test]
fn bootstrap_arguments_that_are_computed_on_the_instance_are_refused() {
    for (script, argument) in [
        (
            "/etc/eks/bootstrap.sh prod --dns-cluster-ip $DNS",
            "--dns-cluster-ip $DNS",
        ),
        (
            "DNS=$(curl -s http://169.254.169.254)\n/etc/eks/bootstrap.sh prod --dns-cluster-ip \"$DNS\"",
            "--dns-cluster-ip $DNS",
        ),
        (
            "/etc/eks/bootstrap.sh prod --dns-cluster-ip $DNS\nDNS=10.0.0.10",
            "--dns-cluster-ip $DNS",
        ),
        (
            "/etc/eks/bootstrap.sh prod --max-pods `nproc`",
            "--max-pods `nproc`",
        ),
        (
            "/etc/eks/bootstrap.sh $CLUSTER --kubelet-extra-args \"--node-labels=zone=$ZONE\"",
            "--node-labels=zone=$ZONE",
        ),
        (
            "/etc/eks/bootstrap.sh prod --kubelet-extra-args \"$ARGS\"",
            "$ARGS",
        ),
        ("/etc/eks/bootstrap.sh prod $ARGS", "$ARGS"),
    ] {
        let (output, manifests, messages) =
            import_group(&format!("#!/bin/bash\n{script}\n"), json!({}), &[]);
        assert_eq!(output.status.code(), Some(1), "{script}: {messages}");
        assert_eq!(manifests, "", "{script}");
        let refusal = format!(
            "LaunchTemplateData.UserData is {argument}: its value is computed on the instance"
        );
        assert!(messages.contains(&refusal), "{script}: {messages}");
    }
}

#[test]
fn scripts_that_call_nodeadm_or_write_its_config_are_refused() {
    let document = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {flags: [\"--node-labels=a=b\"]}}\n";
    let written = format!("#!/bin/bash\ncat <<EOF > /etc/eks/nodeadm.d/10.yaml\n{document}EOF\n");
    let mime = |script: &str| {
        format!(
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==B==\"\n\n--==B==\nContent-Type: text/x-shellscript\n\n{script}\n--==B==--\n"
        )
    };
    let call = "the instance calls it at boot with the generated NodeConfig";
    let write = "a script writes it on the instance";
    for (user_data, value, remedy) in [
        (
            mime(&format!(
                "{written}nodeadm init --config-source file:///tmp/cfg.yaml"
            )),
            "nodeadm init",
            call,
        ),
        (
            "#!/bin/bash\nset -o xtrace\nnodeadm init -c file:///tmp/cfg.yaml\n".to_owned(),
            "nodeadm init",
            call,
        ),
        (
            "#cloud-config\nruncmd:\n- [/usr/bin/nodeadm, init]\n".to_owned(),
            "nodeadm init",
            call,
        ),
        (mime(&written), "kind: NodeConfig", write),
        (written.clone(), "kind: NodeConfig", write),
    ] {
        let (output, manifests, messages) = import_group(&user_data, json!({}), &[]);
        assert_eq!(output.status.code(), Some(1), "{user_data}: {messages}");
        assert_eq!(manifests, "", "{user_data}");
        let refusal = format!("UserData is {value}: {remedy}");
        assert!(messages.contains(&refusal), "{user_data}: {messages}");
    }
    let (output, manifests, messages) = import_group(
        "#!/bin/bash\n# nodeadm init runs after this.\nsysctl -w vm.max_map_count=262144\n",
        json!({}),
        &[],
    );
    assert!(output.status.success(), "{messages}");
    assert!(manifests.contains("vm.max_map_count"), "{manifests}");
}

#[test]
fn kubelet_flags_of_a_node_config_are_read_across_items() {
    let config = "
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    flags: [--node-labels, x=y, --max-pods=20 --register-with-taints a=b:NoSchedule --v=2, --fail-swap-on, --v 3]
";
    let (output, manifests, messages) = import_group(config, json!({}), &[]);
    assert!(output.status.success(), "{messages}");
    for part in [
        "        x: \"y\"\n",
        "    maxPods: 20\n",
        "        key: a\n        value: b\n",
    ] {
        assert!(manifests.contains(part), "{part}: {manifests}");
    }
    let flags =
        "        flags:\n        - \"--v=2\"\n        - \"--fail-swap-on\"\n        - \"--v 3\"\n";
    assert!(manifests.contains(flags), "{manifests}");
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

/// Output and messages for values of NTH's chart.
fn import_values(values: &str) -> (Output, String, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values).unwrap();
    let output = import(&["nth", "-f", file.path().to_str().unwrap()]);
    let (manifests, messages) = (text(&output.stdout), text(&output.stderr));
    (output, manifests, messages)
}

#[test]
fn variables_of_extra_env_override_options() {
    let (output, manifests, messages) = import_values(
        "cordonOnly: false
dryRun: true
extraEnv:
- {name: CORDON_ONLY, value: \"true\"}
- {name: DRY_RUN, value: \"\"}
- {name: ENABLE_REBALANCE_DRAINING, value: \"true\"}
- {name: WEBHOOK_URL, value: \"https://hooks.example.com/nth\"}
- {name: HTTPS_PROXY, value: \"http://proxy:3128\"}
- {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
",
    );
    assert!(output.status.success(), "{messages}");
    for line in [
        "\"cordonOnly\": true",
        "\"rebalance\": \"drain\"",
        "\"to\": \"https://hooks.example.com/nth\"",
    ] {
        assert!(manifests.contains(line), "{line}: {manifests}");
    }
    assert!(!manifests.contains("dryRun"), "{manifests}");
    for note in [
        "extraEnv.CORDON_ONLY: read as cordonOnly",
        "extraEnv.HTTPS_PROXY: not needed",
    ] {
        assert!(messages.contains(note), "{note}: {messages}");
    }
}

#[test]
fn variables_of_extra_env_that_cannot_be_read_are_refused() {
    for (values, refusal) in [
        (
            "extraEnv: [{name: CORDON_ONY, value: \"true\"}]",
            "extraEnv.CORDON_ONY is true: NTH reads no such variable (did you mean CORDON_ONLY?)",
        ),
        (
            "extraEnv: [{name: HOLD, value: \"1\"}]",
            "extraEnv.HOLD is 1: NTH reads no such variable: take it out",
        ),
        (
            "extraEnv: [{name: MANAGED_TAG, valueFrom: {configMapKeyRef: {name: a, key: b}}}]",
            "extraEnv.MANAGED_TAG is {\"configMapKeyRef\":{\"key\":\"b\",\"name\":\"a\"}}: its value is in another object",
        ),
        (
            "extraEnv: [{name: WEBHOOK_URL, valueFrom: {secretKeyRef: {name: hook, key: url}}}]",
            "webhookURLSecretName is hook: put the URL into a SecureString parameter",
        ),
        (
            "extraEnv: [{name: AWS_SECRET_ACCESS_KEY, value: wJalrXUtnFEMI}]",
            "awsSecretAccessKey is ***: keys are not taken over",
        ),
        (
            "extraEnv: {CORDON_ONLY: \"true\"}",
            "extraEnv is {\"CORDON_ONLY\":\"true\"}: expected a list of variables",
        ),
        (
            "checkTagBeforeDraining: true\nextraEnv: [{name: CHECK_TAG_BEFORE_DRAINING, value: \"false\"}]",
            "checkTagBeforeDraining is false: nodes of groups are opted in one by one",
        ),
    ] {
        let (output, manifests, messages) = import_values(values);
        assert_eq!(
            (output.status.code(), manifests.as_str()),
            (Some(1), ""),
            "{values}: {messages}"
        );
        assert!(
            messages.contains(refusal) && !messages.contains("wJalr"),
            "{values}: {messages}"
        );
    }
}

#[test]
fn files_that_are_no_values_of_the_chart_are_refused_as_a_whole() {
    for (values, refusal) in [
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: aws-node-termination-handler}\nspec: {}",
            "it is a Deployment, not values of NTH's chart: give what `helm get values",
        ),
        (
            "image: x\naws-node-termination-handler: {enableSqsTerminationDraining: true, managedTag: x}",
            "it has the values of NTH's chart below aws-node-termination-handler: give what is below",
        ),
    ] {
        let (output, manifests, messages) = import_values(values);
        assert_eq!(
            (output.status.success(), manifests.as_str()),
            (false, ""),
            "{messages}"
        );
        assert!(
            messages.contains(refusal) && !messages.contains("take it out"),
            "{messages}"
        );
    }
}

#[test]
fn option_with_a_value_that_no_setting_has_is_refused_by_its_name() {
    for (values, refusal) in [
        (
            "webhookURL: https://hooks.example.com/x\nwebhookTemplate: '{\"text\":\"x\"}'",
            "webhookTemplate is {\"text\":\"x\"}: expected at least one field, such as {{ .Description }}",
        ),
        (
            "webhookURL: http://hooks.example.com/x",
            "webhookURL is http://hooks.example.com/x: expected an HTTPS URL",
        ),
        (
            "taintEffect: Sometimes",
            "taintEffect is Sometimes: expected",
        ),
    ] {
        let (output, manifests, messages) = import_values(values);
        assert_eq!(
            (output.status.code(), manifests.as_str()),
            (Some(1), ""),
            "{messages}"
        );
        assert!(
            messages.contains(refusal) && !messages.contains("registry entry:"),
            "{messages}"
        );
    }
}
