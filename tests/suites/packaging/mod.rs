//! Scripts around `sam deploy`: the settings that `make package` writes, the parameters of a lane, and the checks of a first
//! deployment. A script replaces the AWS CLI.
#![expect(clippy::indexing_slicing, reason = "a missing value fails the test")]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};
use tempfile::TempDir;

const ARN: &str = "arn:aws:cloudformation:us-east-1:123456789012:stack/whittle/1";

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../infra/tools/{name}"))
}

/// A directory with a program `aws` that answers by service and operation and records its invocations.
struct Aws(TempDir);

impl Aws {
    fn answering(answers: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("answers.json"), answers.to_string()).unwrap();
        let program = folder.path().join("aws");
        let text = r#"#!/usr/bin/env python3
import json, pathlib, sys
folder = pathlib.Path(__file__).parent
with open(folder / "asked", "a") as asked:
    print(" ".join(sys.argv[1:]), file=asked)
answers = json.loads((folder / "answers.json").read_text())
answer = answers.get(" ".join(sys.argv[1:3]), {})
for part, other in answer.get("when", {}).items():
    if part in " ".join(sys.argv):
        answer = other
print(json.dumps(answer))
"#;
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Output {
        let program = Command::new(script(name))
            .args(arguments)
            .env("AWS_CLI", self.0.path().join("aws"))
            .output();
        program.unwrap()
    }

    fn asked(&self) -> String {
        fs::read_to_string(self.0.path().join("asked")).unwrap_or_default()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn sam_config_gets_the_built_architecture_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("samconfig.toml");
    let write = |architecture: &str| {
        let mut command = Command::new(script("sam-config"));
        let done = command.arg(architecture).arg(&file).output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        fs::read_to_string(&file).unwrap()
    };
    let fresh = write("x86_64");
    for line in [
        r#"stack_name = "whittle""#,
        r#"capabilities = "CAPABILITY_IAM CAPABILITY_AUTO_EXPAND""#,
        "resolve_s3 = true",
        r#"parameter_overrides = "Architecture=\"x86_64\"""#,
    ] {
        assert!(fresh.contains(line), "{line} in {fresh}");
    }
    let own = fresh
        .replace(r#""whittle""#, r#""nodes" # ours"#)
        .replace(r#"\"x86_64\""#, r#"\"x86_64\" LogLevel=\"WARN\""#);
    fs::write(&file, &own).unwrap();
    assert_eq!(write("arm64"), own.replace("x86_64", "arm64"));
    let refused = Command::new(script("sam-config")).arg("riscv64").output();
    assert!(!refused.unwrap().status.success());
}

#[test]
fn sam_config_for_local_invocations_names_the_template_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("samconfig.toml");
    fs::write(
        &file,
        "version = 0.1\n[default.deploy.parameters]\nstack_name = \"nodes\"\n",
    )
    .unwrap();
    let mut command = Command::new(script("sam-config"));
    command
        .args(["--local", "arm64", "/built/template.yaml"])
        .arg(&file);
    assert!(command.status().unwrap().success());
    let written = fs::read_to_string(&file).unwrap();
    for line in [
        r#"stack_name = "nodes""#,
        "[default.local_invoke.parameters]",
        r#"template_file = "/built/template.yaml""#,
        r#"docker_network = "host""#,
        r#"parameter_overrides = "Architecture=\"arm64\"""#,
    ] {
        assert!(written.contains(line), "{line} in {written}");
    }
}

#[test]
fn lane_parameters_are_merged_from_outputs_settings_and_arguments() {
    let stack = harness::template("sam-template.yaml");
    let lane = harness::template("infra/vpc-lane.yaml");
    let names = stack["Outputs"].as_object().unwrap().keys();
    let outputs: Vec<Value> = names
        .map(|name| json!({"OutputKey": name, "OutputValue": format!("the-{name}")}))
        .collect();
    let described = json!({
        "Outputs": outputs,
        "Parameters": [
            {"ParameterKey": "Architecture", "ParameterValue": "x86_64"},
            {"ParameterKey": "AlarmTopicArn", "ParameterValue": ""},
            {"ParameterKey": "SubnetIds", "ParameterValue": "subnet-of-the-stack"},
        ],
    });
    let aws = Aws::answering(&json!({"cloudformation describe-stacks": described}));
    let given = [
        "whittle",
        "VpcId=vpc-1",
        "SubnetIds=subnet-1,subnet-2",
        "SecurityGroupIds=sg-1",
    ];
    let printed = aws.run("lane-parameters", &given);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let printed = text(&printed.stdout);
    let printed: BTreeSet<&str> = printed.lines().collect();
    for word in [
        "StackName=whittle",
        "SubnetIds=subnet-1,subnet-2",
        "Architecture=x86_64",
        "Table=the-Table",
        "ClusterRoleArn=the-ClusterRoleArn",
    ] {
        assert!(printed.contains(word), "{word} in {printed:?}");
    }
    let set: BTreeSet<&str> = printed
        .iter()
        .map(|word| word.split('=').next().unwrap())
        .collect();
    for (name, parameter) in lane["Parameters"].as_object().unwrap() {
        assert!(
            parameter.get("Default").is_some() || set.contains(name.as_str()),
            "{name}"
        );
    }
    let known = |name: &&str| lane["Parameters"].get(*name).is_some();
    assert!(set.iter().all(known), "{set:?}");

    let missing = aws.run("lane-parameters", &["whittle", "VpcId=vpc-1"]);
    assert_eq!(missing.status.code(), Some(2));
    let output = text(&missing.stderr);
    assert!(
        output.contains("SubnetIds, SecurityGroupIds must be given"),
        "{output}"
    );
}

/// Answers of an account in which the stack works.
fn healthy() -> Value {
    let template = harness::template("sam-template.yaml");
    let resources: Vec<Value> = template["Resources"].as_object().unwrap().iter()
        .map(|(name, of)| json!({"LogicalResourceId": name, "PhysicalResourceId": format!("whittle-{name}-1"), "ResourceType": of["Type"]}))
        .collect();
    let names = template["Outputs"].as_object().unwrap().keys();
    let outputs: Vec<Value> = names
        .map(|name| json!({"OutputKey": name, "OutputValue": format!("the-{name}")}))
        .collect();
    let alarms: Vec<Value> = resources
        .iter()
        .filter(|resource| resource["ResourceType"] == "AWS::CloudWatch::Alarm")
        .map(|resource| json!({"AlarmName": resource["PhysicalResourceId"], "StateValue": "OK"}))
        .collect();
    let rule = "arn:aws:events:us-east-1:123456789012:rule/r";
    let policy = json!({"Statement": [{"Effect": "Allow", "Condition": {"ArnEquals": {"aws:SourceArn": [rule]}}}]});
    let decided = |decision: &str| json!({"EvaluationResults": [{"EvalDecision": decision}]});
    // Calls that the policy simulator denies, by a substring that only they contain.
    let denied: serde_json::Map<String, Value> = [
        "the-ProvisionerRoleArn --action-names ec2:RunInstances",
        "iam:CreateInstanceProfile",
        "the-DisruptionRoleArn --action-names ec2:TerminateInstances",
        "whittle-provision --output",
        "the-InterruptionRoleArn --action-names sts:AssumeRole",
        "the-HousekeeperRoleArn --action-names sqs:SendMessage",
        "whittle-interrupt --context-entries",
        "ContextKeyValues=other",
    ]
    .into_iter()
    .map(|part| (part.to_owned(), decided("implicitDeny")))
    .collect();
    let mut simulated = decided("allowed");
    simulated["when"] = Value::Object(denied);
    json!({
        "cloudformation describe-stacks": {"Stacks": [{"StackId": ARN, "StackStatus": "CREATE_COMPLETE", "Outputs": outputs}]},
        "cloudformation list-stack-resources": {"StackResourceSummaries": resources},
        "lambda invoke": {"StatusCode": 200},
        "events describe-rule": {"State": "ENABLED", "Arn": rule, "EventPattern": "{}"},
        "events test-event-pattern": {"Result": true},
        "events list-targets-by-rule": {"Targets": [{}]},
        "sqs get-queue-attributes": {"Attributes": {"Policy": policy.to_string()}},
        "cloudwatch describe-alarms": {"MetricAlarms": alarms},
        "iam simulate-principal-policy": simulated,
        "ec2 run-instances": {"Instances": [{"InstanceId": "i-smoke"}]},
        "logs filter-log-events": {"events": [{}]},
    })
}

#[test]
fn smoke_test_passes_in_a_healthy_account_and_terminates_its_instance() {
    let aws = Aws::answering(&healthy());
    let done = aws.run("smoke", &["whittle"]);
    let output = text(&done.stdout);
    assert!(done.status.success(), "{output}{}", text(&done.stderr));
    assert!(
        output.lines().count() > 30 && !output.contains("fail"),
        "{output}"
    );
    let asked = aws.asked();
    assert!(
        asked.contains("ec2 terminate-instances --instance-ids i-smoke"),
        "{asked}"
    );
    // The instance has no tag by which a cluster would adopt it.
    assert!(
        !asked.contains("run-instances --cluster") && !asked.contains("karpenter.sh"),
        "{asked}"
    );
}

#[test]
fn smoke_test_reports_each_failure_and_continues() {
    let mut answers = healthy();
    answers["cloudwatch describe-alarms"]["MetricAlarms"][0]["StateValue"] = json!("ALARM");
    answers["events test-event-pattern"]["Result"] = json!(false);
    answers["iam simulate-principal-policy"]["EvaluationResults"][0]["EvalDecision"] =
        json!("implicitDeny");
    let aws = Aws::answering(&answers);
    let done = aws.run("smoke", &["whittle"]);
    assert_eq!(done.status.code(), Some(1));
    let output = text(&done.stdout);
    for line in [
        "pass the stack is deployed",
        "fail rule SpotInterruptionRule",
        "fail no alarm is on",
        "fail role Cluster may ec2:CreateFleet",
        "pass role Cluster may not ec2:TerminateInstances",
        "pass an interruption comes through the bus",
    ] {
        assert!(
            output.lines().any(|output| output.starts_with(line)),
            "{line} in {output}"
        );
    }
}

#[test]
fn smoke_dry_run_makes_no_call_and_lists_every_rule_of_the_template() {
    let aws = Aws::answering(&json!({}));
    let done = aws.run("smoke", &["whittle", "--dry-run"]);
    let output = text(&done.stdout);
    assert!(done.status.success(), "{output}{}", text(&done.stderr));
    assert_eq!(aws.asked(), "");
    let template = harness::template("sam-template.yaml");
    for (name, resource) in template["Resources"].as_object().unwrap() {
        if resource["Type"] == "AWS::Events::Rule" {
            assert!(output.contains(&format!("plan rule {name}")), "{name}");
        }
    }
    assert!(output.contains("UndeliveredEventsAlarm"), "{output}");
}
