//! `whittle pause` and `resume`: write and remove pauses per person, and reject invalid arguments before any request.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::process::{Command, Output};

use harness::stderr_of;

fn whittle(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut whittle = Command::new(env!("CARGO_BIN_EXE_whittle"));
    whittle.args(arguments).envs(environment.iter().copied());
    whittle.output().unwrap()
}

#[test]
fn invalid_arguments_are_rejected_before_any_request() {
    let reason = ["--reason", "a migration"];
    for (arguments, part) in [
        (&["pause", "demo"][..], "--reason <REASON>"),
        (&["pause", "--reason", "why"], "<CLUSTER|--account>"),
        (&["pause", "demo", "--account"], "cannot be used with"),
        (&["pause", "demo", "--for", "31d"], "up to 720h (30 days)"),
        (&["pause", "demo", "--for", "721h"], "up to 720h (30 days)"),
        (&["pause", "demo", "--level", "some"], "voluntary, all"),
        (
            &[
                "pause",
                "--account",
                "--node-pool",
                "web",
                "--reason",
                "why",
            ],
            "cannot be used with",
        ),
        (
            &["pause", "demo", "--reason", "\n"],
            "expected one line of 1 to 200 characters",
        ),
        (&["resume"], "<CLUSTER|--account>"),
    ] {
        let refused = whittle(arguments, &[]);
        assert!(!refused.status.success(), "{arguments:?}");
        let stderr = stderr_of(&refused);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    let no_user = [("USER", ""), ("LOGNAME", ""), ("USERNAME", "")];
    let refused = whittle(&[&["pause", "demo"], &reason[..]].concat(), &no_user);
    assert!(
        stderr_of(&refused).contains("say so with --who NAME"),
        "{}",
        stderr_of(&refused)
    );
}

#[cfg(not(feature = "aws"))]
#[test]
fn build_without_aws_feature_names_the_required_feature() {
    for arguments in [
        &["pause", "demo", "--reason", "why", "--who", "ann"][..],
        &["pause", "demo", "--list"],
        &["resume", "demo", "--who", "ann"],
    ] {
        let refused = whittle(arguments, &[]);
        assert!(!refused.status.success());
        let stderr = stderr_of(&refused);
        assert!(stderr.contains("--features aws"), "{stderr}");
    }
}

#[cfg(feature = "aws")]
#[test]
fn pauses_of_two_users_are_resumed_separately() {
    use serde_json::json;

    let moto = harness::Moto::start("demo");
    let environment = [
        ("AWS_ENDPOINT_URL", moto.endpoint()),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("USER", "ann"),
    ];
    let run = |arguments: &[&str]| {
        let output = whittle(arguments, &environment);
        let shown = harness::stdout_of(&output);
        (output.status.success(), shown + &stderr_of(&output))
    };
    let pause = ["pause", "prod", "--reason", "a migration"];
    let (done, why) = run(&pause);
    assert!(
        !done && why.contains("cannot find stack whittle in us-east-1"),
        "{why}"
    );
    assert!(why.contains("--stack"), "{why}");

    moto.put_ledger();
    let (done, why) = run(&pause);
    assert!(
        !done && why.contains("the ledger knows no cluster prod"),
        "{why}"
    );

    moto.put_cluster("prod", &json!({}));
    let entry = json!({"Name": "/whittle/clusters/prod", "Type": "String",
        "Value": r#"{"type":"eks","mode":"active"}"#});
    moto.call("ssm", "put_parameter", entry);

    let (done, shown) = run(&pause);
    assert!(done, "{shown}");
    assert!(
        shown.starts_with("cluster prod is paused (voluntary) until "),
        "{shown}"
    );
    let web = ["pause", "prod", "--node-pool", "web", "--level", "all"];
    let bens = ["--for", "30m", "--reason", "an incident", "--who", "ben"];
    let (done, shown) = run(&[&web[..], &bens].concat());
    assert!(done, "{shown}");
    assert!(
        shown.contains("Besides, the cluster is paused (voluntary) by ann until "),
        "{shown}"
    );
    let account = ["pause", "--account", "--reason", "a freeze", "--who", "cat"];
    assert!(run(&account).0);

    let (done, shown) = run(&["clusters"]);
    assert!(done, "{shown}");
    let table = "NAME   TYPE   MODE     PAUSES\nprod   eks    active   3\n";
    assert_eq!(shown, table);
    let (_, shown) = run(&["clusters", "-o", "wide", "--no-headers"]);
    assert!(
        shown.contains("NodePool web is paused (all) by ben")
            && shown.contains("the account is paused (voluntary) by cat"),
        "{shown}"
    );
    let (_, shown) = run(&["clusters", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(listed.pointer("/0/pauses/0/owner"), Some(&json!("ann")));
    let (done, shown) = run(&["pause", "prod", "--list"]);
    assert!(done, "{shown}");
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|row| row.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(rows.len(), 4, "{shown}");
    for row in [
        ["cluster", "voluntary", "ann"],
        ["nodepool/web", "all", "ben"],
        ["account", "voluntary", "cat"],
    ] {
        assert!(rows.contains(&row.to_vec()), "{row:?}: {shown}");
    }
    let (_, shown) = run(&["pause", "--account", "--list", "-o", "name"]);
    assert_eq!(shown, "cat\n");

    let (done, why) = run(&["resume", "prod", "--who", "ben"]);
    assert!(!done, "{why}");
    assert!(why.contains("ben has not paused cluster prod"), "{why}");
    assert!(why.contains("by ann until"), "{why}");
    let (done, shown) = run(&["resume", "prod"]);
    assert!(done, "{shown}");
    assert!(
        shown.starts_with("ann's pause of cluster prod is over."),
        "{shown}"
    );
    assert!(
        shown.contains("Besides, NodePool web is paused (all) by ben"),
        "{shown}"
    );
    assert!(run(&["resume", "--account", "--who", "cat"]).0);
    assert!(run(&["resume", "prod", "--node-pool", "web", "--who", "ben"]).0);
    let (_, shown) = run(&["clusters", "--no-headers"]);
    assert_eq!(shown, "prod   eks   active   0\n");
    let (done, shown) = run(&["pause", "prod", "--list"]);
    assert!(
        done && shown == "Nothing is paused in cluster prod.\n",
        "{shown}"
    );
}
