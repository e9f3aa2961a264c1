//! Trust policies of the stack's roles.

use std::sync::LazyLock;

use harness::ACCOUNT;
use iam_rs::{
    Arn, Context, ContextValue, Decision, IAMPolicy, IAMRequest, PolicyEvaluator, Principal,
    PrincipalId,
};
use serde_json::{Value, json};

use crate::cloudformation::Deployed;

/// Parsed once, because parsing starts a process.
static TEMPLATE: LazyLock<Value> = LazyLock::new(|| harness::template(crate::TEMPLATE));

/// A role's trust policy. The account as principal stands for any of its identities with the permission: only the conditions are
/// evaluated.
fn trust(role: &str) -> IAMPolicy {
    let policy = &TEMPLATE["Resources"][role]["Properties"]["AssumeRolePolicyDocument"];
    let mut policy = Deployed::new(&TEMPLATE, "whittle").resolve(policy);
    let account = json!({"AWS": format!("arn:aws:iam::{ACCOUNT}:root")});
    for statement in policy["Statement"].as_array_mut().unwrap() {
        // A trust policy has no resource, but the evaluator requires one.
        statement["Resource"] = json!("*");
        if statement["Principal"] == account {
            statement["Principal"] = json!("*");
        }
    }
    serde_json::from_value(policy).unwrap()
}

fn assumes(role: &str, who: Principal, context: Context) -> bool {
    let on = Arn::parse(&format!("arn:aws:iam::{ACCOUNT}:role/{role}")).unwrap();
    let both = ["sts:AssumeRole", "sts:TagSession"].map(|action| {
        let request =
            IAMRequest::new_with_context(who.clone(), action, on.clone(), context.clone());
        let decided = PolicyEvaluator::with_policies(vec![trust(role)]).evaluate(&request);
        decided.unwrap().decision == Decision::Allow
    });
    both == [true, true]
}

fn session(role: &str, tags: &[(&str, &str)]) -> (Principal, Context) {
    let arn = format!("arn:aws:iam::{ACCOUNT}:role/{role}");
    let mut context = Context::new().with_string("aws:PrincipalArn", arn.as_str());
    for (tag, value) in tags {
        context = context.with_string(format!("aws:RequestTag/{tag}"), *value);
    }
    let keys = tags.iter().map(|(tag, _)| Value::from(*tag)).collect();
    let keys: ContextValue = serde_json::from_value(Value::Array(keys)).unwrap();
    context.data.insert("aws:TagKeys".to_owned(), keys);
    (Principal::Aws(PrincipalId::String(arn)), context)
}

#[test]
fn cluster_role_is_assumed_only_by_writing_functions_with_a_cluster_tag() {
    for role in [
        "ProvisionerRole",
        "LifecycleRole",
        "DisruptionRole",
        "TerminatorRole",
        "HousekeeperRole",
    ] {
        let (who, context) = session(role, &[("cluster", "demo")]);
        assert!(assumes("ClusterRole", who, context), "{role}");
        let (who, context) = session(role, &[]);
        assert!(!assumes("ClusterRole", who, context), "{role} without tag");
        let (who, context) = session(role, &[("cluster", "demo"), ("team", "a")]);
        assert!(!assumes("ClusterRole", who, context), "{role} with another");
    }
    for role in ["InterruptionRole", "RelayRole", "Administrator"] {
        let (who, context) = session(role, &[("cluster", "demo")]);
        assert!(!assumes("ClusterRole", who, context), "{role}");
    }
}

#[test]
fn relay_role_is_assumed_only_with_a_cluster_tag() {
    let service = PrincipalId::String("pods.eks.amazonaws.com".to_owned());
    let named = Context::new().with_string("aws:RequestTag/eks-cluster-name", "demo");
    let who = Principal::Service(service);
    assert!(assumes("RelayRole", who.clone(), named));
    assert!(!assumes("RelayRole", who, Context::new()));
}

/// IAM rejects a policy that names an unknown principal, such as a role created seconds before.
#[test]
fn no_trust_policy_names_a_role_of_the_stack_as_principal() {
    let resources = TEMPLATE["Resources"].as_object().unwrap().iter();
    for (name, role) in resources.filter(|(_, of)| of["Type"] == "AWS::IAM::Role") {
        let trust = &role["Properties"]["AssumeRolePolicyDocument"];
        for statement in trust["Statement"].as_array().unwrap() {
            let principal = statement["Principal"].to_string();
            assert!(!principal.contains("Fn::GetAtt"), "{name}: {principal}");
        }
    }
}
