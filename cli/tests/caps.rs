//! `whittle caps`: shows and changes the account's caps, and rejects invalid arguments before it writes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::{Command, Output};

use harness::stderr_of;

fn caps(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle
        .arg("caps")
        .args(arguments)
        .envs(environment.iter().copied());
    whittle.output().unwrap()
}

#[test]
fn invalid_amounts_are_rejected() {
    for (arguments, part) in [
        (["--dollars-per-hour", "much"], "such as 12.50, or none"),
        (["--nodes", "-1"], "expected a number of nodes, or none"),
        (["--forget", "a/b"], "expected the name of a cluster"),
    ] {
        let [option, value] = arguments;
        let refused = caps(&[&format!("{option}={value}")], &[]);
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(
            stderr_of(&refused).contains(part),
            "{}",
            stderr_of(&refused)
        );
    }
}

#[cfg(not(feature = "aws"))]
#[test]
fn build_without_aws_feature_names_the_required_feature() {
    for arguments in [&[][..], &["--nodes", "3"]] {
        let refused = caps(arguments, &[]);
        assert!(!refused.status.success());
        let stderr = stderr_of(&refused);
        assert!(stderr.contains("--features aws"), "{stderr}");
    }
}

#[cfg(feature = "aws")]
#[test]
fn each_cap_changes_separately_and_makes_the_provisioner_due() {
    use serde_json::{Value, json};

    let moto = harness::Moto::start("demo");
    let environment = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let run = |arguments: &[&str]| {
        let output = caps(arguments, &environment);
        let shown = harness::stdout_of(&output);
        (output.status.success(), shown + &stderr_of(&output))
    };
    let (done, why) = run(&[]);
    assert!(
        !done && why.contains("cannot find stack whittle in us-east-1"),
        "{why}"
    );

    moto.put_ledger();
    moto.put_cluster("prod", &json!({}));
    let clusters = json!({"TableName": "whittle-ledger", "Item": {
        "pk": {"S": "CLUSTERS"}, "sk": {"S": "prod"},
    }});
    moto.call("dynamodb", "put_item", clusters);
    let (done, shown) = run(&[]);
    assert!(
        done && shown.contains("no cap on dollars and no cap on nodes"),
        "{shown}"
    );
    let (done, shown) = run(&["--dollars-per-hour", "12.50"]);
    assert!(
        done && shown.contains("at most $12.5000 an hour and no cap on nodes"),
        "{shown}"
    );
    let (_, shown) = run(&["--nodes", "3"]);
    assert!(
        shown.contains("at most $12.5000 an hour and at most 3 nodes"),
        "{shown}"
    );
    let key = json!({"pk": {"S": "CLUSTER#prod"}, "sk": {"S": "LANE#provisioner"}});
    let lane = json!({"TableName": "whittle-ledger", "Key": key});
    let row = moto.call("dynamodb", "get_item", lane);
    let due = row.pointer("/Item/due/N").and_then(Value::as_str);
    assert!(due.is_some(), "{row}");
    let (_, shown) = run(&["-o", "json"]);
    let document: Value = serde_json::from_str(&shown).unwrap();
    let caps = json!({"dollarsPerHour": 12.5, "nodes": 3});
    assert_eq!(document.get("caps"), Some(&caps), "{shown}");
    let (_, shown) = run(&["--dollars-per-hour", "none"]);
    assert!(
        shown.contains("no cap on dollars and at most 3 nodes"),
        "{shown}"
    );
}
