use std::collections::BTreeSet;

use jiff::{SignedDuration, ToSpan};
use model::{PodKey, Resources, pod::Pod, requirement::Requirements};
use scheduling::{Effort, NewNode, SolveResult};

use super::{Share, pods, pods_of_launches};
use crate::{
    fixtures::{now, snapshot},
    inventory::Inventory,
    provision::planning_context::{PlanningContext, SolveRequest},
};

/// A pod of a class by cpu, created this many minutes ago.
fn pod(name: &str, cpu: i64, minutes: i64) -> Pod {
    let mut pod = Pod {
        key: PodKey::new("default", name),
        created_at: Some(now() - minutes.minutes()),
        ..Pod::default()
    };
    pod.requests = Resources::from([("cpu", cpu)]);
    pod
}

fn many(name: &str, count: usize, cpu: i64, minutes: i64) -> Vec<Pod> {
    (0..count)
        .map(|n| pod(&format!("{name}-{n}"), cpu, minutes))
        .collect()
}

/// Names of the pods that a turn plans for.
fn taken(all: &[Pod], max: usize, turn: i64) -> BTreeSet<String> {
    let share = Share {
        pods: max,
        ..Share::TURN
    };
    let references: Vec<&Pod> = all.iter().collect();
    let taken = pods(&references, share, now() + SignedDuration::from_secs(turn));
    let names = all.iter().zip(taken).filter(|(_, taken)| *taken);
    names.map(|(pod, _)| pod.key.name.clone()).collect()
}

fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn turn_takes_all_pods_within_its_share() {
    let all = many("web", 5, 100, 1);
    assert_eq!(taken(&all, 5, 0).len(), 5);
    assert_eq!(taken(&all, 4, 0).len(), 4);
}

#[test]
fn small_class_is_not_starved_by_older_pods() {
    let mut all = many("gpu", 15_000, 8_000, 60);
    all.push(pod("web", 100, 0));
    let taken = taken(&all, 100, 0);
    assert_eq!(taken.len(), 100);
    assert!(taken.contains("web"));
}

#[test]
fn oldest_pods_of_a_class_come_first() {
    let all = [pod("b", 100, 1), pod("a", 100, 3), pod("c", 100, 2)];
    assert_eq!(taken(&all, 2, 0), named(&["a", "c"]));
}

#[test]
fn remaining_places_go_to_the_oldest_classes() {
    let mut all = many("young", 3, 100, 1);
    all.extend(many("old", 3, 200, 9));
    assert_eq!(taken(&all, 3, 0), named(&["old-0", "old-1", "young-0"]));
}

#[test]
fn no_class_is_passed_over_forever() {
    let all: Vec<Pod> = (0..40)
        .map(|n| pod(&format!("job-{n:02}"), n + 1, 100 - n))
        .collect();
    let turns: Vec<BTreeSet<String>> = (0..60).map(|turn| taken(&all, 10, turn)).collect();
    let oldest = named(&["job-00", "job-01", "job-02", "job-03", "job-04"]);
    for turn in &turns {
        assert_eq!(turn.len(), 10);
        assert!(turn.is_superset(&oldest), "{turn:?}");
    }
    let ever: BTreeSet<&String> = turns.iter().flatten().collect();
    assert_eq!(ever.len(), all.len());
}

#[test]
fn shuffle_key_is_splitmix64_of_pod_and_time() {
    let shuffle_key = super::shuffle_key(&PodKey::new("default", "web-1"), now());
    assert_eq!(shuffle_key, 0xb96d_2c93_1c0a_ebb0);
}

#[test]
fn node_is_as_old_as_its_oldest_pod() {
    let all = [
        pod("large-and-young", 3, 5),
        pod("small-and-old", 1, 60),
        pod("between", 2, 30),
    ];
    let snapshot = snapshot();
    let (inventory, planning) = (Inventory::new(&snapshot), PlanningContext::new(&snapshot));
    let none = BTreeSet::new();
    let input = planning.solver_input(
        &inventory,
        SolveRequest {
            pods: all.iter().collect(),
            moved: Vec::new(),
            gone: &none,
            cooling_down: &none,
            unavailable: &none,
            reserved: snapshot.settings.reserved_offering_mode,
            effort: Effort::Best,
        },
    );
    let node = |pods: &[usize]| NewNode {
        pool: 0,
        pods: pods.to_vec(),
        requirements: Requirements::default(),
        admitted: Vec::new(),
        requests: Resources::default(),
        choices: Vec::new(),
        drivers: BTreeSet::new(),
        min_values_relaxed: false,
    };
    let result = SolveResult {
        new_nodes: vec![node(&[0, 1]), node(&[2])],
        ..SolveResult::default()
    };
    let share = Share {
        launches: 1,
        ..Share::TURN
    };
    let kept = pods_of_launches(&result, &input, share, now());
    assert_eq!(kept, [true, true, false]);
}
