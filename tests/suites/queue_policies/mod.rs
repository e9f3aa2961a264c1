//! Senders of the queues: the interrupt queues accept messages only from this stack's EventBridge rules.

use harness::{ACCOUNT, REGION};
use iam_rs::{
    Arn, Context, Decision, IAMPolicy, IAMRequest, PolicyEvaluator, Principal, PrincipalId,
};
use serde_json::{Value, json};

use crate::cloudformation::Deployed;

/// Names of stacks: short, the longest that a VPC lane allows, and one longer than the part that CloudFormation keeps in names.
const STACKS: [&str; 3] = [
    "whittle",
    "whittle-production-eu-west-1a",
    "platform-team-whittle-production-eu-west-1-cluster0",
];

/// Queues that carry facts, in both templates.
const QUEUES: [&str; 2] = ["InterruptQueue", "InterruptDeadLetters"];

/// Both templates with the names of the stacks that they are deployed as; nested stacks are named `<stack>-VpcLane-<tail>`.
fn deployments() -> Vec<(Value, String)> {
    let lane = harness::template("infra/vpc-lane.yaml");
    let stack = harness::template("sam-template.yaml");
    let both = STACKS.iter().flat_map(|name| {
        let nested = format!("{name}-VpcLane-ABCDEFGHIJKLM");
        [(stack.clone(), (*name).to_owned()), (lane.clone(), nested)]
    });
    both.collect()
}

fn deployed<'t>(template: &'t Value, name: &'t str) -> Deployed<'t> {
    Deployed::new(template, name)
        .with("StackName", "whittle")
        .with("VpcId", "vpc-1")
}

fn rules(template: &Value) -> Vec<&str> {
    let resources = template["Resources"].as_object().unwrap().iter();
    let rules: Vec<&str> = resources
        .filter(|(_, resource)| resource["Type"] == "AWS::Events::Rule")
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(rules.len(), 7, "{rules:?}");
    rules
}

fn service(arn: &str, account: &str) -> (Principal, Context) {
    let service = PrincipalId::String("events.amazonaws.com".to_owned());
    let context = secure()
        .with_string("aws:SourceArn", arn)
        .with_string("aws:SourceAccount", account);
    (Principal::Service(service), context)
}

fn role(name: &str) -> (Principal, Context) {
    let arn = format!("arn:aws:iam::{ACCOUNT}:role/{name}");
    let context = secure().with_string("aws:PrincipalArn", arn.as_str());
    (Principal::Aws(PrincipalId::String(arn)), context)
}

fn secure() -> Context {
    Context::new().with_boolean("aws:SecureTransport", true)
}

/// Whether the queue's policy, together with the caller's own policies if any, allows the call.
fn allows(
    own: Option<&Value>,
    policy: &Value,
    (principal, context): (Principal, Context),
    action: &str,
    queue: &str,
) -> bool {
    let policies = own.into_iter().chain([policy]).cloned();
    let policies: Vec<IAMPolicy> = policies
        .map(|policy| serde_json::from_value(policy).unwrap())
        .collect();
    let on = Arn::parse(&format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}")).unwrap();
    let request = IAMRequest::new_with_context(principal, action, on, context);
    let decided = PolicyEvaluator::with_policies(policies).evaluate(&request);
    decided.unwrap().decision == Decision::Allow
}

fn policy(template: &Value, name: &str) -> Value {
    let policy = &template["Resources"]["InterruptQueuePolicy"]["Properties"]["PolicyDocument"];
    deployed(template, name).resolve(policy)
}

const SEND: &str = "sqs:SendMessage";

#[test]
fn every_rule_may_send_to_the_interrupt_queue_for_any_stack_name() {
    let mut refused = Vec::new();
    for (template, name) in deployments() {
        let policy = policy(&template, &name);
        for rule in rules(&template) {
            let arn = deployed(&template, &name).resolve(&json!({"Fn::GetAtt": [rule, "Arn"]}));
            for queue in QUEUES {
                let sender = service(arn.as_str().unwrap(), ACCOUNT);
                if !allows(None, &policy, sender, SEND, queue) {
                    refused.push(format!("{name}: {rule} to {queue}"));
                }
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

/// Identities of the account with `sqs:SendMessage` on `*` need no allowance of the queue's policy, so only a denial blocks them.
#[test]
fn only_rules_of_the_stack_may_send_to_the_interrupt_queue() {
    let everything = json!({
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}],
    });
    let foreign_rule = format!("arn:aws:events:{REGION}:{ACCOUNT}:rule/another");
    let foreign_account = format!("arn:aws:events:{REGION}:999999999999:rule/another");
    for (template, name) in deployments() {
        let policy = policy(&template, &name);
        for queue in QUEUES {
            let ci = allows(Some(&everything), &policy, role("ci"), SEND, queue);
            assert!(!ci, "{name}: a role that may use every queue");
            let own = role("HousekeeperRole");
            let own = allows(Some(&everything), &policy, own, SEND, queue);
            assert!(!own, "{name}: a function");
            for (arn, account) in [(&foreign_rule, ACCOUNT), (&foreign_account, "999999999999")] {
                let sender = service(arn, account);
                assert!(!allows(None, &policy, sender, SEND, queue), "{name}: {arn}");
            }
        }
    }
}

#[test]
fn administrator_can_manage_interrupt_queue_and_function_can_read_it() {
    let everything = json!({
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}],
    });
    for (template, name) in deployments() {
        let policy = policy(&template, &name);
        for action in [
            "sqs:SetQueueAttributes",
            "sqs:PurgeQueue",
            "sqs:DeleteQueue",
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:StartMessageMoveTask",
        ] {
            for queue in QUEUES {
                let admin = role("Administrator");
                let allowed = allows(Some(&everything), &policy, admin, action, queue);
                assert!(allowed, "{name}: {action} on {queue}");
            }
        }
    }
}
