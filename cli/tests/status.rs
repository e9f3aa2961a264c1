//! `whittle status` and `whittle settings` against moto.

#![cfg(feature = "aws")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::Command;

use serde_json::{Value, json};

fn run(moto: &harness::Moto, arguments: &[&str]) -> (bool, String) {
    let environment = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    let output = whittle.args(arguments).envs(environment).output().unwrap();
    let shown = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(shown).unwrap())
}

fn register(moto: &harness::Moto, entry: &Value) {
    let put =
        json!({"Name": "/whittle/clusters/prod", "Type": "String", "Value": entry.to_string()});
    moto.call("ssm", "put_parameter", put);
}

#[test]
fn status_shows_the_rows_of_registered_clusters() {
    let moto = harness::Moto::start("demo");
    moto.put_ledger();
    register(&moto, &json!({"type": "eks", "mode": "active"}));
    moto.put_cluster("prod", &json!({}));
    let (done, shown) = run(&moto, &["status"]);
    assert!(done, "{shown}");
    let table = "CLUSTER   MODE     NODES   $/HOUR   RELAY   LAST TURN\n\
                 prod      active   0       0.0000   none    never\n";
    assert_eq!(shown, table);
    let (_, shown) = run(&moto, &["status", "-o", "name"]);
    assert_eq!(shown, "prod\n");
    let (done, shown) = run(&moto, &["status", "-o", "json"]);
    assert!(done, "{shown}");
    let all: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(all.pointer("/0/mode"), Some(&json!("active")));
    assert_eq!(all.pointer("/0/waiting"), Some(&json!([])));
    let (done, why) = run(&moto, &["explain", "-c", "nobody"]);
    assert!(!done, "{why}");
    assert!(why.contains("the ledger knows no cluster nobody"), "{why}");
}

#[test]
fn entry_is_refused_only_if_functions_refuse_it() {
    let moto = harness::Moto::start("demo");
    moto.put_ledger();
    moto.put_cluster("prod", &json!({}));
    let settings = json!({"reservedENIs": "some"});
    register(&moto, &json!({"type": "eks", "settings": settings}));
    let (_, shown) = run(&moto, &["status"]);
    assert!(!shown.contains("refused"), "{shown}");
    let refused = json!({"Name": "/whittle/clusters/prod", "Type": "String", "Overwrite": true,
        "Value": r#"{"type": "eks", "mode": "on"}"#});
    moto.call("ssm", "put_parameter", refused);
    let why = "mode is \"on\": expected \"active\" or \"shadow\"";
    for command in [&["status"][..], &["clusters"], &["doctor", "prod"]] {
        let (_, shown) = run(&moto, command);
        assert!(shown.contains(why), "{command:?}: {shown}");
    }
}

#[test]
fn settings_are_shown_and_changed_after_confirmation() {
    let moto = harness::Moto::start("demo");
    register(
        &moto,
        &json!({"type": "eks", "mode": "active", "settings": {"optimize": "upstream"}}),
    );
    let set = |more: &[&str]| run(&moto, &[&["settings", "set", "prod"], more].concat());
    let get = |more: &[&str]| run(&moto, &[&["settings", "get", "prod"], more].concat());

    assert_eq!(get(&["optimize"]), (true, "\"upstream\"\n".to_owned()));
    let (done, shown) = set(&["guards.nodes=20"]);
    assert!(!done && shown.contains("--yes confirms"), "{shown}");
    let (done, shown) = set(&["guards.nodes=20", "optimize=", "--yes"]);
    assert!(done, "{shown}");
    let lines = "+ guards.nodes: 20\n- optimize: \"upstream\"\n";
    assert!(shown.starts_with(lines), "{shown}");
    let entry = moto.call(
        "ssm",
        "get_parameter",
        json!({"Name": "/whittle/clusters/prod"}),
    );
    let entry = entry
        .pointer("/Parameter/Value")
        .and_then(Value::as_str)
        .unwrap();
    let entry: Value = serde_json::from_str(entry).unwrap();
    let expected = json!({"type": "eks", "mode": "active", "settings": {"guards": {"nodes": 20}}});
    assert_eq!(entry, expected);

    let (done, shown) = set(&["guards.nodes=20", "--yes"]);
    assert!(
        done && shown.contains("has these settings already"),
        "{shown}"
    );
    for (assignment, why) in [
        ("guards.nodes=few", "settings.guards.nodes is \"few\""),
        ("gaurds.nodes=1", "(did you mean guards?)"),
    ] {
        let (done, shown) = set(&[assignment, "--yes"]);
        assert!(!done && shown.contains(why), "{shown}");
    }
    let (done, shown) = get(&["optimize"]);
    assert!(!done && shown.contains("its default applies"), "{shown}");
}
