//! Test that compares the requests of functions with the rights in the chart's roles, in both directions: no request is refused, and no
//! right is unused except those listed here with a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use model::{
    Lane,
    interruption::{Interruption, InterruptionKind},
};
use sandbox::{Credential, WorldClock};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    lanes::next_turn,
    scenarios::kubectl,
    story::{Missing, Story},
    world::{Identities, World},
};
use crate::catalogs;

const MANIFESTS: &str = include_str!("../../tests/walkthroughs/roles.yaml");

/// Time limit: a refusal may keep the scenario from completing, and is reported.
const TIMEOUT: Duration = Duration::from_secs(240);

const LANES: [Lane; 6] = [
    Lane::Provisioner,
    Lane::Lifecycle,
    Lane::Disruption,
    Lane::Terminator,
    Lane::Interruption,
    Lane::Housekeeper,
];

/// Verb and resource of a right.
type Right = (String, String);

/// Rights that this scenario does not use: role, right, and the feature that needs it.
const EXCUSED: [(&str, &str, &str); 51] = [
    ("whittle:provisioner", "get namespaces", CONNECTS),
    ("whittle:lifecycle", "get namespaces", CONNECTS),
    ("whittle:disruption", "get namespaces", CONNECTS),
    ("whittle:terminator", "get namespaces", CONNECTS),
    ("whittle:interruption", "get namespaces", CONNECTS),
    ("whittle:provisioner", "watch nodes", LARGE),
    ("whittle:provisioner", "watch pods", LARGE),
    ("whittle:provisioner", "watch nodeclaims", LARGE),
    ("whittle:lifecycle", "watch nodes", LARGE),
    ("whittle:lifecycle", "watch pods", LARGE),
    ("whittle:lifecycle", "watch nodeclaims", LARGE),
    ("whittle:disruption", "watch nodes", LARGE),
    ("whittle:disruption", "watch pods", LARGE),
    ("whittle:disruption", "watch nodeclaims", LARGE),
    ("whittle:terminator", "watch nodes", LARGE),
    ("whittle:terminator", "watch pods", LARGE),
    ("whittle:terminator", "watch nodeclaims", LARGE),
    ("whittle:housekeeper", "watch nodes", LARGE),
    ("whittle:housekeeper", "watch nodeclaims", LARGE),
    ("whittle:provisioner", "get nodes", OBSERVED),
    ("whittle:provisioner", "delete nodeclaims", FAILED),
    ("whittle:provisioner", "get pods", REREAD),
    ("whittle:lifecycle", "get pods", OBSERVED),
    (
        "whittle:lifecycle",
        "create nodeclaims",
        "static capacity, and launches that it resumes",
    ),
    (
        "whittle:lifecycle",
        "delete nodeclaims",
        "expiry, repair, time-outs",
    ),
    ("whittle:disruption", "get pods", REREAD),
    ("whittle:disruption", "delete nodeclaims", FAILED),
    (
        "whittle:disruption",
        "create nodeclaims",
        "replacements are launched by whoever resumes them first",
    ),
    (
        "whittle:disruption",
        "patch nodeclaims",
        "replacements are launched by whoever resumes them first",
    ),
    (
        "whittle:disruption",
        "patch nodeclaims/status",
        "replacements are launched by whoever resumes them first",
    ),
    ("whittle:terminator", "get pods", OBSERVED),
    (
        "whittle:terminator",
        "delete nodeclaims",
        "notices that wait for their NodeClaim",
    ),
    ("whittle:housekeeper", "get nodes", "orphans that are nodes"),
    (
        "whittle:housekeeper",
        "patch nodes",
        "orphans that are nodes",
    ),
    (
        "whittle:housekeeper",
        "delete nodes",
        "orphans that are nodes",
    ),
    (
        "whittle:housekeeper",
        "delete nodeclaims",
        "NodeClaims whose instance is gone",
    ),
    ("whittle:provisioner", "get replicasets", REFERRED),
    ("whittle:provisioner", "get statefulsets", REFERRED),
    ("whittle:lifecycle", "get replicasets", REFERRED),
    ("whittle:lifecycle", "get statefulsets", REFERRED),
    ("whittle:lifecycle", "list replicasets", OBSERVED),
    ("whittle:lifecycle", "list statefulsets", OBSERVED),
    ("whittle:lifecycle", "list replicationcontrollers", OBSERVED),
    ("whittle:lifecycle", "list services", OBSERVED),
    ("whittle:disruption", "get replicasets", REFERRED),
    ("whittle:disruption", "get statefulsets", REFERRED),
    (
        "whittle:interruption",
        "patch nodeclaims",
        "notices that leave a drain a deadline",
    ),
    ("whittle:housekeeper", "create events", SHIFTED),
    ("whittle:housekeeper", "list nodepools", SHIFTED),
    (
        "whittle:leader-election-holder",
        "patch leases",
        "the Lease is renewed: tests/suites/cluster_api.rs",
    ),
    (
        "whittle:leader-election-holder",
        "update leases",
        "functions of earlier versions replace the Lease",
    ),
];
const REFERRED: &str = "CapacityBuffers that refer to one";
const SHIFTED: &str = "zonal shifts, and pauses of NodePools while instances are collected";
const CONNECTS: &str =
    "deployed functions ask which cluster they have connected to; those of the demo do not";
const LARGE: &str = "kinds of more than 500 objects: shared/k8s/tests/memory.rs";
const OBSERVED: &str = "all that plan have the same rights to read";
const REREAD: &str = "pods are read again before a launch is committed";
const FAILED: &str = "launches that found no capacity";

async fn world() -> World {
    let catalog = Arc::new(catalogs::us_east_1().unwrap());
    let clock = WorldClock::accelerated(100, SignedDuration::from_hours(2));
    let (sender, _messages) = mpsc::unbounded_channel();
    let member = |lane: Lane| {
        let group = format!("whittle:{lane}");
        (lane, Credential::member(lane.as_str(), &[&group]))
    };
    let mut manifests = harness::rendered_chart(&["leaderElection.namespace=kube-system"]);
    let kinds = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ConfigMap",
    ];
    manifests.retain(|object| kinds.iter().any(|kind| object["kind"] == *kind));
    let gates = json!({"CapacityBuffer": true, "NodeOverlay": true});
    let spread = json!({"podTopologySpread": {"defaultConstraints": [
        {"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    ]}});
    let identities = Identities {
        of_lanes: LANES.map(member).into(),
        manifests,
        settings: [
            ("featureGates".to_owned(), gates),
            ("schedulerConfig".to_owned(), spread),
        ]
        .into_iter()
        .collect(),
    };
    Box::pin(World::start_as(catalog, clock, sender, identities))
        .await
        .unwrap()
}

#[tokio::test]
async fn functions_use_exactly_the_rights_of_the_chart() {
    let world = world().await;
    let walked = tokio::time::timeout(TIMEOUT, run_scenario(&world)).await;
    let accesses = world.sandbox().accesses();
    let refused: Vec<_> = accesses.iter().filter(|used| used.role.is_none()).collect();
    assert!(refused.is_empty(), "the chart does not grant {refused:#?}");

    assert!(walked.is_ok(), "the walk does not end");

    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for access in accesses {
        let right = format!("{} {}", access.verb, access.resource);
        let role = access.role.unwrap_or_default();
        used.entry(role).or_default().insert(right);
    }
    let granted = granted();
    let is_used = |(role, right): &&Right| used.get(role).is_some_and(|used| used.contains(right));
    let excused: BTreeSet<Right> = EXCUSED
        .iter()
        .map(|(role, right, _)| ((*role).to_owned(), (*right).to_owned()))
        .collect();
    let idle: Vec<&Right> = granted
        .iter()
        .filter(|right| !is_used(right) && !excused.contains(*right))
        .collect();
    assert!(idle.is_empty(), "granted, and used by nobody: {idle:#?}");
    let stale: Vec<&Right> = excused.difference(&granted).collect();
    assert!(stale.is_empty(), "excused, and not granted: {stale:#?}");
    world.stop().await;
}

/// All rights in the roles of functions.
fn granted() -> BTreeSet<Right> {
    let strings = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut granted = BTreeSet::new();
    for object in harness::chart_rbac() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let is_of_functions = object["kind"].as_str().unwrap().ends_with("Role")
            && name.starts_with("whittle:")
            && !name.starts_with("whittle:aggregate")
            && name != "whittle:status-reader";
        for rule in object["rules"].as_array().into_iter().flatten() {
            for verb in strings(&rule["verbs"]).iter().filter(|_| is_of_functions) {
                for resource in strings(&rule["resources"]) {
                    granted.insert((name.to_owned(), format!("{verb} {resource}")));
                }
            }
        }
    }
    granted
}

/// Scenario: nodes are launched, one gets a spot warning, others are deleted under pods that resist eviction, and the replacements are
/// removed once they are empty.
async fn run_scenario(world: &World) {
    let (sender, _messages) = mpsc::unbounded_channel();
    let mut story = Story::new(world, sender);
    story.timeout = SignedDuration::from_hours(2);
    kubectl(world, &["apply", "-f", "-"], MANIFESTS).await;
    story.runs("web", 3).await;
    story.runs("stubborn", 1).await;
    assert_eq!(story.missing, Vec::<Missing>::new());

    // Sends a spot warning.
    let picture = world.pictures().borrow().clone();
    let warned = picture
        .claims
        .iter()
        .find(|claim| claim.deleted_at.is_none());
    let warned = warned.unwrap().clone();
    let instance = picture.instance_of(&warned).unwrap().instance.id.clone();
    let fact = Interruption {
        instance,
        kind: InterruptionKind::SpotInterrupted,
        at: Some(world.now()),
        deadline: Some(world.now() + SignedDuration::from_mins(2)),
        hook: None,
        event: "warning".to_owned(),
        reboots: false,
    };
    let interruption = world.of(Lane::Interruption);
    let outcomes = Box::pin(turns::interrupt(&interruption, &[fact], &next_turn())).await;
    let heeded = outcomes
        .iter()
        .flatten()
        .all(|outcome| outcome.as_str() == "recorded");
    assert!(heeded, "{outcomes:?}");
    assert!(!format!("{outcomes:?}").contains("Denied"), "{outcomes:?}");

    // Deletes nodes, one of them under a pod that must not be disrupted.
    let deleted = claims(world);
    kubectl(
        world,
        &["delete", "nodeclaims", "--all", "--wait=false"],
        "",
    )
    .await;
    let gone = story
        .wait(|picture| {
            let mut left = picture.claims.iter();
            !left.any(|claim| deleted.contains(claim.name.as_str()))
        })
        .await;
    assert!(gone.is_ok(), "nodes that are deleted go");
    story.runs("web", 3).await;
    kubectl(world, &["delete", "capacitybuffers", "--all"], "").await;
    for deployment in ["web", "stubborn"] {
        let scale = ["scale", "deployment", deployment, "--replicas=0"];
        kubectl(world, &scale, "").await;
    }
    story.all_gone().await;
    assert_eq!(story.missing, Vec::<Missing>::new());
    kubectl(world, &["delete", "nodepools,ec2nodeclasses", "--all"], "").await;
}

fn claims(world: &World) -> BTreeSet<String> {
    let picture = world.pictures().borrow().clone();
    let names = picture.claims.iter().map(|claim| claim.name.to_string());
    names.collect()
}
