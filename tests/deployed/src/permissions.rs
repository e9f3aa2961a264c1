//! What functions really asked AWS for, against the page of what each role may do, which `permissions` judges.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use harness::{Call, LocalAws};
use serde_json::Value;

use super::cluster;

/// Every call of a function is on the page, under the role that it was made with; each of these functions made some.
pub fn every_call_is_judged(aws: &LocalAws, functions: &[&str]) {
    let page = cluster::root().join("tests/permissions/calls.yaml");
    let page: Vec<Value> = serde_saphyr::from_str(&fs::read_to_string(page).unwrap()).unwrap();
    let mut judged: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in &page {
        let roles = match entry["roles"].as_array() {
            Some(several) => several.iter().collect(),
            None => vec![&entry["role"]],
        };
        let may = entry["may"].as_array().unwrap().iter();
        let actions: Vec<&str> = may.map(|call| call["do"].as_str().unwrap()).collect();
        for role in roles {
            let judged = judged.entry(role.as_str().unwrap()).or_default();
            judged.extend(&actions);
        }
    }
    let mut calls = aws.to_ministack.calls();
    calls.append(&mut aws.to_moto.calls());
    let missing: Vec<&Call> = calls
        .iter()
        .filter(|call| {
            let role = role(call);
            role.is_some_and(|role| !judged[role.as_str()].contains(call.action.as_str()))
        })
        .collect();
    assert!(
        missing.is_empty(),
        "tests/permissions/calls.yaml lacks {missing:#?}"
    );
    for function in functions {
        let caller = format!("whittle-{function}");
        let own = calls.iter().filter(|call| call.caller == caller);
        assert!(own.count() > 1, "{caller} called nobody: {calls:#?}");
    }
    let launches = |call: &Call| call.assumed && call.action == "ec2:CreateFleet";
    assert!(calls.iter().any(launches), "{calls:#?}");
}

/// The role that a function's call was made with, as the template names it; none for others.
fn role(call: &Call) -> Option<String> {
    let function = call.caller.strip_prefix("whittle-")?;
    if call.assumed {
        return Some("ClusterRole".to_owned());
    }
    let (first, rest) = function.split_at_checked(1)?;
    Some(format!("{}{rest}Role", first.to_uppercase()))
}
