//! Active plans for the whole cluster: continuation, waiting for budgets, and yielding to better trajectories.

use std::cell::RefCell;

use model::{
    ids::Uid,
    ledger::{Cursor, Place, PlannedRemoval, PodAssignment},
};

use super::{
    super::{context::Lookahead, trajectory},
    lookahead::{end, wasteful},
    *,
};

/// Nodes of each remaining step.
fn kept(cursor: Option<&Cursor>) -> Vec<Vec<String>> {
    let Some(Cursor::Plan(plan)) = cursor else {
        return Vec::new();
    };
    let nodes = plan.iter().map(|together| {
        let claims = together.nodes.iter();
        let nodes = claims.map(|claim| claim.0.trim_end_matches("-claim").to_owned());
        nodes.collect()
    });
    nodes.collect()
}

#[test]
fn cursor_keeps_the_remaining_steps_of_a_plan() {
    let mut steps = 0;
    for seed in 0..12 {
        let result = disrupt(&wasteful(seed).0);
        let done = result.commands.iter().flat_map(|command| &command.nodes);
        let left = kept(result.cursor.as_ref());
        let mut all: Vec<&String> = done.chain(left.iter().flatten()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "seed {seed}: no node goes twice");
        steps += left.len();
    }
    assert!(steps > 0);
}

#[test]
fn active_plan_is_continued() {
    let mut went_on = 0;
    for (cluster, command) in
        (2..10).flat_map(|seed| end(&wasteful(seed), Lookahead::ToConvergence, false).1)
    {
        let begun = kept(cluster.0.cursor.as_ref());
        if begun.is_empty() {
            continue;
        }
        let mut nodes = command.nodes.clone();
        for together in begun {
            if together.iter().all(|node| nodes.contains(node)) {
                nodes.retain(|node| !together.contains(node));
            }
        }
        assert!(nodes.is_empty(), "{nodes:?} were not planned to go");
        went_on += 1;
    }
    assert!(went_on > 0);
}

#[test]
fn plan_for_deleted_nodes_is_ignored() {
    for seed in 0..12 {
        let cluster = wasteful(seed);
        let commands = cluster.commands();
        let stale = PlannedRemoval {
            nodes: vec!["gone-claim".into()],
            wanted: Vec::new(),
        };
        let cluster = cluster.with(|snapshot| snapshot.cursor = Some(Cursor::Plan(vec![stale])));
        assert_eq!(cluster.commands(), commands, "seed {seed}");
    }
}

/// An active plan that gives one pod a smaller node, and then, with less savings, moves the other one to a node that stays.
fn active_plan(used: i64) -> TestCluster {
    let cluster = TestCluster::new()
        .with(|snapshot| snapshot.settings.optimize = Optimize::Cost)
        .node("one", "large", &[800])
        .node("other", "medium", &[800])
        .node("roomy", "large", &[used]);
    let places = [
        ("one", Place::New("default".into())),
        ("other", Place::Node("roomy".to_owned())),
    ];
    let plan = places.map(|(node, place)| PlannedRemoval {
        nodes: vec![format!("{node}-claim").as_str().into()],
        wanted: vec![PodAssignment {
            place,
            pods: vec![uid_of(&cluster, node)],
        }],
    });
    cluster.with(|snapshot| snapshot.cursor = Some(Cursor::Plan(plan.to_vec())))
}

#[test]
fn steps_of_an_active_plan_are_carried_out_in_sequence() {
    for lookahead in [Lookahead::ActivePlan, Lookahead::ToConvergence] {
        let TestCluster(mut snapshot) = active_plan(7_000);
        let mut done = Vec::new();
        while !kept(snapshot.cursor.as_ref()).is_empty() {
            let options = SearchOptions {
                lookahead,
                ..SearchOptions::new(&snapshot)
            };
            let result = evaluate(&snapshot, options);
            let [command] = &result.commands[..] else {
                panic!("{lookahead:?}, after {done:?}: {:?}", result.commands);
            };
            done.push((
                command.nodes.clone(),
                command.method,
                command.replacements.len(),
                kept(result.cursor.as_ref()),
            ));
            simulate_apply::carry_out(command, &mut snapshot);
            snapshot.cursor = result.cursor;
        }
        let [one, other] = ["one", "other"].map(|name| vec![name.to_owned()]);
        let expected = [
            (one, Method::SingleNode, 1, vec![other.clone()]),
            (other, Method::SingleNode, 0, Vec::new()),
        ];
        assert_eq!(done, expected, "{lookahead:?}");
        assert_eq!(snapshot.cursor, None, "{lookahead:?}");
    }
}

#[test]
fn active_plan_yields_to_a_single_move_with_a_better_trajectory() {
    let commands = active_plan(5_000).commands();
    let [(_, nodes, replacements)] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((nodes.len(), replacements.len()), (2, 0), "{commands:?}");
}

#[test]
fn active_plan_is_kept_while_budgets_block_it() {
    let cluster = active_plan(7_000).with(|snapshot| {
        snapshot.node_pools[0].disruption.budgets = vec![budget("0")];
    });
    let result = disrupt(&cluster.0);
    assert!(result.commands.is_empty(), "{:?}", result.commands);
    assert_eq!(kept(result.cursor.as_ref()), [["one"], ["other"]]);
}

/// Budgets allow the plan at its validation, fifteen seconds later.
#[test]
fn plan_starts_only_when_budgets_allow_it() {
    let nodes = |seconds| {
        let cluster = active_plan(7_000).with(|snapshot| {
            snapshot.now += SignedDuration::from_secs(seconds);
            snapshot.node_pools[0].disruption.budgets = vec![Budget {
                schedule: Some("0 0 * * *".to_owned()),
                duration: Some("1m".to_owned()),
                ..budget("0")
            }];
        });
        cluster.removes()
    };
    assert!(nodes(50).is_empty());
    assert_eq!(nodes(60), ["one"]);
}

#[test]
fn other_moves_proceed_while_budgets_block_the_plan() {
    let cluster = active_plan(7_000)
        .pool("open")
        .with(|snapshot| snapshot.node_pools[0].disruption.budgets = vec![budget("0")])
        .node("spare", "large", &[800])
        .belongs("spare", "open")
        .with(|snapshot| {
            let pool = ("karpenter.sh/nodepool".to_owned(), "open".to_owned());
            let own = snapshot.pods.last_mut().unwrap();
            own.node_selector.extend([pool]);
        });
    let result = disrupt(&cluster.0);
    let nodes = result.commands.iter().map(|command| &command.nodes);
    assert_eq!(nodes.collect::<Vec<_>>(), [&["spare"]]);
    assert_eq!(kept(result.cursor.as_ref()), [["one"], ["other"]]);
}

/// An active plan of two steps, of which either is possible, but not both.
fn conflicting_steps() -> TestCluster {
    let cluster = TestCluster::new()
        .with(|snapshot| snapshot.settings.optimize = Optimize::Cost)
        .node("one", "medium", &[800])
        .node("other", "medium", &[800])
        .node("full", "large", &[7_000]);
    let to_the_full_one = ["one", "other"].map(|node| PlannedRemoval {
        nodes: vec![format!("{node}-claim").as_str().into()],
        wanted: vec![PodAssignment {
            place: Place::Node("full".to_owned()),
            pods: vec![uid_of(&cluster, node)],
        }],
    });
    let begun = Cursor::Plan(to_the_full_one.to_vec());
    cluster.with(|snapshot| snapshot.cursor = Some(begun))
}

#[test]
fn steps_that_need_the_same_free_capacity_are_not_merged() {
    let commands = conflicting_steps().commands();
    let [(_, nodes, replacements)] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((nodes.len(), replacements.len()), (1, 0), "{commands:?}");
}

#[test]
fn trajectory_contains_no_step_that_is_rejected_on_the_way() {
    let TestCluster(snapshot) = conflicting_steps();
    let evaluate = |snapshot: &Snapshot| {
        let options = SearchOptions {
            lookahead: Lookahead::ActivePlan,
            ..SearchOptions::new(snapshot)
        };
        evaluate(snapshot, options)
    };
    let trajectory = trajectory::follow(&snapshot, None, snapshot.cursor.clone(), evaluate);
    // One pod moves to the full node. The other one gets a smaller node.
    let price = |name: &str| {
        let mut types = snapshot.instance_types[&"default".into()].iter();
        let kind = types.find(|kind| kind.name == name).unwrap();
        kind.offerings[0].price.0
    };
    assert_eq!(trajectory.cost, price("large") + price("small"));
    assert_eq!(trajectory.moved, 2);
}

#[test]
fn trajectory_continues_a_plan_or_evaluates_all_nodes() {
    let TestCluster(snapshot) = TestCluster::new().node("empty", "small", &[]);
    let commands = disrupt(&snapshot).commands;
    let plan = active_plan(7_000).0.cursor;
    let search = Some(Cursor::Single(BTreeMap::new()));
    let (left, seen) = ([plan.clone(), search, None], RefCell::new(Vec::new()));
    trajectory::follow(&snapshot, None, None, |snapshot| {
        let mut seen = seen.borrow_mut();
        let cursor = left[seen.len()].clone();
        seen.push(snapshot.cursor.clone());
        DisruptionResult {
            commands: cursor.iter().flat_map(|_| commands.clone()).collect(),
            cursor,
            ..DisruptionResult::default()
        }
    });
    assert_eq!(seen.into_inner(), [None, plan, None]);
}

fn uid_of(cluster: &TestCluster, node: &str) -> Uid {
    let mut pods = cluster.0.pods.iter();
    let on = pods.find(|pod| pod.node_name.as_ref().is_some_and(|name| name.0 == node));
    on.unwrap().uid.clone()
}
