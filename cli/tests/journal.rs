//! `whittle journal`, `explain` and `replay`, run on the journal of a simulated cluster.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do, by panicking"
)]

mod recorded;

use std::{fs, process::Output};

use harness::stderr_of;
use model::{NodeName, PodKey};
use recorded::{LIMITED, Recorded};
use stories::{Relay, Rig, all_bound, secs};

/// Journal of a simulated cluster in which three pods got their nodes.
struct Story {
    recorded: Recorded,
    pod: PodKey,
    node: NodeName,
    end: String,
}

async fn story() -> Story {
    let mut rig = Rig::ready(Relay::Watching).await;
    rig.scale(3);
    assert!(rig.until(secs(180), all_bound).await.is_some());
    // The disruption function evaluates the whole cluster at least every ten minutes.
    rig.pass(secs(20 * 60)).await;
    let (pod, node, end) = rig.sim.with(|world| {
        let pod = world.api.pods.values().next().unwrap();
        let node = pod.node_name.clone().unwrap();
        (pod.key.clone(), node, world.now.to_string())
    });
    Story {
        recorded: Recorded::of(&rig),
        pod,
        node,
        end,
    }
}

impl Story {
    fn whittle(&self, arguments: &[&str]) -> Output {
        self.recorded.whittle(arguments)
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.whittle(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr_of(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.whittle(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let stderr = stderr_of(&output);
        assert!(!stderr.contains("panicked"), "{stderr}");
        stderr
    }

    /// Name of the turn that launched the node.
    fn launching_turn(&self) -> String {
        let list = self.list(&["--lane", "provisioner", "-o", "json"]);
        let records = list.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut launching =
            records.filter(|record: &serde_json::Value| record["launched"][0].is_object());
        let launching = launching.next().unwrap();
        launching["turn"].as_str().unwrap().to_owned()
    }

    fn list(&self, arguments: &[&str]) -> String {
        let all = [
            "journal",
            "demo",
            "--since",
            "2000-01-01T00:00:00Z",
            "--until",
            "2100-01-01T00:00:00Z",
        ];
        self.succeeds(&[&all[..], arguments].concat())
    }
}

#[tokio::test]
async fn decisions_are_listed_and_one_turn_is_shown_in_full() {
    let story = story().await;
    let list = story.list(&[]);
    assert!(list.contains("  provisioner  turn "), "{list}");
    assert!(list.contains("  plans     launch default-"), "{list}");
    assert!(list.contains("  launched  default-"), "{list}");
    assert!(
        !story
            .list(&["--lane", "provisioner"])
            .contains("  lifecycle  ")
    );
    let turn = story.launching_turn();
    let whole = story.succeeds(&["journal", "demo", &turn]);
    assert!(
        whole.contains(&format!("whittle replay demo {turn}")),
        "{whole}"
    );
    assert!(whole.contains("0 nodes, 0 NodeClaims, 3 pods"), "{whole}");
}

#[tokio::test]
async fn pod_node_and_node_pool_are_explained() {
    let story = story().await;
    let pod = story.pod.name.as_str();
    let at = ["--at", story.end.as_str(), "--cluster", "demo"];
    let explain = |object: &[&str]| story.succeeds(&[&["explain"], object, &at[..]].concat());
    let of_pod = explain(&["pod", pod]);
    assert!(
        of_pod.starts_with(&format!("pod/default/{pod}\n")),
        "{of_pod}"
    );
    assert!(of_pod.contains("plans     launch default-"), "{of_pod}");
    let placed = format!("on node {}", story.node);
    assert!(of_pod.contains(&placed), "{placed}: {of_pod}");
    let before = ["--at", "2026-01-01T00:02:45Z", "--cluster", "demo"];
    let waited = story.succeeds(&[&["explain", "pod", pod], &before[..]].concat());
    assert!(
        waited.contains("was to get a new node of NodePool default"),
        "{waited}"
    );
    let of_node = explain(&[&format!("node/{}", story.node)]);
    assert!(
        of_node.contains("launch default-"),
        "the node's history includes its NodeClaim's: {of_node}"
    );
    assert!(
        of_node.contains("pods on it") && of_node.contains("stays"),
        "{of_node}"
    );
    let of_pool = explain(&["nodepool", "default"]);
    assert!(of_pool.contains("instance types are allowed"), "{of_pool}");
}

#[tokio::test]
async fn timeline_shows_every_step_of_the_launching_turn() {
    let story = story().await;
    let node = format!("node/{}", story.node);
    let at = ["--at", story.end.as_str(), "--cluster", "demo"];
    let text = story.succeeds(&[&["explain", &node, "--timeline"], &at[..]].concat());
    let steps = [
        "of the provisioner begins",
        "cluster and ledger are read",
        "plan is made and checked",
        "plan is committed",
        "EC2 has answered CreateFleet",
    ];
    let lines: Vec<&str> = text.lines().skip(2).collect();
    assert_eq!(lines.len(), steps.len(), "{text}");
    for (line, step) in lines.iter().zip(steps) {
        assert!(line.ends_with(step), "{step}: {text}");
    }
    let of_pool = story.fails(&[&["explain", "nodepool/default", "--timeline"], &at[..]].concat());
    assert!(
        of_pool.contains("--timeline is for nodes and NodeClaims"),
        "{of_pool}"
    );
}

#[tokio::test]
async fn turn_is_replayed_with_changed_manifests() {
    let story = story().await;
    let turn = story.launching_turn();
    let same = story.succeeds(&["replay", "demo", &turn]);
    assert!(same.contains("nodes come, 0 go"), "{same}");
    let without = story.succeeds(&["replay", "demo", &turn, "--without", "default"]);
    assert!(
        without.contains("With the changes: 0 nodes come"),
        "{without}"
    );
    assert!(
        without.contains("\n- launch ") && without.contains("\n+ leave default/"),
        "{without}"
    );
    let pool = story.recorded.path().join("pool.yaml");
    fs::write(&pool, LIMITED).unwrap();
    let pool = pool.to_str().unwrap();
    let limited = story.succeeds(&["replay", "demo", &turn, "--with", pool]);
    assert!(limited.contains("3 pods find no place"), "{limited}");
}

#[tokio::test]
async fn invalid_arguments_are_reported_without_panic() {
    let story = story().await;
    let turn = story.launching_turn();
    let explain = ["explain", "--cluster", "demo"];
    let broken = story.recorded.path().join("broken.yaml");
    fs::write(
        &broken,
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nspec: [",
    )
    .unwrap();
    let broken = broken.to_str().unwrap();
    let other = story.recorded.path().join("other.yaml");
    fs::write(
        &other,
        LIMITED.replace("EC2NodeClass, name: default", "EC2NodeClass, name: gpu"),
    )
    .unwrap();
    let other = other.to_str().unwrap();
    for (arguments, part) in [
        (
            &[&explain[..], &["pod", "nobody"]].concat()[..],
            "says nothing about pod/default/nobody",
        ),
        (
            &[&explain[..], &["service", "web"]].concat(),
            "expected pod, node, nodeclaim or nodepool",
        ),
        (
            &[&explain[..], &["pod", "web", "--at", "noon"]].concat(),
            "expected a time such as",
        ),
        (
            &["journal", "demo", "turn-9999"],
            "has no record of turn turn-9999",
        ),
        (&["journal", "other"], "other.jsonl"),
        (
            &[
                "journal",
                "demo",
                "--since",
                "2026-01-02T00:00:00Z",
                "--until",
                "2026-01-01T00:00:00Z",
            ],
            "is not before",
        ),
        (
            &["replay", "demo", &turn, "--with", broken],
            "nothing was replayed",
        ),
        (
            &["replay", "demo", &turn, "--with", other],
            "names EC2NodeClass gpu",
        ),
        (
            &["replay", "demo", &turn, "--set", "optimize=never"],
            "expected cost or upstream",
        ),
        (
            &["replay", "demo", &turn, "--set", "NodeRepairs=true"],
            "expected preferencePolicy",
        ),
        (
            &["replay", "demo", &turn, "--set", "nodeRepair=on"],
            "expected true or false",
        ),
    ] {
        let stderr = story.fails(arguments);
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

#[tokio::test]
async fn record_of_a_newer_version_is_skipped_with_a_warning() {
    let story = story().await;
    let file = story.recorded.path().join("demo.jsonl");
    let records = fs::read_to_string(&file).unwrap();
    fs::write(&file, records.replacen("\"version\":1", "\"version\":2", 1)).unwrap();
    let output = story.whittle(&[
        "journal",
        "demo",
        "--since",
        "2000-01-01T00:00:00Z",
        "--until",
        "2100-01-01T00:00:00Z",
    ]);
    assert!(output.status.success());
    assert!(
        stderr_of(&output).contains("newer version"),
        "{}",
        stderr_of(&output)
    );
    assert!(!output.stdout.is_empty(), "other records are listed");
}
