//! Plans respect the bounds of the request, and each of their groups can be executed by itself.

mod accounting;
mod cluster_model;
pub(super) mod fixture;
mod recreate;
mod rules;

use std::collections::BTreeSet;

use model::{
    CapacityType, NanosPerHour, labels,
    pod::{HostPort, PodAffinityTerm, PodShape, TopologySpread, WhenUnsatisfiable},
};

use self::fixture::{CENT, SIZES, SmallCluster, SmallNode, ZONES, instance_type, selecting_web};
use super::ReplacementGroup;
use crate::PlacementTarget;

fn removed(plan: &[ReplacementGroup]) -> BTreeSet<usize> {
    plan.iter()
        .flat_map(|group| group.removed.clone())
        .collect()
}

#[test]
fn pods_go_to_free_capacity_before_a_node_is_launched() {
    let fixture = SmallCluster::new()
        .node("l", "a", &[3_000])
        .node("m", "a", &[2_500, 1_500]);
    let plan = fixture.planned(|_, _| {});
    let [group] = plan.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (group.removed.as_slice(), group.replacements),
        (&[1][..], 0)
    );
    // Largest first.
    let there = |pod| (pod, PlacementTarget::Node(0));
    assert_eq!(group.wanted, [there(1), there(2)]);
}

#[test]
fn nodes_that_share_a_new_node_form_one_group() {
    let fixture = SmallCluster::new()
        .node("l", "a", &[1_500])
        .node("l", "a", &[1_500])
        .node("l", "b", &[8000]);
    let plan = fixture.planned(|candidates, _| candidates.truncate(2));
    let [group] = plan.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (group.removed.as_slice(), group.replacements),
        (&[0, 1][..], 1)
    );
    assert_eq!(fixture.saved(group), 2 * 36 - 19);
}

#[test]
fn several_nodes_are_not_replaced_by_one_of_their_own_type() {
    let mut fixture = SmallCluster::new()
        .node("m", "a", &[1_500])
        .node("m", "a", &[1_500]);
    // Half of each node is taken by other pods, so neither fits the other's pod, while one new node fits both.
    fixture.nodes.iter_mut().for_each(|node| node.cores = 2);
    let plan = fixture.planned(|_, _| {});
    let saved = plan
        .iter()
        .map(|group| (group.removed.len(), fixture.saved(group)));
    assert_eq!(saved.collect::<Vec<_>>(), [(1, 9), (1, 9)]);
}

#[test]
fn node_whose_replacement_saves_less_than_its_evictions_cost_is_kept() {
    let fixture = SmallCluster::new().node("l", "a", &[1_000, 1_000, 1_000]);
    let planned = |cents: i64| removed(&fixture.plans(&[cents], |_, _| {})[0]).len();
    // A smaller node saves 17 cents.
    assert_eq!((planned(5), planned(6)), (1, 0));
}

#[test]
fn disturbance_is_added_to_the_cost_of_evictions() {
    let fixture = SmallCluster::new().node("l", "a", &[1_000, 1_000, 1_000]);
    let planned = |cents: i64| {
        let plan =
            fixture.planned(|candidates, _| candidates[0].disturbance = NanosPerHour(cents * CENT));
        removed(&plan).len()
    };
    assert_eq!((planned(16), planned(17)), (1, 0));
}

#[test]
fn group_saves_at_least_the_least_saving_of_its_nodes() {
    let fixture = SmallCluster::new().node("l", "a", &[3_000]);
    let planned = |cents: i64| {
        let plan = fixture
            .planned(|candidates, _| candidates[0].least_saving = NanosPerHour(cents * CENT));
        removed(&plan).len()
    };
    assert_eq!((planned(17), planned(18)), (1, 0));
}

/// Together the nodes save 53 cents, half of it each; alone each of them saves 26.
#[test]
fn saving_of_a_group_is_split_by_price() {
    let mut fixture = SmallCluster::new()
        .node("l", "a", &[1_500])
        .node("l", "a", &[1_500]);
    // Neither has room for the other's pod.
    fixture.nodes.iter_mut().for_each(|node| node.cores = 2);
    let planned = |cents: i64| {
        let plan = fixture
            .planned(|candidates, _| candidates[0].least_saving = NanosPerHour(cents * CENT));
        removed(&plan)
    };
    assert_eq!(planned(26), [0, 1].into());
    assert_eq!(planned(27), [1].into());
}

/// The pod fits on another node, so removing this one saves its whole price.
#[test]
fn node_cheaper_than_its_least_saving_is_kept() {
    let fixture = SmallCluster::new()
        .node("m", "a", &[900])
        .node("s", "a", &[900]);
    let planned = |cents: i64| {
        let plan = fixture.planned(|candidates, _| {
            candidates.remove(0);
            candidates[0].least_saving = NanosPerHour(cents * CENT);
        });
        removed(&plan).len()
    };
    assert_eq!((planned(10), planned(11)), (1, 0));
}

#[test]
fn budgets_bound_the_size_of_groups() {
    let fixture = SmallCluster::new()
        .node("s", "a", &[900])
        .node("s", "a", &[900])
        .node("s", "a", &[900])
        .node("s", "a", &[900]);
    // Largest group where the first two nodes have one budget, and the others another one or the same.
    let most = |others: usize, together_max: &'static [usize]| {
        let plan = fixture.planned(|candidates, request| {
            for candidate in candidates.iter_mut().skip(2) {
                candidate.budget = others;
            }
            request.together_max = together_max;
        });
        let groups = plan.iter().filter(|group| group.replacements > 0);
        groups.map(|group| group.removed.len()).max().unwrap_or(0)
    };
    assert_eq!(most(1, &[0, 0]), 0);
    assert!(most(1, &[1, 1]) <= 2);
    assert_eq!(most(1, &[2, 2]), 4);
    assert!(most(0, &[3]) <= 3);
    assert_eq!(most(0, &[4]), 4);
}

#[test]
fn spot_to_spot_replacement_needs_the_setting_and_several_nodes() {
    let fixture = |pods: &[&[i64]]| {
        let mut fixture = SmallCluster::new();
        for own in pods {
            fixture = fixture.node("l", "a", own);
        }
        fixture.types = SIZES
            .map(|(name, cores, cents)| {
                let mut instance_type = instance_type(name, cores, cents, CapacityType::Spot);
                instance_type.offerings.truncate(1);
                instance_type
            })
            .into();
        for node in &mut fixture.nodes {
            node.is_spot = true;
        }
        fixture
    };
    let launched = |fixture: &SmallCluster, spot_to_spot| {
        let plan = fixture.planned(|_, request| request.spot_to_spot = spot_to_spot);
        plan.iter().any(|group| group.replacements > 0)
    };
    let one = fixture(&[&[3_000]]);
    let two = fixture(&[&[1_500, 400], &[1_500, 400]]);
    // Only two cores of each node are allocatable, so that the plan does not keep one of them for the pods of both.
    let two = SmallCluster {
        nodes: two
            .nodes
            .into_iter()
            .map(|node| SmallNode { cores: 2, ..node })
            .collect(),
        ..two
    };
    assert!(!launched(&one, false) && !launched(&one, true));
    assert!(!launched(&two, false) && launched(&two, true));
}

/// Plan for a small node whose pods fit on a large one.
fn small_and_large(change: impl Fn(&mut PodShape)) -> Vec<ReplacementGroup> {
    let fixture = SmallCluster::new()
        .node("l", "a", &[800])
        .node("s", "b", &[900])
        .with(change);
    fixture.planned(|candidates, _| {
        candidates.remove(0);
    })
}

#[test]
fn pods_with_anti_affinity_port_conflict_or_spread_are_kept_apart() {
    let to_room = small_and_large(|_| {});
    assert_eq!(to_room[0].wanted, [(1, PlacementTarget::Node(0))]);
    let rules: [fn(&mut PodShape); 4] = [
        |shape| {
            shape.host_ports = vec![HostPort {
                ip: String::new(),
                port: 80,
                protocol: "TCP".to_owned(),
            }];
        },
        |shape| {
            shape.pod_anti_affinity.required = vec![selecting(labels::HOSTNAME)];
        },
        |shape| {
            shape.pod_anti_affinity.required = vec![selecting(labels::ZONE)];
        },
        |shape| shape.topology_spread = vec![by_zone(1)],
    ];
    for rule in rules {
        let launched = small_and_large(rule);
        assert_eq!(
            launched[0].wanted,
            [(1, PlacementTarget::New { pool: 0, number: 0 })]
        );
    }
}

#[test]
fn allowed_skew_is_used() {
    let to_room = small_and_large(|shape| shape.topology_spread = vec![by_zone(2)]);
    assert_eq!(to_room[0].wanted, [(1, PlacementTarget::Node(0))]);
}

#[test]
fn pods_with_affinity_stay_in_one_domain() {
    let near = |key: &'static str| {
        small_and_large(|shape| {
            shape.pod_affinity.required = vec![selecting(key)];
        })
    };
    assert_eq!(
        near(labels::ZONE)[0].wanted,
        [(1, PlacementTarget::Node(0))]
    );
    // Pod affinity per host is not modelled.
    assert!(near(labels::HOSTNAME).is_empty());
}

fn selecting(key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: Some(selecting_web()),
        ..PodAffinityTerm::default()
    }
}

fn by_zone(max_skew: i32) -> TopologySpread {
    TopologySpread {
        topology_key: labels::ZONE.to_owned(),
        max_skew,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        selector: Some(selecting_web()),
        min_domains: None,
        match_label_keys: Vec::new(),
        node_affinity_policy: None,
        node_taints_policy: None,
    }
}

/// Ten nodes, a third to two thirds full.
fn underused_nodes(seed: u64) -> SmallCluster {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % limit).unwrap()
    };
    let mut fixture = SmallCluster::new();
    for _ in 0..10 {
        let (kind, cores, _) = SIZES[1 + below(3)];
        let mut room = cores * i64::try_from(300 + below(400)).unwrap();
        let mut pods = Vec::new();
        while room > 200 {
            let pod = i64::try_from(200 + 100 * below(12)).unwrap().min(room);
            pods.push(pod);
            room -= pod;
        }
        fixture = fixture.node(kind, ZONES[below(3)], &pods);
    }
    fixture
}

/// Executes each group of a plan: pods go where the plan wants them, and each group saves money.
fn execute_each(fixture: &SmallCluster, plan: &[ReplacementGroup]) {
    for group in plan {
        let result = fixture.solve_removal(group);
        assert!(
            result.unplaced.is_empty(),
            "{group:?}: {:?}",
            result.unplaced
        );
        assert_eq!(result.new_nodes.len(), group.replacements, "{group:?}");
        assert!(fixture.saved(group) > 0, "{group:?}");
        let pods: Vec<usize> = group
            .removed
            .iter()
            .flat_map(|at| fixture.on(*at))
            .collect();
        for (pod, destination) in &group.wanted {
            let index = pods.iter().position(|known| known == pod).unwrap();
            if let PlacementTarget::Node(node) = destination {
                let there = result.existing.iter().find(|(at, _)| at == node);
                assert!(there.unwrap().1.contains(&index), "{group:?}");
            }
        }
    }
}

#[test]
fn each_group_can_be_executed_alone() {
    let mut saved = 0;
    for seed in 0..8 {
        let fixture = underused_nodes(seed);
        let plan = fixture.planned(|_, _| {});
        execute_each(&fixture, &plan);
        saved += plan.iter().map(|group| fixture.saved(group)).sum::<i64>();
    }
    assert!(saved > 0);
}

/// Lower bound: all requests at the price per core of the largest type.
#[test]
fn plans_are_close_to_the_lower_bound() {
    let (mut after, mut least) = (0, 0);
    for seed in 0..8 {
        let fixture = underused_nodes(seed);
        let plan = fixture.planned(|_, _| {});
        let before: i64 = fixture.nodes.iter().map(|node| node.cents).sum();
        after += before - plan.iter().map(|group| fixture.saved(group)).sum::<i64>();
        let (_, cores, cents) = SIZES[3];
        let requested = fixture.pods.iter().map(|pod| pod.shape.requests.get("cpu"));
        least += requested.sum::<i64>() * cents / (cores * 1_000);
    }
    assert!(after * 100 < least * 106, "{after} {least}");
}

#[test]
fn equal_requests_have_equal_plans() {
    let fixture = underused_nodes(1);
    let plan = fixture.planned(|_, _| {});
    assert_eq!(fixture.planned(|_, _| {}), plan);
    assert!(!plan.is_empty());
}

#[test]
fn higher_price_per_eviction_leads_to_fewer_evictions() {
    let fixture = underused_nodes(2);
    let plans = fixture.plans(&[8, 2, 0], |_, _| {});
    let evicted = plans.iter().map(|plan| {
        let wanted = plan.iter().map(|group| group.wanted.len());
        wanted.sum::<usize>()
    });
    let evicted: Vec<usize> = evicted.collect();
    assert!(evicted.is_sorted(), "{evicted:?}");
    assert!(evicted[0] < evicted[2], "{evicted:?}");
}

/// Placement hints are not binding: a pod that may not go there is placed elsewhere.
#[test]
fn pod_is_placed_elsewhere_if_its_hint_is_infeasible() {
    let fixture = SmallCluster::new()
        .node("l", "a", &[800])
        .node("s", "b", &[900]);
    let group = ReplacementGroup {
        removed: vec![1],
        wanted: vec![(1, PlacementTarget::Node(0))],
        replacements: 0,
    };
    assert_eq!(fixture.solve_removal(&group).existing, [(0, vec![0])]);
    let apart = fixture.with(|shape| shape.topology_spread = vec![by_zone(1)]);
    let result = apart.solve_removal(&group);
    assert!(result.existing.is_empty() && result.unplaced.is_empty());
    assert_eq!(result.new_nodes.len(), 1);
}

#[test]
fn pods_with_the_same_hint_share_a_new_node() {
    let fixture = SmallCluster::new().node("l", "a", &[500, 500, 500]);
    let new = |numbers: [usize; 3]| {
        let wanted = numbers.map(|number| PlacementTarget::New { pool: 0, number });
        let result = fixture.solve_removal(&ReplacementGroup {
            removed: vec![0],
            wanted: (0..3).zip(wanted).collect(),
            replacements: 0,
        });
        let pods = result.new_nodes.iter().map(|node| node.pods.clone());
        pods.collect::<BTreeSet<_>>()
    };
    assert_eq!(new([7, 7, 7]), [vec![0, 1, 2]].into());
    assert_eq!(new([7, 8, 7]), [vec![0, 2], vec![1]].into());
    assert_eq!(new([7, 8, 8]), [vec![0], vec![1, 2]].into());
}
