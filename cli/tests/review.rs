//! `whittle review` and `whittle compare`, run on three hours of a simulated cluster.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do, by panicking"
)]

mod recorded;

use std::fs;

use harness::stderr_of;
use recorded::{LIMITED, Recorded};
use stories::{Relay, Rig, all_bound, secs};

const SINCE: [&str; 4] = [
    "--since",
    "2000-01-01T00:00:00Z",
    "--until",
    "2100-01-01T00:00:00Z",
];

/// Journal of three hours: six pods are created, and four of them are deleted after an hour.
async fn recorded_journal() -> Recorded {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(6);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    rig.pass(secs(3600)).await;
    rig.scale(2);
    rig.pass(secs(2 * 3600)).await;
    Recorded::of(&rig)
}

#[tokio::test]
async fn review_prints_a_report_and_exits_with_its_result() {
    let journal = recorded_journal().await;
    let review = |arguments: &[&str]| {
        let all = [&["review", "demo"], &SINCE[..], arguments].concat();
        let output = journal.whittle(&all);
        let page = String::from_utf8(output.stdout.clone()).unwrap();
        (output.status.code(), page, stderr_of(&output))
    };
    let (code, page, stderr) = review(&[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(page.starts_with("# Review of cluster demo\n"), "{page}");
    assert!(page.contains("None that these views show."), "{page}");
    let cost = page
        .lines()
        .find(|line| line.starts_with("| Cost per hour"));
    let cost = cost.unwrap().split('|').map(str::trim);
    let [was, is] = cost.skip(2).take(2).collect::<Vec<_>>()[..] else {
        panic!("{page}");
    };
    assert_eq!(was, is, "nothing changes");
    assert_ne!(was, "$0.0000", "{page}");
    let pool = journal.path().join("pool.yaml");
    fs::write(&pool, LIMITED).unwrap();
    let (code, page, stderr) = review(&["--with", pool.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(page.contains("**Worse:** Pods find no place"), "{page}");
    let (code, page, _) = review(&["--without", "default"]);
    assert_eq!(code, Some(2));
    assert!(
        page.contains("NodePool `default`: 1 node to be replaced"),
        "{page}"
    );
}

#[tokio::test]
async fn compare_shows_actual_and_planned_nodes_side_by_side() {
    let journal = recorded_journal().await;
    let output = journal.whittle(&[&["compare", "demo"], &SINCE[..]].concat());
    assert!(output.status.success(), "{}", stderr_of(&output));
    let page = String::from_utf8(output.stdout).unwrap();
    let row = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(name)).unwrap();
        let numbers = line.split_whitespace().rev().take(2);
        numbers.map(str::to_owned).collect::<Vec<_>>()
    };
    // Whittle managed this cluster, so its plan is close to what happened.
    for cost in row("Nodes, per hour") {
        assert_ne!(cost, "$0.0000", "{page}");
    }
    assert!(
        row("Nodes launched").iter().all(|number| number != "0"),
        "{page}"
    );
}

#[tokio::test]
async fn too_few_views_and_invalid_arguments_are_reported() {
    let journal = recorded_journal().await;
    for (arguments, part) in [
        (
            &["review", "demo", "--since", "1h"][..],
            "two are the least",
        ),
        (&["compare", "other"], "other.jsonl"),
        (
            &["compare", "demo", "--instead-of", "=x"],
            "expected a label's key",
        ),
        (
            &["review", "demo", "--with", "/nowhere.yaml"],
            "cannot read /nowhere.yaml",
        ),
    ] {
        let output = journal.whittle(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert_ne!(output.status.code(), Some(101), "{}", stderr_of(&output));
        assert!(stderr_of(&output).contains(part), "{}", stderr_of(&output));
    }
}
