//! Compares the AWS calls of functions with the list of what each role may do, which the test `permissions` checks
//! against the policies.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use harness::{Call, LocalAws};
use serde_json::Value;

use super::cluster;

/// Asserts that every call of a function is listed under the role of its credentials, and that each of these functions
/// made calls.
pub fn every_call_is_listed(aws: &LocalAws, functions: &[&str]) {
    let page = cluster::root().join("tests/permissions/calls.yaml");
    let page: Vec<Value> = serde_saphyr::from_str(&fs::read_to_string(page).unwrap()).unwrap();
    let mut listed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in &page {
        let roles = match entry["roles"].as_array() {
            Some(several) => several.iter().collect(),
            None => vec![&entry["role"]],
        };
        let permitted = entry["may"].as_array().unwrap().iter();
        let actions: Vec<&str> = permitted.map(|call| call["do"].as_str().unwrap()).collect();
        for role in roles {
            let listed = listed.entry(role.as_str().unwrap()).or_default();
            listed.extend(&actions);
        }
    }
    let mut calls = aws.to_ministack.calls();
    calls.append(&mut aws.to_moto.calls());
    let missing: Vec<&Call> = calls
        .iter()
        .filter(|call| {
            let role = role(call);
            role.is_some_and(|role| !listed[role.as_str()].contains(call.action.as_str()))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "tests/permissions/calls.yaml lacks {missing:#?}"
    );
    for function in functions {
        let caller = format!("whittle-{function}");
        let own = calls.iter().filter(|call| call.caller == caller);
        assert!(own.count() > 1, "{caller} made no call: {calls:#?}");
    }
    let launches = |call: &Call| call.assumed && call.action == "ec2:CreateFleet";
    assert!(calls.iter().any(launches), "{calls:#?}");
}

/// Role of a function's call, by its logical id in the template; `None` for other callers.
fn role(call: &Call) -> Option<String> {
    let function = call.caller.strip_prefix("whittle-")?;
    if call.assumed {
        return Some("ClusterRole".to_owned());
    }
    let (first, rest) = function.split_at_checked(1)?;
    Some(format!("{}{rest}Role", first.to_uppercase()))
}
