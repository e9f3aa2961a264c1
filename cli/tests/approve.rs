//! `whittle approve`: writes the approval that the housekeeper reads and keeps the other fields of the registry entry.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::{Command, Output};

use harness::stderr_of;

fn approve(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle
        .arg("approve")
        .args(arguments)
        .envs(environment.iter().copied());
    whittle.output().unwrap()
}

#[test]
fn invalid_duration_is_rejected() {
    let refused = approve(&["demo", "--for", "2d"], &[]);
    assert!(!refused.status.success());
    assert!(
        stderr_of(&refused).contains("expected a duration of up to 24h"),
        "{}",
        stderr_of(&refused)
    );
}

#[cfg(not(feature = "aws"))]
#[test]
fn build_without_aws_feature_names_the_required_feature() {
    for arguments in [
        &["demo"][..],
        &["demo", "--list"],
        &["demo", "1a2b", "--who", "ann"],
    ] {
        let refused = approve(arguments, &[]);
        assert!(!refused.status.success());
        let stderr = stderr_of(&refused);
        assert!(stderr.contains("--features aws"), "{stderr}");
    }
}

#[cfg(feature = "aws")]
#[test]
fn approval_of_collection_is_added_to_the_registry_entry() {
    use serde_json::{Value, json};

    let moto = harness::Moto::start("demo");
    let name = "/whittle/clusters/demo";
    let entry = json!({"type": "eks", "mode": "active"}).to_string();
    moto.call(
        "ssm",
        "put_parameter",
        json!({"Name": name, "Type": "String", "Value": entry}),
    );
    let environment = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let approved = approve(&["demo", "--for", "30m"], &environment);
    assert!(approved.status.success(), "{}", stderr_of(&approved));
    let parameter = moto.call("ssm", "get_parameter", json!({"Name": name}));
    let text = parameter
        .pointer("/Parameter/Value")
        .and_then(Value::as_str);
    let entry: Value = serde_json::from_str(text.unwrap()).unwrap();
    assert_eq!(entry.get("mode"), Some(&json!("active")));
    let until = turns::Entry::read(&entry).unwrap().collect_until;
    assert!(until.is_some(), "{entry}");

    let unknown = approve(&["nobody"], &environment);
    assert!(!unknown.status.success());
    assert!(
        stderr_of(&unknown).contains("cannot write the registry entry /whittle/clusters/nobody"),
        "{}",
        stderr_of(&unknown)
    );
}

#[cfg(feature = "aws")]
#[test]
fn pending_request_is_approved_by_id_and_expired_one_is_rejected() {
    use model::ledger::{ApprovalScope, Request};
    use serde_json::json;

    let moto = harness::Moto::start("demo");
    moto.put_ledger();
    let request = |id: &str, until: &str| Request {
        id: id.to_owned(),
        asks: ApprovalScope::Launches([].into()),
        description: format!("launching 9 nodes ({id})"),
        until: until.parse().unwrap(),
        approved: None,
    };
    let requests = [
        request("1a2b", "2999-01-01T00:00:00Z"),
        request("old", "2001-01-01T00:00:00Z"),
    ];
    let requests = serde_json::to_string(&requests).unwrap();
    moto.put_cluster("demo", &json!({"requests": {"S": requests}}));
    let environment = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let run = |arguments: &[&str]| {
        let output = approve(arguments, &environment);
        let shown = harness::stdout_of(&output);
        (output.status.success(), shown + &stderr_of(&output))
    };
    let (done, shown) = run(&["demo", "--list"]);
    assert!(done, "{shown}");
    for line in [
        "1a2b   waiting   2999-01-01T00:00:00Z",
        "old    expired   2001-01-01T00:00:00Z",
        "launching 9 nodes (1a2b)",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    for (id, why) in [("old", "expired"), ("none", "none")] {
        let (done, shown) = run(&["demo", id, "--who", "ann"]);
        assert!(
            !done && shown.contains(why) && shown.contains("nothing was changed"),
            "{shown}"
        );
    }
    let (done, shown) = run(&["demo", "1a2b", "--who", "ann"]);
    assert!(
        done && shown.contains("launching 9 nodes (1a2b)"),
        "{shown}"
    );
    let (_, shown) = run(&["demo", "--list", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let approved = json!({"id": "1a2b", "state": "approved", "approvedBy": "ann"});
    for (key, value) in approved.as_object().unwrap() {
        assert_eq!(listed.pointer(&format!("/0/{key}")), Some(value), "{shown}");
    }
    let (done, shown) = run(&["nobody", "--list"]);
    assert!(
        !done && shown.contains("the ledger knows no cluster nobody"),
        "{shown}"
    );
}
