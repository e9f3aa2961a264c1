//! `whittle approve` writes what the housekeeper reads, and leaves the rest of the entry as it is.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::{Command, Output};

fn approve(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle
        .arg("approve")
        .args(arguments)
        .envs(environment.iter().copied());
    whittle.output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_time_that_is_none_is_refused() {
    let refused = approve(&["demo", "--for", "2d"], &[]);
    assert!(!refused.status.success());
    assert!(
        told(&refused).contains("expected a duration of up to 24h"),
        "{}",
        told(&refused)
    );
}

#[cfg(not(feature = "aws"))]
#[test]
fn a_build_without_aws_names_the_build_to_use() {
    for arguments in [
        &["demo"][..],
        &["demo", "--list"],
        &["demo", "1a2b", "--who", "ann"],
    ] {
        let refused = approve(arguments, &[]);
        assert!(!refused.status.success());
        let told = told(&refused);
        assert!(told.contains("--features aws"), "{told}");
    }
}

#[cfg(feature = "aws")]
#[test]
fn the_entry_says_until_when_and_keeps_what_it_said() {
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
    assert!(approved.status.success(), "{}", told(&approved));
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
        told(&unknown).contains("cannot write the registry entry /whittle/clusters/nobody"),
        "{}",
        told(&unknown)
    );
}
