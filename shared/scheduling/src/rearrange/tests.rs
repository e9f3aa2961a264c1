//! What a plan for all nodes has to keep to, and that each of its teams can go by itself.

mod accounting;
mod cluster_model;
mod recreate;
mod rules;
pub(super) mod world;

use std::collections::BTreeSet;

use model::{
    CapacityType, NanosPerHour, labels,
    pod::{HostPort, PodAffinityTerm, PodShape, TopologySpread, WhenUnsatisfiable},
};

use self::world::{CENT, SIZES, SomeNode, World, ZONES, kind, selecting_web};
use super::ReplacementGroup;
use crate::PlacementTarget;

fn removed(plan: &[ReplacementGroup]) -> BTreeSet<usize> {
    plan.iter()
        .flat_map(|group| group.removable.clone())
        .collect()
}

#[test]
fn pods_go_where_there_is_room_before_anything_is_bought() {
    let world = World::new()
        .node("l", "a", &[3_000])
        .node("m", "a", &[2_500, 1_500]);
    let plan = world.planned(|_, _| {});
    let [group] = plan.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (group.removable.as_slice(), group.replacements),
        (&[1][..], 0)
    );
    // The large one first.
    let there = |pod| (pod, PlacementTarget::Node(0));
    assert_eq!(group.wanted, [there(1), there(2)]);
}

#[test]
fn nodes_that_share_a_new_one_are_one_team() {
    let world = World::new()
        .node("l", "a", &[1_500])
        .node("l", "a", &[1_500])
        .node("l", "b", &[8000]);
    let plan = world.planned(|candidates, _| candidates.truncate(2));
    let [group] = plan.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (group.removable.as_slice(), group.replacements),
        (&[0, 1][..], 1)
    );
    assert_eq!(world.saved(group), 2 * 36 - 19);
}

#[test]
fn several_nodes_do_not_go_for_one_of_their_own_types() {
    let mut world = World::new()
        .node("m", "a", &[1_500])
        .node("m", "a", &[1_500]);
    // Much of them is taken, so that neither has room for the other's pod, and a new one for both.
    world.nodes.iter_mut().for_each(|node| node.cores = 2);
    let plan = world.planned(|_, _| {});
    let saved = plan
        .iter()
        .map(|group| (group.removable.len(), world.saved(group)));
    assert_eq!(saved.collect::<Vec<_>>(), [(1, 9), (1, 9)]);
}

#[test]
fn what_does_not_pay_for_its_evictions_stays() {
    let world = World::new().node("l", "a", &[1_000, 1_000, 1_000]);
    let planned = |cents: i64| removed(&world.plans(&[cents], |_, _| {})[0]).len();
    // A smaller node saves 17 cents.
    assert_eq!((planned(5), planned(6)), (1, 0));
}

#[test]
fn a_disturbance_counts_besides_evictions() {
    let world = World::new().node("l", "a", &[1_000, 1_000, 1_000]);
    let planned = |cents: i64| {
        let plan =
            world.planned(|candidates, _| candidates[0].disturbance = NanosPerHour(cents * CENT));
        removed(&plan).len()
    };
    assert_eq!((planned(16), planned(17)), (1, 0));
}

#[test]
fn a_team_saves_what_its_nodes_have_to() {
    let world = World::new().node("l", "a", &[3_000]);
    let planned = |cents: i64| {
        let plan =
            world.planned(|candidates, _| candidates[0].least_saving = NanosPerHour(cents * CENT));
        removed(&plan).len()
    };
    assert_eq!((planned(17), planned(18)), (1, 0));
}

/// Two nodes save 53 cents together, half of it by either of them; by itself each saves 26.
#[test]
fn a_node_that_goes_with_others_saves_its_own_part() {
    let mut world = World::new()
        .node("l", "a", &[1_500])
        .node("l", "a", &[1_500]);
    // Neither has room for the other's pod.
    world.nodes.iter_mut().for_each(|node| node.cores = 2);
    let planned = |cents: i64| {
        let plan =
            world.planned(|candidates, _| candidates[0].least_saving = NanosPerHour(cents * CENT));
        removed(&plan)
    };
    assert_eq!(planned(26), [0, 1].into());
    assert_eq!(planned(27), [1].into());
}

/// Beside room for its pod, a node's going saves all that it costs.
#[test]
fn a_node_that_costs_less_than_its_going_has_to_save_stays() {
    let world = World::new().node("m", "a", &[900]).node("s", "a", &[900]);
    let planned = |cents: i64| {
        let plan = world.planned(|candidates, _| {
            candidates.remove(0);
            candidates[0].least_saving = NanosPerHour(cents * CENT);
        });
        removed(&plan).len()
    };
    assert_eq!((planned(10), planned(11)), (1, 0));
}

#[test]
fn budgets_bound_the_teams() {
    let world = World::new()
        .node("s", "a", &[900])
        .node("s", "a", &[900])
        .node("s", "a", &[900])
        .node("s", "a", &[900]);
    // How many go for the same new ones at most, where the first two have one budget and the others another, or the same.
    let most = |others: usize, together_max: &'static [usize]| {
        let plan = world.planned(|candidates, request| {
            for candidate in candidates.iter_mut().skip(2) {
                candidate.budget = others;
            }
            request.together_max = together_max;
        });
        let groups = plan.iter().filter(|group| group.replacements > 0);
        groups.map(|group| group.removable.len()).max().unwrap_or(0)
    };
    assert_eq!(most(1, &[0, 0]), 0);
    assert!(most(1, &[1, 1]) <= 2);
    assert_eq!(most(1, &[2, 2]), 4);
    assert!(most(0, &[3]) <= 3);
    assert_eq!(most(0, &[4]), 4);
}

#[test]
fn spot_nodes_go_for_spot_nodes_only_where_that_is_allowed_and_several_do() {
    let world = |pods: &[&[i64]]| {
        let mut world = World::new();
        for own in pods {
            world = world.node("l", "a", own);
        }
        world.types = SIZES
            .map(|(name, cores, cents)| {
                let mut kind = kind(name, cores, cents, CapacityType::Spot);
                kind.offerings.truncate(1);
                kind
            })
            .into();
        for node in &mut world.nodes {
            node.is_spot = true;
        }
        world
    };
    let bought = |world: &World, spot_to_spot| {
        let plan = world.planned(|_, request| request.spot_to_spot = spot_to_spot);
        plan.iter().any(|group| group.replacements > 0)
    };
    let one = world(&[&[3_000]]);
    let two = world(&[&[1_500, 400], &[1_500, 400]]);
    // The two could also do with one of them.
    let two = World {
        nodes: two
            .nodes
            .into_iter()
            .map(|node| SomeNode { cores: 2, ..node })
            .collect(),
        ..two
    };
    assert!(!bought(&one, false) && !bought(&one, true));
    assert!(!bought(&two, false) && bought(&two, true));
}

/// A small node that could go for the large one's room.
fn small_and_large(change: impl Fn(&mut PodShape)) -> Vec<ReplacementGroup> {
    let world = World::new()
        .node("l", "a", &[800])
        .node("s", "b", &[900])
        .with(change);
    world.planned(|candidates, _| {
        candidates.remove(0);
    })
}

#[test]
fn pods_that_repel_each_other_do_not_meet() {
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
        let bought = small_and_large(rule);
        assert_eq!(
            bought[0].wanted,
            [(1, PlacementTarget::New { pool: 0, number: 0 })]
        );
    }
}

#[test]
fn a_skew_that_is_allowed_is_used() {
    let to_room = small_and_large(|shape| shape.topology_spread = vec![by_zone(2)]);
    assert_eq!(to_room[0].wanted, [(1, PlacementTarget::Node(0))]);
}

#[test]
fn pods_that_need_each_other_stay_together() {
    let near = |key: &'static str| {
        small_and_large(|shape| {
            shape.pod_affinity.required = vec![selecting(key)];
        })
    };
    assert_eq!(
        near(labels::ZONE)[0].wanted,
        [(1, PlacementTarget::Node(0))]
    );
    // Company on the same host is not planned with.
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
fn wasteful(seed: u64) -> World {
    let mut state = seed;
    let mut below = move |limit: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % limit).unwrap()
    };
    let mut world = World::new();
    for _ in 0..10 {
        let (kind, cores, _) = SIZES[1 + below(3)];
        let mut room = cores * i64::try_from(300 + below(400)).unwrap();
        let mut pods = Vec::new();
        while room > 200 {
            let pod = i64::try_from(200 + 100 * below(12)).unwrap().min(room);
            pods.push(pod);
            room -= pod;
        }
        world = world.node(kind, ZONES[below(3)], &pods);
    }
    world
}

/// Carries out a plan's teams in some order: each pod goes where it is wanted, no team is dearer than what it goes for.
fn carried_out(world: &World, plan: &[ReplacementGroup]) {
    for group in plan {
        let answer = world.sent(group);
        assert!(
            answer.unplaced.is_empty(),
            "{group:?}: {:?}",
            answer.unplaced
        );
        assert_eq!(answer.new_nodes.len(), group.replacements, "{group:?}");
        assert!(world.saved(group) > 0, "{group:?}");
        let pods: Vec<usize> = group
            .removable
            .iter()
            .flat_map(|at| world.on(*at))
            .collect();
        for (pod, destination) in &group.wanted {
            let index = pods.iter().position(|known| known == pod).unwrap();
            if let PlacementTarget::Node(node) = destination {
                let there = answer.existing.iter().find(|(at, _)| at == node);
                assert!(there.unwrap().1.contains(&index), "{group:?}");
            }
        }
    }
}

#[test]
fn each_team_can_go_by_itself() {
    let mut saved = 0;
    for seed in 0..8 {
        let world = wasteful(seed);
        let plan = world.planned(|_, _| {});
        carried_out(&world, &plan);
        saved += plan.iter().map(|group| world.saved(group)).sum::<i64>();
    }
    assert!(saved > 0);
}

/// No cluster is cheaper than its pods would be by the core on the largest type.
#[test]
fn plans_leave_little_to_be_had() {
    let (mut after, mut least) = (0, 0);
    for seed in 0..8 {
        let world = wasteful(seed);
        let plan = world.planned(|_, _| {});
        let before: i64 = world.nodes.iter().map(|node| node.cents).sum();
        after += before - plan.iter().map(|group| world.saved(group)).sum::<i64>();
        let (_, cores, cents) = SIZES[3];
        let requested = world.pods.iter().map(|pod| pod.shape.requests.get("cpu"));
        least += requested.sum::<i64>() * cents / (cores * 1_000);
    }
    assert!(after * 100 < least * 106, "{after} {least}");
}

#[test]
fn the_same_question_has_the_same_answer_whatever_was_asked_before() {
    let world = wasteful(1);
    let plan = world.planned(|_, _| {});
    assert_eq!(world.planned(|_, _| {}), plan);
    assert!(!plan.is_empty());
}

#[test]
fn dearer_evictions_lead_to_fewer() {
    let world = wasteful(2);
    let plans = world.plans(&[8, 2, 0], |_, _| {});
    let evicted = plans.iter().map(|plan| {
        let wanted = plan.iter().map(|group| group.wanted.len());
        wanted.sum::<usize>()
    });
    let evicted: Vec<usize> = evicted.collect();
    assert!(evicted.is_sorted(), "{evicted:?}");
    assert!(evicted[0] < evicted[2], "{evicted:?}");
}

/// Where a pod is wanted is a wish: what may not be is not done.
#[test]
fn a_pod_that_may_not_go_where_it_is_wanted_goes_elsewhere() {
    let world = World::new().node("l", "a", &[800]).node("s", "b", &[900]);
    let group = ReplacementGroup {
        removable: vec![1],
        wanted: vec![(1, PlacementTarget::Node(0))],
        replacements: 0,
    };
    assert_eq!(world.sent(&group).existing, [(0, vec![0])]);
    let apart = world.with(|shape| shape.topology_spread = vec![by_zone(1)]);
    let answer = apart.sent(&group);
    assert!(answer.existing.is_empty() && answer.unplaced.is_empty());
    assert_eq!(answer.new_nodes.len(), 1);
}

#[test]
fn pods_share_the_new_nodes_that_they_are_wanted_on() {
    let world = World::new().node("l", "a", &[500, 500, 500]);
    let new = |numbers: [usize; 3]| {
        let wanted = numbers.map(|number| PlacementTarget::New { pool: 0, number });
        let answer = world.sent(&ReplacementGroup {
            removable: vec![0],
            wanted: (0..3).zip(wanted).collect(),
            replacements: 0,
        });
        let pods = answer.new_nodes.iter().map(|node| node.pods.clone());
        pods.collect::<BTreeSet<_>>()
    };
    assert_eq!(new([7, 7, 7]), [vec![0, 1, 2]].into());
    assert_eq!(new([7, 8, 7]), [vec![0, 2], vec![1]].into());
    assert_eq!(new([7, 8, 8]), [vec![0], vec![1, 2]].into());
}
