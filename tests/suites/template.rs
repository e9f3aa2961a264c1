//! Guarantees of the templates, resource by resource; `permissions.rs` tests their roles' permissions.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use std::{collections::BTreeSet, fs, path::Path};

use harness::{Ministack, template, translated};
use serde_json::{Value, json};

mod packaging;

const STACK: &str = "sam-template.yaml";
const LANE: &str = "infra/vpc-lane.yaml";

/// Resources of a type, with their logical names.
fn of_type<'t>(template: &'t Value, kind: &str) -> Vec<(&'t str, &'t Value)> {
    let resources = template["Resources"].as_object().unwrap().iter();
    let found: Vec<_> = resources
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str(), &resource["Properties"]))
        .collect();
    assert!(!found.is_empty(), "no {kind}");
    found
}

fn of_any_type(template: &Value, kind: &str) -> usize {
    let resources = template["Resources"].as_object().unwrap().values();
    resources
        .filter(|resource| resource["Type"] == kind)
        .count()
}

#[test]
fn tables_are_encrypted_recoverable_and_deletion_protected_by_parameter() {
    let template = template(STACK);
    let table = &template["Resources"]["Ledger"]["Properties"];
    assert_eq!(table["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(table["SSESpecification"]["SSEEnabled"], true);
    let recovery = &table["PointInTimeRecoverySpecification"];
    assert_eq!(recovery["PointInTimeRecoveryEnabled"], true);
    let protected = json!({"Fn::If": ["ProtectFromDeletion", true, false]});
    assert_eq!(table["DeletionProtectionEnabled"], protected);
    assert_eq!(
        template["Parameters"]["DeletionProtection"]["Default"],
        "true"
    );

    let bucket = &template["Resources"]["Bucket"]["Properties"];
    let rule = &bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    assert_eq!(
        rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"],
        "AES256"
    );
    let blocked = bucket["PublicAccessBlockConfiguration"]
        .as_object()
        .unwrap();
    assert!(blocked.len() == 4 && blocked.values().all(|value| *value == true));
}

#[test]
fn queues_are_encrypted_and_keep_dead_letters_for_two_weeks() {
    for path in [STACK, LANE] {
        let template = template(path);
        let mut dead_letters = BTreeSet::new();
        for (name, queue) in of_type(&template, "AWS::SQS::Queue") {
            assert_eq!(queue["SqsManagedSseEnabled"], true, "{path}: {name}");
            if name.ends_with("DeadLetters") {
                assert_eq!(queue["MessageRetentionPeriod"], 14 * 24 * 3600, "{name}");
            } else {
                let target = &queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"];
                let target = target.as_array().map_or_else(
                    || target.as_str().unwrap().to_owned(),
                    |parts| parts[0].as_str().unwrap().to_owned(),
                );
                dead_letters.insert(target.trim_end_matches(".Arn").to_owned());
            }
        }
        assert_eq!(dead_letters.len(), 5, "{path}: one each");
    }
}

#[test]
fn functions_are_invoked_through_their_alias_with_bounded_concurrency() {
    for path in [STACK, LANE] {
        let template = template(path);
        let globals = &template["Globals"]["Function"];
        assert_eq!(globals["RecursiveLoop"], "Allow");
        assert_eq!(globals["Architectures"], json!([{"Ref": "Architecture"}]));
        for (name, function) in of_type(&template, "AWS::Serverless::Function") {
            let Some(events) = function["Events"].as_object() else {
                panic!("{name} is never invoked")
            };
            for event in events.values().filter(|event| event["Type"] == "SQS") {
                let mapping = &event["Properties"];
                assert_eq!(mapping["ScalingConfig"]["MaximumConcurrency"], 10, "{name}");
                let answers = json!(["ReportBatchItemFailures"]);
                assert_eq!(mapping["FunctionResponseTypes"], answers, "{name}");
                let queue = mapping["Queue"]["Fn::GetAtt"].clone();
                let queue = queue.as_array().map_or_else(
                    || queue.as_str().unwrap().trim_end_matches(".Arn").to_owned(),
                    |parts| parts[0].as_str().unwrap().to_owned(),
                );
                let timeout = function["Timeout"].as_u64();
                let timeout = timeout.or(globals["Timeout"].as_u64()).unwrap();
                let visibility = &template["Resources"][&queue]["Properties"]["VisibilityTimeout"];
                assert_eq!(*visibility, timeout + 30, "{queue} of {name}");
            }
            assert!(function.get("ReservedConcurrentExecutions").is_none());
        }
        let made = translated(path, &json!({}));
        for (name, mapping) in of_type(&made, "AWS::Lambda::EventSourceMapping") {
            let called = mapping["FunctionName"]["Ref"].as_str().unwrap();
            assert!(
                called.ends_with("Aliaslive"),
                "{path}: {name} calls {called}"
            );
        }
    }
}

#[test]
fn every_function_has_a_log_group_whose_retention_is_a_parameter() {
    for path in [STACK, LANE] {
        let template = template(path);
        let groups = of_type(&template, "AWS::Logs::LogGroup");
        for (name, group) in &groups {
            let retention = json!({"Ref": "LogRetentionDays"});
            assert_eq!(group["RetentionInDays"], retention, "{path}: {name}");
        }
        for (name, function) in of_type(&template, "AWS::Serverless::Function") {
            let own = function["LoggingConfig"]["LogGroup"]["Ref"].as_str();
            assert!(
                groups.iter().any(|(group, _)| Some(*group) == own),
                "{name}"
            );
        }
    }
}

#[test]
fn every_function_and_dead_letter_queue_has_an_alarm_with_instructions() {
    for path in [STACK, LANE] {
        let template = template(path);
        let alarms = of_type(&template, "AWS::CloudWatch::Alarm");
        for (name, alarm) in &alarms {
            let notified = json!({"Fn::If": ["NotifyAlarms", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]});
            assert_eq!(alarm["AlarmActions"], notified, "{path}: {name}");
            assert!(
                alarm["AlarmDescription"].as_str().unwrap().len() > 40,
                "{name}"
            );
        }
        let watched = |what: &str| {
            let mut texts = alarms
                .iter()
                .map(|(_, alarm)| alarm["Dimensions"].to_string());
            texts.any(|text| text.contains(what))
        };
        for (name, _) in of_type(&template, "AWS::SQS::Queue") {
            assert!(
                !name.ends_with("DeadLetters") || watched(name),
                "{path}: {name}"
            );
        }
        for (name, _) in of_type(&template, "AWS::Serverless::Function") {
            let function = name.trim_end_matches("Function").to_lowercase();
            assert!(watched(&format!("-{function}\"")), "{path}: {name}");
        }
    }
}

#[test]
fn undeliverable_events_raise_an_alarm() {
    for path in [STACK, LANE] {
        let template = template(path);
        let alarms = of_type(&template, "AWS::CloudWatch::Alarm").into_iter();
        let failed = alarms.filter(|(_, alarm)| {
            alarm["Namespace"] == "AWS/Events" && alarm["MetricName"] == "FailedInvocations"
        });
        let rules: BTreeSet<String> = failed
            .map(|(_, alarm)| alarm["Dimensions"][0]["Value"]["Ref"].to_string())
            .collect();
        let rules: Vec<&str> = rules.iter().map(|rule| rule.trim_matches('"')).collect();
        assert_eq!(rules, ["SpotInterruptionRule", "StateChangeRule"], "{path}");
    }
}

/// Whether an alarm watches a metric of the whole stack, whichever function publishes it.
fn is_of_stack(name: &str, alarm: &Value) -> bool {
    let dimensions = alarm
        .pointer("/Properties/Dimensions")
        .map(Value::to_string);
    dimensions.is_some_and(|text| text.contains(r#""stack""#)) || name.starts_with("Ledger")
}

#[test]
fn alarms_exist_once_per_stack_and_use_published_metrics() {
    let template = template(STACK);
    let alarms = of_type(&template, "AWS::CloudWatch::Alarm");
    let counted = |name: &&str| {
        let named = json!(name);
        let mut alarms = alarms.iter();
        alarms.any(|(_, alarm)| {
            alarm["Namespace"] == "Whittle"
                && alarm["MetricName"] == named
                && alarm["Dimensions"]
                    == json!([{"Name": "stack", "Value": {"Ref": "AWS::StackName"}}])
        })
    };
    let written = include_str!("../../shared/turns/src/report/metrics/troubles.rs");
    let names = written
        .split('"')
        .filter(|text| text.starts_with("whittle_"));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 5, "{names:?}");
    let unwatched: Vec<_> = names.iter().filter(|name| !counted(name)).collect();
    assert_eq!(unwatched, Vec::<&&str>::new());
    for (name, alarm) in &alarms {
        assert!(!alarm.to_string().contains(r#""cluster""#), "{name}");
    }
    let spend = &template["Resources"]["SpendAlarm"];
    assert_eq!(spend["Condition"], "WatchesSpend");
    assert!(counted(&"whittle_dollars_per_hour"));
    let threshold = json!({"Ref": "SpendAlarmDollarsPerHour"});
    assert_eq!(spend["Properties"]["Threshold"], threshold);
    let parameter = &template["Parameters"]["SpendAlarmDollarsPerHour"];
    assert_eq!(parameter["Default"], "", "off unless asked for");
    let watches = |name: &str, what: &str| {
        let alarm = template["Resources"][name]["Properties"].to_string();
        assert!(alarm.contains(what), "{name}: {what}");
    };
    for lane in ["Provision", "Lifecycle", "Disrupt", "Terminate"] {
        watches(&format!("{lane}WakeOldAlarm"), &format!("{lane}Queue"));
    }
    for kind in ["Read", "Write"] {
        let metric = format!("{kind}ThrottleEvents");
        watches(&format!("Ledger{kind}sThrottledAlarm"), &metric);
    }
}

/// Resource types of the templates that CloudFormation tags.
const TAGGED: [&str; 6] = [
    "AWS::DynamoDB::Table",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
    "AWS::IAM::Role",
    "AWS::Logs::LogGroup",
    "AWS::CloudWatch::Alarm",
];

#[test]
fn billed_resources_are_tagged_with_their_stack() {
    for path in [STACK, LANE] {
        let template = template(path);
        let stack = match path {
            STACK => json!({"Ref": "AWS::StackName"}),
            _ => json!({"Ref": "StackName"}),
        };
        for (name, resource) in template["Resources"].as_object().unwrap() {
            if TAGGED.contains(&resource["Type"].as_str().unwrap()) {
                let tags = json!([{"Key": "whittle.sh/stack", "Value": stack}]);
                assert_eq!(resource["Properties"]["Tags"], tags, "{path}: {name}");
            }
        }
        let tags = json!({"whittle.sh/stack": stack});
        assert_eq!(template["Globals"]["Function"]["Tags"], tags);
    }
}

#[test]
fn every_role_has_the_permissions_boundary_and_path() {
    let template = template(STACK);
    for (name, role) in of_type(&template, "AWS::IAM::Role") {
        let boundary = json!({"Fn::If": ["Bounded", {"Ref": "PermissionsBoundaryArn"}, {"Ref": "AWS::NoValue"}]});
        assert_eq!(role["PermissionsBoundary"], boundary, "{name}");
        assert_eq!(role["Path"], json!({"Ref": "RolePath"}), "{name}");
    }
    for (name, policy) in of_type(&template, "AWS::IAM::ManagedPolicy") {
        assert_eq!(policy["Path"], json!({"Ref": "RolePath"}), "{name}");
    }
    // SAM creates roles for functions without one; these would have neither boundary nor path.
    for path in [STACK, LANE] {
        let written = of_any_type(&harness::template(path), "AWS::IAM::Role");
        let made = translated(path, &json!({"Canary": "true"}));
        assert_eq!(of_any_type(&made, "AWS::IAM::Role"), written, "{path}");
    }
}

#[test]
fn canary_is_optional_and_rolled_back_by_its_alarms() {
    for path in [STACK, LANE] {
        let without = translated(path, &json!({}));
        assert_eq!(of_any_type(&without, "AWS::CodeDeploy::DeploymentGroup"), 0);
        let with = translated(path, &json!({"Canary": "true"}));
        for (name, group) in of_type(&with, "AWS::CodeDeploy::DeploymentGroup") {
            let rollback = &group["AutoRollbackConfiguration"];
            assert_eq!(rollback["Enabled"], true, "{name}");
            let events = rollback["Events"].as_array().unwrap();
            assert!(
                events.contains(&json!("DEPLOYMENT_STOP_ON_ALARM")),
                "{name}"
            );
            let watched = &group["AlarmConfiguration"];
            assert_eq!(watched["Enabled"], true, "{name}");
            let function = name.trim_end_matches("FunctionDeploymentGroup");
            let own = json!({"Name": {"Ref": format!("{function}ErrorsAlarm")}});
            assert!(
                watched["Alarms"].as_array().unwrap().contains(&own),
                "{name}"
            );
            let shift = group["DeploymentConfigName"].to_string();
            assert!(shift.contains("Canary10Percent10Minutes"), "{shift}");
        }
        for (name, _) in of_type(&with, "AWS::Lambda::Alias") {
            let policy = &with["Resources"][name]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"];
            assert!(policy.is_object(), "{path}: {name} jumps");
        }
    }
}

#[test]
fn deleting_the_stack_deletes_old_versions_and_logs() {
    for path in [STACK, LANE] {
        let made = translated(path, &json!({}));
        for (name, resource) in made["Resources"].as_object().unwrap() {
            let kept = resource
                .get("DeletionPolicy")
                .unwrap_or(&json!("Delete"))
                .clone();
            assert_eq!(kept, "Delete", "{path}: {name} stays");
        }
    }
}

#[test]
fn vpc_functions_equal_those_of_the_stack() {
    let (stack, lane) = (template(STACK), template(LANE));
    // Intended differences are made equal; everything else must be equal.
    let normal = |value: &Value| {
        let text = value.to_string();
        let text = text
            .replace("${StackName}-${VpcId}", "${AWS::StackName}")
            .replace(r#"{"Ref":"StackName"}"#, r#"{"Ref":"AWS::StackName"}"#)
            .replace("../functions/", "functions/");
        let text = text.replace(r#""DependsOn":"AttachToVpcPolicy","#, "");
        let text = LANE_PARAMETERS
            .iter()
            .fold(text, |text, (parameter, of_stack)| {
                let taken = json!({"Ref": parameter}).to_string();
                text.replace(&taken, &of_stack.replace('\'', "\""))
            });
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let taken_over = [
        "AWS::Serverless::Function",
        "AWS::SQS::Queue",
        "AWS::Events::Rule",
        "AWS::Logs::LogGroup",
        "AWS::CloudWatch::Alarm",
    ];
    for (name, one) in stack["Resources"].as_object().unwrap() {
        if taken_over.contains(&one["Type"].as_str().unwrap()) && !is_of_stack(name, one) {
            assert_eq!(normal(one), normal(&lane["Resources"][name]), "{name}");
        }
    }
    let mut outside = normal(&stack["Globals"]["Function"]);
    let mut inside = normal(&lane["Globals"]["Function"]);
    for globals in [&mut outside, &mut inside] {
        let globals = globals.as_object_mut().unwrap();
        assert!(globals.remove("VpcConfig").is_some());
        let variables = &mut globals["Environment"]["Variables"];
        assert!(
            variables
                .as_object_mut()
                .unwrap()
                .remove("WHITTLE_REACH")
                .is_some()
        );
    }
    assert_eq!(outside, inside);
}

#[test]
fn nested_stack_gets_every_parameter() {
    let (stack, lane) = (template(STACK), template(LANE));
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let nested = &stack["Resources"]["VpcLane"]["Properties"];
    assert_eq!(nested["Location"], LANE);
    assert_eq!(names(&nested["Parameters"]), names(&lane["Parameters"]));
    // A lane that is deployed separately finds its parameters among the outputs.
    for name in names(&lane["Parameters"]) {
        let is_made = ["Table", "Bucket"].contains(&name.as_str()) || name.ends_with("RoleArn");
        assert!(!is_made || stack["Outputs"].get(&name).is_some(), "{name}");
    }
}

/// Parameters of the lane with the stack's values, with apostrophes instead of quotation marks.
const LANE_PARAMETERS: [(&str, &str); 11] = [
    ("Table", "{'Ref':'Ledger'}"),
    ("ClusterRoleArn", "{'Fn::GetAtt':['ClusterRole','Arn']}"),
    (
        "ProvisionerRoleArn",
        "{'Fn::GetAtt':['ProvisionerRole','Arn']}",
    ),
    ("LifecycleRoleArn", "{'Fn::GetAtt':['LifecycleRole','Arn']}"),
    (
        "DisruptionRoleArn",
        "{'Fn::GetAtt':['DisruptionRole','Arn']}",
    ),
    (
        "TerminatorRoleArn",
        "{'Fn::GetAtt':['TerminatorRole','Arn']}",
    ),
    (
        "InterruptionRoleArn",
        "{'Fn::GetAtt':['InterruptionRole','Arn']}",
    ),
    (
        "HousekeeperRoleArn",
        "{'Fn::GetAtt':['HousekeeperRole','Arn']}",
    ),
    ("SweepRoleArn", "{'Fn::GetAtt':['SweepRole','Arn']}"),
    (
        "CodeDeployRoleArn",
        "{'Fn::GetAtt':['CodeDeployRole','Arn']}",
    ),
    ("Bucket", "{'Ref':'Bucket'}"),
];

#[test]
fn dashboard_uses_published_metrics() {
    let template = template(STACK);
    let body = &template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"];
    let dashboard: Value = serde_json::from_str(body.as_str().unwrap()).unwrap();
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/events-and-metrics.md");
    let documented = fs::read_to_string(documented).unwrap();
    let text = dashboard.to_string();
    let own: Vec<&str> = text
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.starts_with("karpenter_"))
        .collect();
    assert!(own.len() >= 4, "{own:?}");
    for metric in own {
        assert!(documented.contains(&format!("`{metric}`")), "{metric}");
    }
    for widget in dashboard["widgets"].as_array().unwrap() {
        assert_eq!(widget["properties"]["region"], "${AWS::Region}");
    }
}

/// Parameters by name.
type Parameters = &'static [(&'static str, &'static str)];

/// Invalid parameters, and CloudFormation's message.
const REFUSED: [(&str, Parameters, &str); 8] = [
    (
        "an architecture that Lambda does not have",
        &[("Architecture", "riscv64")],
        "Architecture",
    ),
    (
        "a retention that CloudWatch does not have",
        &[("LogRetentionDays", "8")],
        "LogRetentionDays",
    ),
    (
        "a path that ends with a slash",
        &[("RegistryPrefix", "/whittle/clusters/")],
        "RegistryPrefix",
    ),
    (
        "an IAM path without slashes",
        &[("RolePath", "teams")],
        "RolePath",
    ),
    (
        "spaces between subnets",
        &[("SubnetIds", "subnet-1, subnet-2")],
        "SubnetIds",
    ),
    ("neither yes nor no", &[("Canary", "yes")], "Canary"),
    (
        "subnets without security groups",
        &[("SubnetIds", "subnet-1")],
        "SecurityGroupIds must be too",
    ),
    (
        "a VPC without subnets",
        &[("VpcLaneId", "vpc-1"), ("VpcLaneSecurityGroupIds", "sg-1")],
        "VpcLaneSubnetIds must be too",
    ),
];

#[test]
fn invalid_parameters_are_rejected_by_name() {
    let ministack = Ministack::start(&[]);
    let mut template = template(STACK);
    // CloudFormation validates parameters before any resource.
    template["Resources"] = json!({"Queue": {"Type": "AWS::SQS::Queue"}});
    for gone in ["Transform", "Globals", "Outputs", "Metadata"] {
        template.as_object_mut().unwrap().remove(gone);
    }
    for (what, parameters, message) in REFUSED {
        let parameters = parameters.iter();
        let parameters: Vec<Value> = parameters
            .map(|(key, value)| json!({"ParameterKey": key, "ParameterValue": value}))
            .collect();
        let stack = json!({
            "StackName": "refused", "TemplateBody": template.to_string(), "Parameters": parameters,
        });
        let refused = ministack.try_call("cloudformation", "create_stack", stack);
        let error = refused.expect_err(what);
        assert!(error.contains(message), "{what}: {error}");
    }
}
