//! Permissions of the template's roles: an evaluator that honors resources and conditions judges every call of
//! `permissions/calls.yaml`, and no condition can be dropped without allowing one of the forbidden calls.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a missing value fails the test"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use cloudformation::Deployed;
use harness::{ACCOUNT, REGION};
use iam_rs::{
    Arn, Context, ContextValue, IAMPolicy, IAMRequest, PolicyEvaluator, Principal, PrincipalId,
};
use serde::Deserialize;
use serde_json::{Value, json};

mod cloudformation;
mod queue_policies;
mod trust;

const TEMPLATE: &str = "sam-template.yaml";

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Role {
    #[serde(default)]
    role: String,
    /// Several roles with the same permissions, instead of `role`.
    #[serde(default)]
    roles: Vec<String>,
    /// Tags of the caller's session.
    #[serde(default)]
    tags: BTreeMap<String, String>,
    /// Stack parameters that differ from their defaults.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    may: Vec<Call>,
    may_not: Vec<Call>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    r#do: String,
    on: String,
    #[serde(default)]
    with: BTreeMap<String, Value>,
}

#[test]
fn each_role_allows_exactly_the_calls_of_its_work() {
    let template = harness::template(TEMPLATE);
    let mut wrong = Vec::new();
    for role in roles() {
        let policies = policies(&template, &role);
        let judged = |calls: &[Call], expected: bool| {
            let calls = calls
                .iter()
                .filter(|call| allows(&policies, &role, call) != expected);
            let word = if expected { "denied" } else { "allowed" };
            calls
                .map(|call| format!("{word} to {}: {call:?}", role.role))
                .collect::<Vec<_>>()
        };
        wrong.extend(judged(&role.may, true));
        wrong.extend(judged(&role.may_not, false));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Errors name the requested action, so the functions' code contains all actions except those that an SDK's error names itself.
#[test]
fn every_action_in_the_code_is_allowed_to_a_function() {
    let allowed: BTreeSet<String> = roles()
        .into_iter()
        .flat_map(|role| role.may)
        .map(|call| call.r#do)
        .collect();
    let mut named = BTreeSet::new();
    for krate in ["ec2", "ledger", "shell"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../shared/{krate}/src"));
        actions(&source, &mut named);
    }
    for other in USER_ACTIONS.iter().chain(BY_PARAMETER) {
        assert!(named.remove(*other), "no code requests {other}");
    }
    assert!(named.len() > 20, "{named:?}");
    let missing: Vec<&String> = named.difference(&allowed).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Actions that users need for `whittle init`, `register`, `unregister` and `doctor`, under their own permissions.
const USER_ACTIONS: &[&str] = &[
    "eks:CreateAccessEntry",
    "eks:CreateAddon",
    "eks:CreatePodIdentityAssociation",
    "eks:DeleteAccessEntry",
    "eks:DescribeAccessEntry",
    "eks:DescribeAddon",
    "eks:DescribePodIdentityAssociation",
    "eks:ListAccessEntries",
    "eks:ListPodIdentityAssociations",
    "eks:UpdateAccessEntry",
    "iam:AttachRolePolicy",
    "iam:CreateRole",
    "iam:CreateServiceLinkedRole",
    "iam:GetRole",
    "servicequotas:GetServiceQuota",
    "ssm:DeleteParameter",
    "ssm:PutParameter",
    "sts:GetCallerIdentity",
];

/// Actions allowed on the resources in the parameter NotificationTargetArns, which is empty by default.
const BY_PARAMETER: &[&str] = &["events:PutEvents", "sns:Publish"];

/// Collects texts such as `"ec2:RunInstances"` below a directory.
fn actions(folder: &Path, named: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            actions(&path, named);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let is_action = |text: &&str| {
            let parts = text.split_once(':');
            parts.is_some_and(|(service, action)| {
                let plain = |c: char| c.is_ascii_lowercase() || c == '-' || c == '2' || c == '3';
                !service.is_empty()
                    && service.chars().all(plain)
                    && action.starts_with(|c: char| c.is_ascii_uppercase())
                    && action.chars().all(|c| c.is_ascii_alphanumeric())
            })
        };
        named.extend(text.split('"').filter(is_action).map(str::to_owned));
    }
}

#[test]
fn every_condition_denies_a_forbidden_call() {
    let template = harness::template(TEMPLATE);
    let roles: Vec<(Role, Vec<Value>)> = roles()
        .into_iter()
        .map(|role| {
            let policies = policies(&template, &role);
            (role, policies)
        })
        .collect();
    for (role, policy) in roles
        .iter()
        .flat_map(|(role, policies)| policies.iter().map(move |policy| (role, policy)))
    {
        let statements = policy["Statement"].as_array().unwrap();
        for (nth, statement) in statements.iter().enumerate() {
            if statement.get("Condition").is_none() {
                continue;
            }
            let mut weaker = policy.clone();
            let changed = weaker["Statement"][nth].as_object_mut();
            changed.unwrap().remove("Condition");
            // At least one of the roles with the policy must allow a forbidden call.
            let sharing = roles.iter().filter(|(_, all)| all.contains(policy));
            let mut calls = sharing.flat_map(|(role, all)| {
                let weak: Vec<Value> = all
                    .iter()
                    .map(|attached| {
                        if attached == policy {
                            &weaker
                        } else {
                            attached
                        }
                    })
                    .cloned()
                    .collect();
                role.may_not
                    .iter()
                    .filter(move |call| allows(&weak, role, call))
            });
            assert!(
                calls.next().is_some(),
                "{}: no call is kept out by the condition of {statement}",
                role.role
            );
        }
    }
}

/// IAM's size limits of a managed policy and of all inline policies of a role together, without white space. No policy names a
/// cluster or is created for one, so the number of clusters does not matter; values of parameters are bounded.
#[test]
fn policies_fit_iam_limits_with_longest_names_and_any_number_of_clusters() {
    let mut template = harness::template(TEMPLATE);
    let cluster = "c".repeat(100);
    for parameter in template["Parameters"].as_object_mut().unwrap().values_mut() {
        let longest = parameter["MaxLength"].as_u64();
        if let Some(longest) = longest.and_then(|length| usize::try_from(length).ok()) {
            parameter["Default"] = json!("p".repeat(longest));
        }
    }
    for (name, resource) in template["Resources"].as_object().unwrap() {
        let properties = &resource["Properties"];
        let (limit, documents) = match resource["Type"].as_str().unwrap() {
            "AWS::IAM::ManagedPolicy" => (6_144, vec![&properties["PolicyDocument"]]),
            "AWS::IAM::Role" => {
                let inline = properties["Policies"].as_array().into_iter().flatten();
                let documents = inline
                    .map(|policy_of_role| &policy_of_role["PolicyDocument"])
                    .collect();
                (10_240, documents)
            }
            _ => continue,
        };
        // Names as long as this stack's resource names can be.
        let long = |text: String| {
            text.replace("Queue", &"Q".repeat(80))
                .replace("Ledger", &"L".repeat(255))
                .replace("whittle-", &"s".repeat(51))
                .replace("${aws:PrincipalTag/cluster}", &cluster)
        };
        let deployed = Deployed::new(&template, "whittle");
        let sizes = documents
            .into_iter()
            .map(|document| long(deployed.resolve(document).to_string()).len());
        let size: usize = sizes.sum();
        assert!(
            size < limit,
            "{name} has {size} characters, {limit} are allowed"
        );
    }
}

/// Whether these policies allow a call.
fn allows(policies: &[Value], role: &Role, call: &Call) -> bool {
    let mut text = json!(policies).to_string();
    for (tag, value) in &role.tags {
        // The evaluator substitutes variables in resources, but not in conditions.
        text = text.replace(&format!("${{aws:PrincipalTag/{tag}}}"), value);
    }
    let policies: Vec<IAMPolicy> = serde_json::from_str(&text).unwrap();
    let mut context = Context::new();
    for (tag, value) in &role.tags {
        context = context.with_string(format!("aws:PrincipalTag/{tag}"), value.clone());
    }
    let keys: BTreeMap<String, ContextValue> = serde_json::from_value(json!(call.with)).unwrap();
    context.data.extend(keys);
    let service = call.r#do.split(':').next().unwrap();
    let on = match call.on.as_str() {
        "*" => format!("arn:aws:{service}:{REGION}:{ACCOUNT}:any/any"),
        on => on.to_owned(),
    };
    let caller = format!("arn:aws:iam::{ACCOUNT}:role/{}", role.role);
    let request = IAMRequest::new_with_context(
        Principal::Aws(PrincipalId::String(caller)),
        call.r#do.clone(),
        Arn::parse(&on).unwrap(),
        context,
    );
    let decided = PolicyEvaluator::with_policies(policies).evaluate(&request);
    decided.unwrap().decision == iam_rs::Decision::Allow
}

fn roles() -> Vec<Role> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("permissions/calls.yaml");
    let page: Vec<Role> = serde_saphyr::from_str(&std::fs::read_to_string(page).unwrap()).unwrap();
    let each = page.into_iter().flat_map(|mut entry| {
        let several = std::mem::take(&mut entry.roles);
        match several.as_slice() {
            [] => vec![entry],
            several => several
                .iter()
                .map(|role| Role {
                    role: role.clone(),
                    ..entry.clone()
                })
                .collect(),
        }
    });
    each.collect()
}

/// Inline and managed policies of a role, with names instead of references.
fn policies(template: &Value, role: &Role) -> Vec<Value> {
    let mut deployed = Deployed::new(template, "whittle");
    for (parameter, value) in &role.parameters {
        deployed = deployed.with(parameter, value);
    }
    let resources = template["Resources"].as_object().unwrap();
    let role = role.role.as_str();
    let inline = resources[role]["Properties"]["Policies"].as_array();
    let inline = inline
        .into_iter()
        .flatten()
        .map(|policy| &policy["PolicyDocument"]);
    let managed = resources.values().filter(|resource| {
        let mut roles = resource["Properties"]["Roles"]
            .as_array()
            .into_iter()
            .flatten();
        resource["Type"] == "AWS::IAM::ManagedPolicy"
            && deployed.has(resource)
            && roles.any(|other| other["Ref"] == role)
    });
    let managed = managed.map(|resource| &resource["Properties"]["PolicyDocument"]);
    let all: Vec<Value> = inline
        .chain(managed)
        .map(|policy| deployed.resolve(policy))
        .collect();
    assert!(!all.is_empty(), "{role} has no policy");
    all
}
