//! `whittle kops convert`, run on each `kops/<name>.yaml` and compared with the golden file `kops/<name>.out` (standard output and
//! standard error). `UPDATE_EXPECT=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use expect_test::expect_file;
use harness::{stderr_of, stdout_of, transcript};
use serde_json::json;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/kops")
        .join(name)
}

/// Runs the conversion in a temporary directory with `groups` as `groups.yaml`.
fn convert(groups: &str, files: &[(&str, &str)], arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files.iter().chain(&[("groups.yaml", groups)]) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    Command::new(env!("CARGO_BIN_EXE_whittle"))
        .args(["kops", "convert", "-f", "groups.yaml"])
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

const SCRIPT: (&str, &str) = ("nodeup.sh", "#!/bin/bash\nnodeup --v=2\n");

fn every_group(groups: &str) -> Vec<String> {
    let names = groups.lines().filter_map(|line| {
        let name = line.strip_prefix("metadata: {name: ")?.strip_suffix('}')?;
        Some(format!("--user-data={name}=nodeup.sh"))
    });
    names.collect()
}

#[test]
fn output_of_every_example_matches_its_golden_file() {
    for name in [
        "bare",
        "changed",
        "gates",
        "groups",
        "ignored",
        "refused",
        "wrong-cluster",
    ] {
        let groups = fs::read_to_string(page(&format!("{name}.yaml"))).unwrap();
        let before = fs::read_to_string(page(&format!("{name}.before.yaml"))).unwrap_or_default();
        let mut arguments = Vec::new();
        if name != "bare" {
            arguments.push("--root-device=/dev/sda1".to_owned());
            arguments.extend(every_group(&groups));
        }
        if !before.is_empty() {
            arguments.push("--previous=before.yaml".to_owned());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = convert(&groups, &[SCRIPT, ("before.yaml", &before)], &arguments);
        let shown = transcript(&output);
        expect_file![page(&format!("{name}.out"))].assert_eq(&shown);
        let refuses = shown.contains("is not converted");
        assert_eq!(output.status.code(), Some(i32::from(refuses)), "{name}");
    }
}

/// A kOps cluster with one InstanceGroup and these feature gates.
fn group(gates: &str, spec: &str) -> String {
    format!(
        "
apiVersion: kops.k8s.io/v1alpha2
kind: Cluster
metadata: {{name: k.example.com}}
spec:
  cloudProvider: aws
  iam: {{useServiceAccountExternalPermissions: true}}
  karpenter: {{enabled: true{gates}}}
  subnets: [{{name: a, type: Private}}]
---
apiVersion: kops.k8s.io/v1alpha2
kind: InstanceGroup
metadata: {{name: nodes}}
spec: {{manager: Karpenter, role: Node, image: ami-12345678, subnets: [a]{spec}}}
"
    )
}

const COMPLETE: [&str; 2] = ["--root-device=/dev/sda1", "--user-data=nodeup.sh"];

#[test]
fn static_groups_need_the_static_capacity_gate() {
    let cases = [
        ("", true),
        (", featureGates: \"\"", true),
        (
            ", featureGates: \"StaticCapacity=false,StaticCapacity=true\"",
            true,
        ),
        (
            ", featureGates: \"NodeRepair=false, StaticCapacity=TRUE\"",
            true,
        ),
        (", featureGates: \"NodeRepair=true\"", false),
        (", featureGates: \" \"", false),
        (
            ", featureGates: \"StaticCapacity=true,StaticCapacity=false\"",
            false,
        ),
        (", featureGates: \"staticcapacity=true\"", false),
    ];
    for (gates, is_allowed) in cases {
        let output = convert(&group(gates, ", minSize: 4"), &[SCRIPT], &COMPLETE);
        let stderr = stderr_of(&output);
        assert_eq!(output.status.success(), is_allowed, "{gates}: {stderr}");
        assert_eq!(
            stderr.contains("lack StaticCapacity=true"),
            !is_allowed,
            "{gates}: {stderr}"
        );
        let dynamic = convert(&group(gates, ""), &[SCRIPT], &COMPLETE);
        assert!(dynamic.status.success(), "{gates}: {}", stderr_of(&dynamic));
    }
}

#[test]
fn group_cannot_change_between_static_and_dynamic() {
    let pool = |spec: &str| {
        format!(
            "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: nodes}}\nspec: {{{spec}}}\n"
        )
    };
    let cases = [
        ("", ", minSize: 4", false),
        ("replicas: 4", "", false),
        ("replicas: 3", ", minSize: 4", true),
        ("", "", true),
    ];
    for (before, now, is_allowed) in cases {
        let before = pool(before);
        let arguments = [COMPLETE[0], COMPLETE[1], "--previous=before.yaml"];
        let output = convert(
            &group("", now),
            &[SCRIPT, ("before.yaml", &before)],
            &arguments,
        );
        let stderr = stderr_of(&output);
        assert_eq!(output.status.success(), is_allowed, "{stderr}");
        assert_eq!(
            stderr.contains("kubectl delete nodepool nodes"),
            !is_allowed,
            "{stderr}"
        );
    }
}

#[test]
fn user_data_is_taken_from_the_launch_template_of_the_group() {
    // The first user data is "#!/bin/bash\necho start\n", which does not run nodeup.
    let template = json!({"LaunchTemplateVersions": [
        {"LaunchTemplateName": "nodes.k.example.com", "VersionNumber": 2, "LaunchTemplateData": {"UserData": "IyEvYmluL2Jhc2gKZWNobyBzdGFydAo="}},
        {"LaunchTemplateName": "nodes.k.example.com", "VersionNumber": 1, "LaunchTemplateData": {"UserData": "b2xk"}},
        {"LaunchTemplateName": "other.k.example.com", "VersionNumber": 3, "LaunchTemplateData": {"UserData": "b2xk"}},
    ]});
    let arguments = [COMPLETE[0], "--launch-template=template.json"];
    let output = convert(
        &group("", ""),
        &[("template.json", &template.to_string())],
        &arguments,
    );
    let stderr = stderr_of(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(stdout_of(&output).contains("  userData: |\n    #!/bin/bash\n    echo start\n"));
    assert!(
        stderr.contains("neither names nodeup nor the taint karpenter.sh/unregistered:NoExecute"),
        "{stderr}"
    );
}

#[test]
fn missing_options_are_requested_by_name() {
    let output = convert(&group("", ""), &[], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout_of(&output), "");
    let stderr = stderr_of(&output);
    for remedy in ["give --root-device", "igconfig/node/nodes/nodeupscript.sh"] {
        assert!(stderr.contains(remedy), "{stderr}");
    }
    let two = format!(
        "{}---\n{}",
        group("", ""),
        group("", "").split_once("---\n").unwrap().1
    );
    let output = convert(&two, &[SCRIPT], &COMPLETE);
    let stderr = stderr_of(&output);
    assert!(
        stderr.contains("give --user-data <group>=nodeup.sh for each"),
        "{stderr}"
    );
}

#[test]
fn file_without_a_cluster_is_rejected() {
    let output = convert(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        &[],
        &[],
    );
    let stderr = stderr_of(&output);
    assert!(!output.status.success());
    assert!(
        stderr.contains("expected one kOps Cluster, found 0: give what `kops get cluster,ig"),
        "{stderr}"
    );
}

#[test]
fn instance_requirements_replace_instance_types() {
    let policy = ", machineType: m5.large, mixedInstancesPolicy: {instances: [m6i.large], instanceRequirements: {cpu: {min: \"4\"}}}";
    let output = convert(&group("", policy), &[SCRIPT], &COMPLETE);
    let (manifests, messages) = (stdout_of(&output), stderr_of(&output));
    assert!(output.status.success(), "{messages}");
    assert!(
        manifests.contains("karpenter.k8s.aws/instance-cpu")
            && !manifests.contains("m5.large")
            && !manifests.contains("m6i.large"),
        "{manifests}"
    );
    assert!(
        messages.contains("spec.machineType and spec.mixedInstancesPolicy.instances (m5.large, m6i.large) are left out, as in kOps"),
        "{messages}"
    );
    let output = convert(&group("", ", machineType: m5.large"), &[SCRIPT], &COMPLETE);
    assert!(stdout_of(&output).contains("        - m5.large\n"));
}

#[test]
fn root_device_is_asked_for_with_the_image_of_the_group() {
    for (image, options) in [
        ("ami-12345678", "--image-ids ami-12345678 --query"),
        (
            "ubuntu/images/hvm ssd/noble-*",
            "--owners 099720109477 --filters 'Name=name,Values=images/hvm ssd/noble-*' --query",
        ),
        (
            "my-image",
            "--owners self --filters 'Name=name,Values=my-image' --query",
        ),
        (
            "ssm:/aws/service/x",
            "--image-ids $(aws ssm get-parameter --name /aws/service/x --query Parameter.Value --output text) --query",
        ),
    ] {
        let groups = group("", "").replace("ami-12345678", &format!("\"{image}\""));
        let output = convert(&groups, &[SCRIPT], &COMPLETE[1..]);
        let messages = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{messages}");
        let command =
            format!("`aws ec2 describe-images {options} 'Images[].RootDeviceName' --output text`");
        assert!(messages.contains(&command), "{image}: {messages}");
    }
}

#[test]
fn fields_that_kops_drops_depending_on_others_are_reported() {
    for (spec, warnings) in [
        (
            ", maxPrice: \"0.10\"",
            ["spec.maxPrice \"0.10\" makes nodes spot, as in kOps, and bounds no price"].as_slice(),
        ),
        (
            ", spotDurationInMinutes: 60",
            &["spec.spotDurationInMinutes 60 makes nodes spot, as in kOps, and bounds no duration"],
        ),
        (
            ", mixedInstancesPolicy: {onDemandAboveBase: 30}",
            &["spec.mixedInstancesPolicy.onDemandAboveBase 30 is no share of on-demand nodes"],
        ),
        (
            ", rootVolumeEncryption: false, rootVolumeEncryptionKey: key",
            &["spec.rootVolumeEncryptionKey has no effect, as in kOps: a key is used only where"],
        ),
        (
            ", rootVolume: {encryptionKey: key}",
            &["spec.rootVolume.encryptionKey has no effect"],
        ),
        (
            ", rootVolumeType: gp2, rootVolumeIops: 4000, rootVolumeThroughput: 200",
            &[
                "spec.rootVolumeIops has no effect, as in kOps: volumes of type gp2",
                "spec.rootVolumeThroughput has no effect, as in kOps: volumes of type gp2",
            ],
        ),
        (
            ", associatePublicIp: true",
            &["spec.associatePublicIp true has no effect, as in kOps: subnet a is of type Private"],
        ),
        (
            ", associatePublicIp: false, rootVolumeType: io2, rootVolumeIops: 5000, rootVolumeEncryption: true, \
             rootVolumeEncryptionKey: key, mixedInstancesPolicy: {onDemandAboveBase: 100}",
            &[],
        ),
    ] {
        let output = convert(&group("", spec), &[SCRIPT], &COMPLETE);
        let messages = stderr_of(&output);
        assert!(output.status.success(), "{spec}: {messages}");
        for warning in warnings {
            assert!(
                messages.contains(&format!("warning: {warning}")),
                "{spec}: {messages}"
            );
        }
        assert_eq!(
            messages.contains("as in kOps"),
            !warnings.is_empty(),
            "{spec}: {messages}"
        );
    }
}

#[test]
fn kubelet_settings_of_the_cluster_that_planning_lacks_are_reported() {
    let with = |spec: &str| {
        group("", spec).replace(
            "  cloudProvider: aws\n",
            "  cloudProvider: aws\n  kubelet: {maxPods: 40, kubeReserved: {cpu: 100m}, cpuCFSQuota: false}\n",
        )
    };
    let output = convert(&with(", kubelet: {maxPods: 30}"), &[SCRIPT], &COMPLETE);
    let stderr = stderr_of(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("spec.kubelet.kubeReserved {\"cpu\":\"100m\"} of the Cluster reaches nodes by nodeup alone"),
        "{stderr}"
    );
    assert!(
        !stderr.contains("spec.kubelet.maxPods 40") && !stderr.contains("cpuCFSQuota"),
        "{stderr}"
    );
}

#[test]
fn taint_without_an_effect_is_refused_with_its_remedy() {
    let output = convert(&group("", ", taints: [spot]"), &[SCRIPT], &COMPLETE);
    let stderr = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("spec.taints.0 is spot: Karpenter's taints have an effect: write it, such as spot:NoSchedule"),
        "{stderr}"
    );
}
