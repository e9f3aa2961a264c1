//! Preferences that consolidation relaxes because they cost more than their value.

use model::pod::{NodeSelectorTerm, PodAffinityTerm};

use super::*;

const HOSTNAME: &str = "kubernetes.io/hostname";

fn near(app: &str, key: &str) -> (i32, PodAffinityTerm) {
    let term = PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: Some(LabelSelector {
            match_labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
            ..LabelSelector::default()
        }),
        ..PodAffinityTerm::default()
    };
    (100, term)
}

fn stays(pod: &mut Pod) {
    let annotations = &mut pod.annotations;
    annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
}

fn call(pod: &mut Pod, app: &str) {
    pod.shape.labels.insert("app".to_owned(), app.to_owned());
}

fn move_to_zone(snapshot: &mut Snapshot, node: usize, zone: &str) {
    for labels in [
        &mut snapshot.nodes[node].labels,
        &mut snapshot.node_claims[node].labels,
    ] {
        labels.insert(ZONE.to_owned(), zone.to_owned());
    }
}

/// Removed nodes, with the instance types of each replacement.
fn moves(cluster: &TestCluster) -> Vec<(Vec<String>, Vec<Vec<String>>)> {
    let commands = cluster.commands().into_iter();
    commands
        .map(|(_, nodes, replacements)| (nodes, replacements))
        .collect()
}

fn gone(replacements: &[&str]) -> Vec<(Vec<String>, Vec<Vec<String>>)> {
    let replacements = replacements.iter().map(|kind| vec![(*kind).to_owned()]);
    vec![(vec!["n".to_owned()], replacements.collect())]
}

/// A pod on a medium node in its preferred zone, although a small one would suffice, and a node in another zone with room for it.
fn between_zones(worth: i64) -> TestCluster {
    TestCluster::new()
        .node("n", "medium", &[500])
        .node("other", "small", &[1_400])
        .with(|snapshot| {
            snapshot.settings.optimize = Optimize::Cost;
            snapshot.settings.preference_worth = NanosPerHour(worth);
            move_to_zone(snapshot, 1, "b");
            stays(&mut snapshot.pods[1]);
            let term = NodeSelectorTerm {
                match_expressions: vec![one_of(ZONE, &["a"])],
                match_fields: Vec::new(),
            };
            snapshot.pods[0].node_affinity.preferred = vec![(100, term)];
        })
}

#[test]
fn preference_is_relaxed_if_a_replacement_costs_more_than_its_worth() {
    assert_eq!(moves(&between_zones(90_000_000)), gone(&[]));
    assert_eq!(moves(&between_zones(110_000_000)), gone(&["small"]));
}

#[test]
fn with_optimize_upstream_preferences_are_kept_at_any_price() {
    let cluster = between_zones(0).with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert_eq!(moves(&cluster), gone(&["small"]));
}

#[test]
fn preference_already_violated_does_not_block_consolidation() {
    let cluster = TestCluster::new()
        .node("n", "small", &[100, 100, 100])
        .node("other", "small", &[1_400])
        .with(|snapshot| {
            snapshot.settings.optimize = Optimize::Cost;
            snapshot.settings.preference_worth = NanosPerHour(1_000_000_000);
            for pod in &mut snapshot.pods[..3] {
                call(pod, "dns");
                pod.pod_anti_affinity.preferred = vec![near("dns", HOSTNAME)];
            }
            stays(&mut snapshot.pods[3]);
        });
    assert_eq!(moves(&cluster), gone(&[]));
}

/// A pod that prefers the zone of the cache and nodes without the noisy pod, a node that satisfies one of these, and another
/// one with room.
fn near_the_noisy_pod(worth: i64) -> TestCluster {
    TestCluster::new()
        .node("n", "medium", &[500])
        .node("near", "small", &[700, 700])
        .node("far", "small", &[1_400])
        .with(|snapshot| {
            snapshot.settings.optimize = Optimize::Cost;
            snapshot.settings.preference_worth = NanosPerHour(worth);
            move_to_zone(snapshot, 2, "b");
            for (at, app) in [(1, "noisy"), (2, "cache"), (3, "other")] {
                call(&mut snapshot.pods[at], app);
                stays(&mut snapshot.pods[at]);
            }
            let pod = &mut snapshot.pods[0];
            pod.pod_affinity.preferred = vec![near("cache", ZONE)];
            pod.pod_anti_affinity.preferred = vec![near("noisy", HOSTNAME)];
        })
}

/// A replacement costs $0.1/h.
#[test]
fn only_the_preference_that_costs_too_much_is_relaxed() {
    assert_eq!(moves(&near_the_noisy_pod(80_000_000)), gone(&[]));
    assert_eq!(moves(&near_the_noisy_pod(110_000_000)), gone(&["small"]));
}
