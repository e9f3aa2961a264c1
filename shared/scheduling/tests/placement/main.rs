//! Properties of every result, for any input.

#![expect(clippy::indexing_slicing, reason = "a wrong index fails the test")]

mod cluster;
mod colocation;
mod search;

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, NanosPerHour, NodePoolName, Offering, Resources,
    catalog::Overhead,
    labels,
    pod::{Pod, PodAffinityTerm, PodShape},
    requirement::{Requirement, Requirements},
    selector::{LabelSelector, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode},
    volume::Storage,
};
use proptest::prelude::*;
use scheduling::{Effort, ExistingNode, Input, Options, Pool, SolveResult, solve};

const ZONES: [&str; 3] = ["a", "b", "c"];

fn requirement(key: &str, value: &str) -> Requirement {
    Requirement::new(key, Operator::In, [value.to_owned()])
}

/// Types of 1 to 16 cores with 2 GB per core, at a cent per core and hour.
fn instance_types() -> Vec<InstanceType> {
    let sizes = [1, 2, 4, 8, 16].into_iter();
    let types = sizes.map(|cores: i64| {
        let name = format!("m.{cores}");
        let mut requirements = Requirements::default();
        requirements.add(requirement(labels::INSTANCE_TYPE, &name));
        requirements.add(Requirement::new(
            labels::ZONE,
            Operator::In,
            ZONES.map(str::to_owned),
        ));
        let offerings = ZONES.map(|zone| Offering {
            unpriced: false,
            capacity_type: CapacityType::OnDemand,
            zone: zone.to_owned(),
            zone_id: String::new(),
            price: NanosPerHour(cores * 10_000_000),
            available: true,
            reservation: None,
            requirements: Requirements::default(),
            capacity_override: None,
            overhead_override: None,
        });
        InstanceType {
            ebs_attach_limit: None,
            devices: Vec::new(),
            name,
            requirements,
            capacity: [
                ("cpu", cores * 1_000),
                ("memory", cores * 2_000_000_000),
                ("pods", 20),
            ]
            .into(),
            overhead: Overhead::default(),
            offerings: offerings.to_vec(),
        }
    });
    types.collect()
}

fn pod() -> impl Strategy<Value = Pod> {
    let zone = prop::option::weighted(0.3, prop::sample::select(ZONES.to_vec()));
    (0_i64..9_000, 0_i64..9_000_000_000, zone).prop_map(|(cpu, memory, zone)| {
        let mut pod = asking([("cpu", cpu), ("memory", memory), ("pods", 1)].into());
        if let Some(zone) = zone {
            pod.node_selector
                .insert(labels::ZONE.to_owned(), zone.to_owned());
        }
        pod
    })
}

fn asking(requests: Resources) -> Pod {
    let shape = PodShape {
        requests,
        ..PodShape::default()
    };
    Pod {
        shape: shape.into(),
        ..Pod::default()
    }
}

fn named(pods: Vec<Pod>) -> Vec<Pod> {
    let named = pods.into_iter().enumerate().map(|(n, mut pod)| {
        pod.key.namespace = "default".to_owned();
        pod.key.name = format!("pod-{n:03}");
        pod.uid = pod.key.name.as_str().into();
        pod
    });
    named.collect()
}

fn solve_pods(pods: &[&Pod], nodes: Vec<ExistingNode<'_>>, types: &[InstanceType]) -> SolveResult {
    with_input(pods, nodes, types, solve)
}

/// Builds an input with these pods and one NodePool of these types.
fn with_input<T>(
    pods: &[&Pod],
    nodes: Vec<ExistingNode<'_>>,
    types: &[InstanceType],
    visit: impl FnOnce(&Input<'_>) -> T,
) -> T {
    let (name, storage) = (NodePoolName::from("default"), Storage::default());
    visit(&Input {
        options: Options {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved: Some(ReservedOfferingMode::Strict),
            optimize: Optimize::Upstream,
            effort: Effort::Best,
            preference_worth: model::snapshot::Settings::preference_worth(),
            well_known_labels: &[],
            reservation_id_label: "",
        },
        pods: pods.to_vec(),
        moved: Vec::new(),
        pools: vec![Pool {
            name: &name,
            labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), name.0.clone())]),
            requirements: &[],
            taints: &[],
            types,
            surcharge: NanosPerHour(0),
            weight: 0,
            remaining: Resources::default(),
        }],
        nodes,
        hosts: Vec::new(),
        daemons: Vec::new(),
        namespaces: &[],
        storage: &storage,
        devices: None,
    })
}

/// Pods by node, and the number of choices of each new node, without order.
fn groups(result: &SolveResult, pods: &[&Pod]) -> Vec<(Vec<String>, usize)> {
    let names = |at: &[usize]| {
        let mut names: Vec<String> = at.iter().map(|at| pods[*at].key.name.clone()).collect();
        names.sort_unstable();
        names
    };
    let new = result.new_nodes.iter();
    let mut groups: Vec<_> = new
        .map(|node| (names(&node.pods), node.choices.len()))
        .collect();
    groups.sort_unstable();
    groups
}

#[test]
fn least_cost_is_the_price_at_the_best_rate() {
    // Sixteen cores cost a cent each, or thirty-two gigabytes half a cent each.
    for (count, cpu, memory) in [(5, 3_200, 1_000_000_000), (8, 100, 4_000_000_000)] {
        let pod = asking([("cpu", cpu), ("memory", memory), ("pods", 1)].into());
        let pods = named(vec![pod; count]);
        let pods: Vec<&Pod> = pods.iter().collect();
        let (result, least) = with_input(&pods, Vec::new(), &instance_types(), |input| {
            let result = solve(input);
            let least = scheduling::least_cost(input, &result);
            (result, least)
        });
        let prices = result.new_nodes.iter().map(|node| node.choices[0].price.0);
        assert!((159_000_000..=160_000_000).contains(&least), "{least}");
        assert!(least <= prices.sum());
    }
}

#[test]
fn long_affinity_chain_continues_in_the_next_round() {
    // Each pod has affinity to the one behind it in the queue, so a round places one pod.
    const LINKS: usize = 600;
    let mut pods = named(vec![Pod::default(); LINKS]);
    for (at, pod) in pods.iter_mut().enumerate() {
        let link = |n: usize| BTreeMap::from([("link".to_owned(), n.to_string())]);
        pod.requests = [("cpu", 8_000 - i64::try_from(at).unwrap()), ("pods", 1)].into();
        pod.labels = link(at);
        pod.node_selector
            .insert(labels::ZONE.to_owned(), ZONES[0].to_owned());
        if at + 1 < LINKS {
            pod.pod_affinity.required = vec![PodAffinityTerm {
                topology_key: labels::ZONE.to_owned(),
                selector: Some(LabelSelector {
                    match_labels: link(at + 1),
                    ..LabelSelector::default()
                }),
                ..PodAffinityTerm::default()
            }];
        }
    }
    let pods: Vec<&Pod> = pods.iter().collect();
    let result = solve_pods(&pods, Vec::new(), &instance_types());
    let placed: usize = result.new_nodes.iter().map(|node| node.pods.len()).sum();
    assert!(placed > 0 && !result.unplaced.is_empty());
    assert_eq!(placed + result.unplaced.len(), LINKS);
    assert!(result.unplaced.iter().all(|left| left.deferred));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_pod_is_placed_once_or_has_reasons(pods in prop::collection::vec(pod(), 1..40)) {
        let (pods, types) = (named(pods), instance_types());
        let pods: Vec<&Pod> = pods.iter().collect();
        let result = solve_pods(&pods, Vec::new(), &types);
        let mut seen: Vec<usize> = result.new_nodes.iter().flat_map(|node| node.pods.clone()).collect();
        seen.extend(result.unplaced.iter().map(|left| left.pod));
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..pods.len()).collect::<Vec<_>>());
        prop_assert!(result.unplaced.iter().all(|left| !left.reasons.is_empty()));
    }

    #[test]
    fn every_choice_of_a_node_fits_its_pods(pods in prop::collection::vec(pod(), 1..40)) {
        let (pods, types) = (named(pods), instance_types());
        let pods: Vec<&Pod> = pods.iter().collect();
        for node in solve_pods(&pods, Vec::new(), &types).new_nodes {
            let mut total = Resources::default();
            for at in &node.pods {
                total.add(&pods[*at].requests);
            }
            for choice in &node.choices {
                prop_assert!(total.fits(&types[choice.instance_type()].allocatable()));
            }
        }
    }

    #[test]
    fn result_does_not_depend_on_input_order(pods in prop::collection::vec(pod(), 1..40)) {
        let (pods, types) = (named(pods), instance_types());
        let forwards: Vec<&Pod> = pods.iter().collect();
        let backwards: Vec<&Pod> = pods.iter().rev().collect();
        let (one, other) = (solve_pods(&forwards, Vec::new(), &types), solve_pods(&backwards, Vec::new(), &types));
        prop_assert_eq!(groups(&one, &forwards), groups(&other, &backwards));
    }

    #[test]
    fn additional_empty_node_unplaces_no_pod(pods in prop::collection::vec(pod(), 1..40)) {
        let (pods, types) = (named(pods), instance_types());
        let pods: Vec<&Pod> = pods.iter().collect();
        let labels = BTreeMap::from([(labels::ZONE.to_owned(), "a".to_owned())]);
        let node = ExistingNode {
            name: "node",
            hostname: "node",
            labels: &labels,
            taints: Vec::new(),
            initialized: true,
            registered: true,
            cooling_down: false,
            available: types[2].allocatable(),
            daemon_requests: Resources::default(),
            pods: Vec::new(),
            attach_limits: None,
            devices: Vec::new(),
        };
        let without = solve_pods(&pods, Vec::new(), &types);
        let with = solve_pods(&pods, vec![node], &types);
        let left = |result: &SolveResult| result.unplaced.iter().map(|left| left.pod).collect::<Vec<_>>();
        let before = left(&without);
        prop_assert!(left(&with).iter().all(|pod| before.contains(pod)));
    }

    /// The new nodes exist and run their pods; the unplaced pods are unplaced in a second solve too.
    #[test]
    fn solving_again_with_the_new_nodes_changes_nothing(
        pods in prop::collection::vec(pod(), 1..40),
        misfits in prop::collection::vec(17_000_i64..40_000, 0..4),
    ) {
        let misfits = misfits.into_iter().map(|cpu| asking([("cpu", cpu), ("pods", 1)].into()));
        let (pods, types) = (named(pods.into_iter().chain(misfits).collect()), instance_types());
        let pods: Vec<&Pod> = pods.iter().collect();
        let first = solve_pods(&pods, Vec::new(), &types);
        let launched: Vec<_> = first.new_nodes.iter().enumerate().map(|(n, node)| {
            let choice = &node.choices[0];
            let mut available = types[choice.instance_type()].allocatable();
            for at in &node.pods {
                available.subtract(&pods[*at].requests);
            }
            let labels = BTreeMap::from([(labels::INSTANCE_TYPE.to_owned(), types[choice.instance_type()].name.clone())]);
            (format!("node-{n}"), labels, available, node)
        }).collect();
        let nodes = launched.iter().map(|(name, labels, available, node)| ExistingNode {
            name,
            hostname: name,
            labels,
            taints: Vec::new(),
            initialized: true,
            registered: true,
            cooling_down: false,
            available: available.clone(),
            daemon_requests: Resources::default(),
            pods: node.pods.iter().map(|at| pods[*at]).collect(),
            attach_limits: None,
            devices: Vec::new(),
        });
        let left: Vec<&Pod> = first.unplaced.iter().map(|left| pods[left.pod]).collect();
        let second = solve_pods(&left, nodes.collect(), &types);
        prop_assert!(second.new_nodes.is_empty());
        prop_assert!(second.existing.iter().all(|(_, pods)| pods.is_empty()));
        prop_assert_eq!(second.unplaced.len(), left.len());
    }
}

#[test]
fn reason_for_an_oversized_pod_names_requested_and_available_amounts() {
    let types = instance_types();
    let mut pods = named(vec![Pod::default()]);
    pods[0].requests = [("cpu", 20_000), ("pods", 1)].into();
    let result = solve_pods(&[&pods[0]], Vec::new(), &types);
    let (_, reason) = &result.unplaced[0].reasons[0];
    assert_eq!(
        reason.to_string(),
        "needs 20 cpu, the largest suitable type has 16"
    );
}
