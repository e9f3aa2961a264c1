//! Preferences of pods, and NodePools that differ only in price.

use model::{
    pod::{NodeSelectorTerm, PodAffinityTerm, TopologySpread, WhenUnsatisfiable},
    taint::{Taint, TaintEffect},
};

use super::*;

#[test]
fn lost_preferences_reduce_savings() {
    let cluster = |worth| {
        TestCluster::new()
            .node("liked", "small", &[500])
            .node("other", "small", &[1_400])
            .with(|snapshot| {
                snapshot.settings.optimize = Optimize::Cost;
                snapshot.settings.preference_worth = NanosPerHour(worth);
                for (at, disk) in [(0, "fast"), (1, "slow")] {
                    let labels = &mut snapshot.nodes[at].labels;
                    labels.insert("disk".to_owned(), disk.to_owned());
                }
                let fast = NodeSelectorTerm {
                    match_expressions: vec![one_of("disk", &["fast"])],
                    match_fields: Vec::new(),
                };
                snapshot.pods[0].node_affinity.preferred = vec![(100, fast)];
                let selector = &mut snapshot.pods[1].node_selector;
                selector.insert("disk".to_owned(), "slow".to_owned());
            })
    };
    // A small node costs $0.1/h.
    assert_eq!(cluster(10_000_000).removes(), ["liked"]);
    assert!(cluster(200_000_000).removes().is_empty());
}

/// A pod on node `liked` in zone a, which can move only to node `other` in zone b, and a full node in zone a. No node can be
/// launched.
fn between_zones(worth: i64, change: fn(&mut Snapshot)) -> Vec<String> {
    let cluster = TestCluster::new()
        .node("liked", "small", &[500])
        .node("other", "small", &[1_400])
        .node("full", "small", &[2_000])
        .with(|snapshot| {
            snapshot.settings.optimize = Optimize::Cost;
            snapshot.settings.preference_worth = NanosPerHour(worth);
            let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
            for kind in Arc::make_mut(types).iter_mut() {
                let offerings = kind.offerings.iter_mut();
                offerings.for_each(|offering| offering.available = false);
            }
            for labels in [
                &mut snapshot.nodes[1].labels,
                &mut snapshot.node_claims[1].labels,
            ] {
                labels.insert(ZONE.to_owned(), "b".to_owned());
            }
            for pod in &mut snapshot.pods[1..] {
                let annotations = &mut pod.annotations;
                annotations.insert(DO_NOT_DISRUPT.to_owned(), "true".to_owned());
            }
        })
        .with(change);
    cluster.removes()
}

fn of_app(app: &str) -> Option<LabelSelector> {
    Some(LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        ..LabelSelector::default()
    })
}

fn near(app: &str, key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: of_app(app),
        ..PodAffinityTerm::default()
    }
}

fn softly_spread(app: &str, key: &str) -> TopologySpread {
    TopologySpread {
        topology_key: key.to_owned(),
        max_skew: 1,
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: of_app(app),
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    }
}

fn wanted(key: &str, value: &str) -> NodeSelectorTerm {
    NodeSelectorTerm {
        match_expressions: vec![one_of(key, &[value])],
        match_fields: Vec::new(),
    }
}

fn call(snapshot: &mut Snapshot, pod: usize, app: &str) {
    let labels = &mut snapshot.pods[pod].shape.labels;
    labels.insert("app".to_owned(), app.to_owned());
}

fn label(snapshot: &mut Snapshot, node: usize, key: &str, value: &str) {
    let labels = &mut snapshot.nodes[node].labels;
    labels.insert(key.to_owned(), value.to_owned());
}

#[test]
fn every_kind_of_lost_preference_reduces_savings() {
    type Case = (&'static str, fn(&mut Snapshot));
    let cases: [Case; 5] = [
        ("a spread over zones", |snapshot| {
            call(snapshot, 0, "web");
            call(snapshot, 1, "web");
            snapshot.pods[0].topology_spread = vec![softly_spread("web", ZONE)];
        }),
        ("being near a pod", |snapshot| {
            call(snapshot, 2, "cache");
            snapshot.pods[0].pod_affinity.preferred = vec![(100, near("cache", ZONE))];
        }),
        ("being apart from a pod", |snapshot| {
            call(snapshot, 1, "noisy");
            let hostname = "kubernetes.io/hostname";
            snapshot.pods[0].pod_anti_affinity.preferred = vec![(100, near("noisy", hostname))];
        }),
        ("a label that is not the heaviest wish", |snapshot| {
            for node in 0..3 {
                label(snapshot, node, "disk", "fast");
                label(snapshot, node, "rack", if node == 0 { "1" } else { "2" });
            }
            snapshot.pods[0].node_affinity.preferred =
                vec![(100, wanted("disk", "fast")), (90, wanted("rack", "1"))];
        }),
        ("a node without a taint", |snapshot| {
            let taint = Taint {
                key: "dedicated".to_owned(),
                value: String::new(),
                effect: TaintEffect::PreferNoSchedule,
            };
            snapshot.node_pools[0].template.taints = vec![taint.clone()];
            snapshot.nodes[1].taints = vec![taint];
        }),
    ];
    for (lost, change) in cases {
        assert_eq!(between_zones(10_000_000, change), ["liked"], "{lost}");
        assert!(between_zones(200_000_000, change).is_empty(), "{lost}");
    }
}

/// Pods that move together prefer a label, which their node has, and separate hosts, which they have neither before nor after.
#[test]
fn unmet_preference_does_not_devalue_another() {
    let change = |snapshot: &mut Snapshot| {
        label(snapshot, 0, "disk", "fast");
        let mut second = snapshot.pods[0].clone();
        second.key.name = "liked-1".to_owned();
        second.uid = "uid-liked-1".into();
        snapshot.pods.push(second);
        for pod in [0, 3] {
            call(snapshot, pod, "web");
            let pod = &mut snapshot.pods[pod];
            pod.shape.requests = Resources::from([("cpu", 250), ("pods", 1)]);
            pod.node_affinity.preferred = vec![(100, wanted("disk", "fast"))];
            pod.topology_spread = vec![softly_spread("web", "kubernetes.io/hostname")];
        }
    };
    assert_eq!(between_zones(10_000_000, change), ["liked"]);
    assert!(between_zones(200_000_000, change).is_empty());
}

#[test]
fn preference_unmet_before_costs_nothing() {
    let change = |snapshot: &mut Snapshot| {
        snapshot.pods[0].node_affinity.preferred = vec![(100, wanted("disk", "fast"))];
    };
    assert_eq!(between_zones(200_000_000, change), ["liked"]);
}

#[test]
fn replacement_may_be_of_another_node_pool_of_equal_weight() {
    let cluster = |optimize, weight| {
        TestCluster::new()
            .node("n", "medium", &[3_000])
            .with(|snapshot| {
                snapshot.settings.optimize = optimize;
                let mut cheaper = snapshot.node_pools[0].clone();
                cheaper.name = "cheaper".into();
                cheaper.weight = weight;
                snapshot.node_pools.push(cheaper);
                let types = vec![kind("bargain", 4, 100)];
                let cheaper = "cheaper".into();
                snapshot.instance_types.insert(cheaper, Arc::new(types));
            })
    };
    let replacements = |cluster: TestCluster| {
        let commands = cluster.commands().into_iter();
        commands
            .flat_map(|(_, _, replacements)| replacements)
            .collect::<Vec<_>>()
    };
    assert_eq!(replacements(cluster(Optimize::Cost, 0)), [["bargain"]]);
    // Names decide, or weights.
    assert!(replacements(cluster(Optimize::Upstream, 0)).is_empty());
    assert!(replacements(cluster(Optimize::Cost, -1)).is_empty());
}
