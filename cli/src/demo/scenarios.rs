//! Walkthroughs from Karpenter's documentation, typed with the real kubectl into a simulated cluster.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
};

use jiff::SignedDuration;
use model::Lane;
use sandbox::{
    WorldClock,
    faults::{Effect, Fault},
};
use tokio::sync::mpsc;
use turns::Outcome;

use super::{
    lanes::next_turn,
    names::CLUSTER,
    picture::{Picture, Stage, is_running},
    story::{Missing, Story},
    world::{KUBECONFIG, World},
};
use crate::catalogs;

const INFLATE: &str = include_str!("../../tests/walkthroughs/inflate.yaml");
const UPGRADE: &str = include_str!("manifests/drift.yaml");

async fn world() -> World {
    let catalog = Arc::new(catalogs::us_east_1().unwrap());
    let clock = WorldClock::accelerated(100, SignedDuration::from_hours(2));
    let (sender, _messages) = mpsc::unbounded_channel();
    Box::pin(World::start(catalog, clock, sender))
        .await
        .unwrap()
}

fn story(world: &World) -> Story<'_> {
    let (sender, _messages) = mpsc::unbounded_channel();
    let mut story = Story::new(world, sender);
    story.timeout = SignedDuration::from_hours(2);
    story
}

/// Runs kubectl and returns its output; `input` is its standard input, for `-f -`.
pub(super) async fn kubectl(world: &World, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(harness::tool("bin/kubectl"));
    command
        .args(arguments)
        .env("KUBECONFIG", world.directory().join(KUBECONFIG))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let input = input.to_owned();
    let typed = tokio::task::spawn_blocking(move || {
        let mut running = command.spawn().unwrap();
        running
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        running.wait_with_output().unwrap()
    });
    let output = typed.await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn inflate_scales_up_shows_its_nodes_and_scales_to_zero() {
    let world = world().await;
    let mut story = story(&world);
    let manifests = INFLATE.replace("replicas: 10", "replicas: 0");
    kubectl(&world, &["apply", "-f", "-"], &manifests).await;

    kubectl(
        &world,
        &["scale", "deployment", "inflate", "--replicas=10"],
        "",
    )
    .await;
    story.runs("inflate", 10).await;
    assert_eq!(story.missing, Vec::<Missing>::new());
    let shown = kubectl(&world, &["get", "nodeclaims"], "").await;
    let mut lines = shown.lines();
    let columns: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        columns,
        ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]
    );
    let mut nodes = 0;
    for line in lines {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [name, kind, capacity, zone, node, ready, _age] = cells.as_slice() else {
            panic!("{line}");
        };
        assert!(
            name.starts_with("default-") && kind.contains('.') && node.starts_with("ip-"),
            "{line}"
        );
        assert!(
            ["spot", "on-demand"].contains(capacity) && zone.starts_with("us-east-1"),
            "{line}"
        );
        assert_eq!(*ready, "True", "{line}");
        nodes += 1;
    }
    assert!(nodes > 0);

    kubectl(
        &world,
        &["scale", "deployment", "inflate", "--replicas=0"],
        "",
    )
    .await;
    story.all_gone().await;
    assert_eq!(story.missing, Vec::<Missing>::new());
    world.stop().await;
}

/// Three pods on separate nodes under a budget that allows one disruption.
#[tokio::test]
async fn upgraded_control_plane_replaces_nodes_one_by_one_under_the_budget() {
    let world = world().await;
    let mut story = story(&world);
    kubectl(&world, &["apply", "-f", "-"], UPGRADE).await;
    story.runs("web", 3).await;
    assert_eq!(story.missing, Vec::<Missing>::new());
    let claims = |picture: &Picture| -> BTreeSet<String> {
        picture
            .claims
            .iter()
            .map(|claim| claim.name.to_string())
            .collect()
    };
    let before = claims(&world.pictures().borrow());
    assert_eq!(before.len(), 3);

    world.upgrade_kubernetes("1.38");
    let wrong = RefCell::new(Vec::new());
    let replaced = story
        .wait(|picture| {
            let running = picture.pods_of("web").filter(|pod| is_running(pod)).count();
            if running < 2 {
                wrong.borrow_mut().push(format!("{running} of 3 pods run"));
            }
            let lines = picture.lines();
            let ready = lines
                .iter()
                .filter(|line| line.stage == Stage::Ready)
                .count();
            let leaves = lines.iter().any(|line| line.stage == Stage::Leaving);
            if leaves && ready < 3 {
                wrong
                    .borrow_mut()
                    .push(format!("a node leaves while {ready} are ready"));
            }
            let now = claims(picture);
            now.is_disjoint(&before) && running == 3 && !leaves
        })
        .await;
    assert_eq!(wrong.into_inner(), Vec::<String>::new());
    if let Err(picture) = replaced {
        panic!("{:?} of {before:?} are left", claims(&picture));
    }
    world.stop().await;
}

/// A server that sends an endless answer costs the turn that queries it, and nothing more.
#[tokio::test]
async fn endless_answer_fails_one_turn_and_the_next_one_succeeds() {
    let world = world().await;
    let turn = async || {
        let provisioner = world.of(Lane::Provisioner);
        let deadline = world.now() + turns::budget(Lane::Provisioner);
        let (cluster, id) = (CLUSTER.into(), next_turn());
        let run = turns::run(&provisioner, &cluster, Lane::Provisioner, &id, deadline);
        Box::pin(run).await.unwrap().outcome
    };
    let endless = Fault::new(Effect::Endless, u32::MAX);
    let sandbox = world.sandbox();
    sandbox.inject(endless.on_verb("list").on_resource("nodes"));
    let outcome = turn().await;
    sandbox.clear_faults();
    let Outcome::Failed(why) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(why.contains("larger than 64 MiB"), "{why}");
    assert!(!matches!(turn().await, Outcome::Failed(_)));
    world.stop().await;
}
