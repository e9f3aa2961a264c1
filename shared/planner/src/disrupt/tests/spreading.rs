//! Pods with required topology spread are moved by the domains that Kubernetes' scheduler counts: those of existing nodes.

use model::pod::{TopologySpread, WhenUnsatisfiable};

use super::*;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Gives every pod the same labels and a spread by this key.
fn spread_by(key: &'static str) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        snapshot.settings.optimize = Optimize::Cost;
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        for pod in &mut snapshot.pods {
            pod.labels.clone_from(&labels);
            pod.topology_spread = vec![TopologySpread {
                topology_key: key.to_owned(),
                max_skew: 1,
                when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
                selector: Some(LabelSelector {
                    match_labels: labels.clone(),
                    match_expressions: Vec::new(),
                }),
                min_domains: None,
                node_affinity_policy: None,
                node_taints_policy: None,
                match_label_keys: Vec::new(),
            }];
        }
    }
}

/// Offers instance types in zones a, b and c. The node with this number is in zone b.
fn in_three_zones(of_b: usize) -> impl FnOnce(&mut Snapshot) {
    move |snapshot| {
        let types = snapshot.instance_types.get_mut(&"default".into()).unwrap();
        for kind in Arc::make_mut(types) {
            let zones = ["a", "b", "c"].map(str::to_owned);
            let all = Requirement::new(ZONE, Operator::In, zones.clone());
            kind.requirements.0.insert(ZONE.to_owned(), all);
            let offerings = std::mem::take(&mut kind.offerings);
            for zone in zones {
                let there = offerings.iter().cloned();
                kind.offerings.extend(there.map(|offering| Offering {
                    zone: zone.clone(),
                    ..offering
                }));
            }
        }
        for labels in [
            &mut snapshot.nodes[of_b].labels,
            &mut snapshot.node_claims[of_b].labels,
        ] {
            labels.insert(ZONE.to_owned(), "b".to_owned());
        }
    }
}

#[test]
fn zones_without_nodes_do_not_block_moves() {
    let cluster = || {
        TestCluster::new()
            .node("first", "small", &[500])
            .node("second", "small", &[1_000])
            .node("other", "small", &[1_900])
            .with(in_three_zones(2))
            .with(spread_by(ZONE))
    };
    assert_eq!(cluster().removes(), ["first"]);
    let upstream = cluster().with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert!(upstream.removes().is_empty());
}

#[test]
fn node_is_removed_if_its_spread_pods_fit_on_the_remaining_hosts() {
    let cluster = || {
        TestCluster::new()
            .node("a", "small", &[500])
            .node("b", "small", &[600])
            .node("c", "small", &[700])
            .with(spread_by(HOSTNAME))
    };
    assert!(!cluster().removes().is_empty());
    let upstream = cluster().with(|snapshot| snapshot.settings.optimize = Optimize::Upstream);
    assert!(upstream.removes().is_empty());
}

#[test]
fn drifted_node_is_replaced_in_its_zone_for_topology_spread() {
    let cluster = TestCluster::new()
        .node("first", "small", &[500])
        .node("other", "small", &[1_900])
        .with(in_three_zones(1))
        .with(spread_by(ZONE))
        .with(|snapshot| {
            let drifted = fixtures::claim("x", &[DRIFTED]).status.conditions;
            snapshot.node_claims[0].status.conditions.extend(drifted);
        });
    let (reason, nodes, _) = cluster.commands().remove(0);
    assert_eq!((reason, nodes), (Reason::Drifted, vec!["first".to_owned()]));
}
