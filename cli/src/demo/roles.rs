//! Test that compares the requests of functions with the rights in the chart's roles, in both directions: no request is refused, and no
//! right is unused except those listed here with a reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use model::{
    CapacityType, Lane,
    interruption::{Interruption, InterruptionKind},
};
use sandbox::{Credential, WorldClock};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    identities::Identities,
    lanes::next_turn,
    scenarios::kubectl,
    story::{Missing, Story},
    world::World,
};
use crate::catalogs;

const MANIFESTS: &str = include_str!("../../tests/walkthroughs/roles.yaml");

/// Time limit: a refusal may keep the scenario from completing, and is reported.
const TIMEOUT: Duration = Duration::from_secs(600);

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
const EXCUSED: [(&str, &str, &str); 14] = [
    ("whittle:lifecycle", "create nodeclaims", "static NodePools"),
    (
        "whittle:lifecycle",
        "delete nodeclaims",
        "static NodePools, expiry, repair, time-outs",
    ),
    ("whittle:disruption", "get pods", REPLACED),
    ("whittle:disruption", "create nodeclaims", REPLACED),
    ("whittle:disruption", "patch nodeclaims", REPLACED),
    ("whittle:disruption", "patch nodeclaims/status", REPLACED),
    (
        "whittle:terminator",
        "delete nodeclaims",
        "notices that wait for a replacement or for their NodeClaim",
    ),
    (
        "whittle:housekeeper",
        "delete nodeclaims",
        "NodeClaims whose instance is gone",
    ),
    ("whittle:housekeeper", "list nodepools", ORPHANED),
    ("whittle:housekeeper", "get nodes", ORPHANED),
    ("whittle:housekeeper", "patch nodes", ORPHANED),
    ("whittle:housekeeper", "delete nodes", ORPHANED),
    (
        "whittle:housekeeper",
        "create events",
        "zonal shifts, and objects that refuse to be deleted",
    ),
    (
        "whittle:leader-election-holder",
        "patch leases",
        "the Lease is renewed: tests/suites/cluster_api.rs",
    ),
];
const REPLACED: &str = "nodes that are replaced, as after drift";
const ORPHANED: &str = "nodes in service that no NodeClaim names";

/// Values of the chart: the leader Lease's namespace, and optional rights.
const VALUES: [&str; 2] = [
    "leaderElection.namespace=kube-system",
    "settings.featureGates.podDeletionCostManagement=true",
];

async fn world() -> World {
    let catalog = Arc::new(catalogs::us_east_1().unwrap());
    let clock = WorldClock::accelerated(100, SignedDuration::from_hours(2));
    let (sender, _messages) = mpsc::unbounded_channel();
    let member = |lane: Lane| {
        let group = format!("whittle:{lane}");
        (lane, Credential::member(lane.as_str(), &[&group]))
    };
    let mut manifests = harness::rendered_chart(&VALUES);
    let kinds = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ConfigMap",
    ];
    manifests.retain(|object| kinds.iter().any(|kind| object["kind"] == *kind));
    let gates =
        json!({"CapacityBuffer": true, "NodeOverlay": true, "PodDeletionCostManagement": true});
    let spread = json!({"podTopologySpread": {"defaultConstraints": [
        {"maxSkew": 3, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    ]}});
    let identities = Identities {
        of_lanes: LANES.map(member).into(),
        manifests,
        cached_above: Some(0),
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
    for object in harness::rendered_chart(&VALUES) {
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

/// Scenario: nodes are launched, except one without capacity. One gets a spot warning, another fails EC2's checks, and all are deleted
/// under pods that resist eviction. Their replacements are removed once they are empty.
async fn run_scenario(world: &World) {
    let (sender, _messages) = mpsc::unbounded_channel();
    let mut story = Story::new(world, sender);
    story.timeout = SignedDuration::from_hours(2);
    kubectl(world, &["apply", "-f", "-"], MANIFESTS).await;
    story.runs("web", 3).await;
    story.runs("stubborn", 1).await;
    assert_eq!(story.missing, Vec::<Missing>::new());

    let no_capacity = (CapacityType::Spot, "c5.large".into(), "us-east-1a".into());
    world.set_capacity(no_capacity, 0);
    kubectl(
        world,
        &["scale", "deployment", "scarce", "--replicas=1"],
        "",
    )
    .await;
    let failed = story
        .wait(|_| is_used(world, "whittle:provisioner", "delete nodeclaims"))
        .await;
    assert!(failed.is_ok(), "a NodeClaim without capacity goes");
    kubectl(world, &["delete", "deployment", "scarce"], "").await;

    // Sends a spot warning, and the failure of a status check.
    let picture = world.pictures().borrow().clone();
    let alive = picture
        .claims
        .iter()
        .filter(|claim| claim.deleted_at.is_none());
    let instances = alive.filter_map(|claim| picture.instance_of(claim));
    let kinds = [
        InterruptionKind::SpotInterrupted,
        InterruptionKind::SystemStatus,
    ];
    let facts = instances.zip(kinds).map(|(priced, kind)| Interruption {
        instance: priced.instance.id.clone(),
        kind,
        at: Some(world.now()),
        deadline: Some(world.now() + SignedDuration::from_mins(2)),
        hook: None,
        event: kind.as_str().to_owned(),
        reboots: false,
    });
    let facts: Vec<Interruption> = facts.collect();
    assert_eq!(facts.len(), kinds.len());
    let interruption = world.of(Lane::Interruption);
    let outcomes = Box::pin(turns::interrupt(&interruption, &facts, &next_turn())).await;
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

/// Whether a right has been used.
fn is_used(world: &World, role: &str, right: &str) -> bool {
    let accesses = world.sandbox().accesses();
    accesses.iter().any(|access| {
        access.role.as_deref() == Some(role)
            && format!("{} {}", access.verb, access.resource) == right
    })
}
