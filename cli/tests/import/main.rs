//! `whittle import`, run on recorded output of the AWS CLI and compared with the golden files `<name>.out` (standard output and
//! standard error). `UPDATE_EXPECT=1` rewrites the golden files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod groups;
mod nth;
mod user_data;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use expect_test::expect_file;
use harness::{stderr_of, stdout_of, transcript};
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
        let shown = transcript(&output);
        expect_file![folder().join(format!("{name}.out"))].assert_eq(&shown);
        assert_eq!(output.status.code(), Some(code), "{name}");
    }
}

/// Output and messages for an Auto Scaling group with these fields, whose launch template has this user data.
fn import_group(
    user_data: impl AsRef<[u8]>,
    fields: Value,
    arguments: &[&str],
) -> (Output, String, String) {
    let data = json!({"UserData": STANDARD.encode(user_data)});
    import_group_with(data, fields, arguments)
}

/// Output and messages for an Auto Scaling group with these fields, whose launch template has these, too.
fn import_group_with(data: Value, fields: Value, arguments: &[&str]) -> (Output, String, String) {
    let with = |mut value: Value, fields: Value| {
        if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
            value.extend(fields);
            value.retain(|_, field| !field.is_null());
        }
        value
    };
    let group = json!({
        "AutoScalingGroupName": "web", "MinSize": 0, "DesiredCapacity": 4, "MaxSize": 5, "VPCZoneIdentifier": "subnet-1",
        "LaunchTemplate": {"LaunchTemplateName": "web", "Version": "1"},
    });
    let launched = json!({"ImageId": "ami-12345678", "SecurityGroupIds": ["sg-1"]});
    let template = json!({"LaunchTemplateVersions": [{
        "LaunchTemplateName": "web", "LaunchTemplateId": "lt-1", "VersionNumber": 1, "DefaultVersion": true,
        "LaunchTemplateData": with(launched, data),
    }]});
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: Value| {
        let file = folder.path().join(name);
        std::fs::write(&file, value.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let groups = write(
        "groups.json",
        json!({"AutoScalingGroups": [with(group, fields)]}),
    );
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
    let (manifests, messages) = (stdout_of(&output), stderr_of(&output));
    (output, manifests, messages)
}
