//! The state machine as a table, reviewed as a file.

use std::fmt::Write as _;

use expect_test::expect_file;

use api::conditions::types::{
    DRAINED, INITIALIZED, INSTANCE_TERMINATING, LAUNCHED, REGISTERED, VOLUMES_DETACHED,
};

use super::{
    Detachment, Ending, Instance, Joined, LeavingNode, Observations, Pods, State, Step, next,
};
use crate::fixtures;

const STATES: [State; 10] = [
    State::Unprotected,
    State::Launching,
    State::Registering,
    State::Ambiguous,
    State::Initializing,
    State::InService,
    State::Draining,
    State::Detaching,
    State::Terminating,
    State::Gone,
];
const ENDINGS: [Option<Ending>; 6] = [
    None,
    Some(Ending::LaunchFailed),
    Some(Ending::LaunchTimeout),
    Some(Ending::RegistrationTimeout),
    Some(Ending::Expired),
    Some(Ending::Unhealthy),
];
const JOINED: [Joined; 4] = [
    Joined::Nobody,
    Joined::Several,
    Joined::Unready,
    Joined::Ready,
];
const INSTANCES: [Instance; 4] = [
    Instance::Never,
    Instance::Underway,
    Instance::Alive,
    Instance::Gone,
];

fn alive() -> Vec<Observations> {
    let of = |ending| JOINED.map(move |node| Observations::Alive { ending, node });
    ENDINGS.into_iter().flat_map(of).collect()
}

fn leaving() -> Vec<Observations> {
    let mut nodes = vec![LeavingNode::Nothing, LeavingNode::Kept];
    for ready in [false, true] {
        for pods in [Pods::Waiting, Pods::Settling, Pods::Left] {
            for volumes in [Detachment::Awaited, Detachment::Over] {
                nodes.push(LeavingNode::Leaving {
                    ready,
                    pods,
                    volumes,
                });
            }
        }
    }
    let of = |node| INSTANCES.map(move |instance| Observations::Leaving { node, instance });
    nodes.into_iter().flat_map(of).collect()
}

/// Formats observations as columns of the table; `last` is the last column.
fn words(observations: Observations, last: &str) -> String {
    match observations {
        Observations::Alive { ending, .. } => {
            let ending = ending.map_or("-".to_owned(), |ending| format!("{ending:?}"));
            format!("{ending:<20} {last:<10}")
        }
        Observations::Leaving { node, .. } => {
            let node = match node {
                LeavingNode::Nothing => "no node".to_owned(),
                LeavingNode::Kept => "kept".to_owned(),
                LeavingNode::Leaving {
                    ready,
                    pods,
                    volumes,
                } => {
                    let ready = if ready { "ready" } else { "silent" };
                    format!("{ready:<7} {:<9} {volumes:?}", format!("{pods:?}"))
                }
            };
            format!("{node:<26} {last:<9}")
        }
    }
}

fn last(observations: Observations) -> String {
    match observations {
        Observations::Alive { node, .. } => format!("{node:?}"),
        Observations::Leaving { instance, .. } => format!("{instance:?}"),
    }
}

/// Writes rows that differ in their last column, as one row if it makes no difference.
fn rows(state: State, alike: &[Observations], table: &mut String) {
    let outcome = |observations: &Observations| next(state, *observations);
    let same = alike
        .windows(2)
        .all(|pair| outcome(&pair[0]) == outcome(&pair[1]));
    for observations in alike.iter().take(if same { 1 } else { alike.len() }) {
        let (after, steps) = outcome(observations);
        let steps: Vec<String> = steps.iter().map(|step| format!("{step:?}")).collect();
        let last = if same {
            "any".to_owned()
        } else {
            last(*observations)
        };
        let state = format!("{state:?}");
        let line = format!(
            "{state:<12} | {} | {:<12} | {}",
            words(*observations, &last),
            format!("{after:?}"),
            steps.join(", ")
        );
        let _ = writeln!(table, "{}", line.trim_end_matches([' ', '|']));
    }
}

#[test]
fn steps_match_the_recorded_state_table() {
    let mut table =
        String::from("state        | ending               node       | then         | steps\n");
    for state in STATES.into_iter().filter(|state| !state.is_leaving()) {
        for alike in alive().chunks(JOINED.len()) {
            rows(state, alike, &mut table);
        }
    }
    table.push_str(
        "\nWhat is leaving is judged by what is seen alone.\n\
         state        | node    pods      volumes  instance  | then         | steps\n",
    );
    for alike in leaving().chunks(INSTANCES.len()) {
        rows(State::Draining, alike, &mut table);
    }
    expect_file!["table.txt"].assert_eq(&table);
}

#[test]
fn steps_of_a_deleted_node_claim_depend_on_observations_alone() {
    for observations in leaving() {
        let (after, steps) = next(State::Draining, observations);
        for state in [State::Detaching, State::Terminating] {
            assert_eq!(next(state, observations), (after, steps.clone()));
        }
        let mut followed = vec![Step::Follow];
        let lasting = |step: &Step| matches!(step, Step::EndInstance | Step::ReleaseNode);
        followed.extend(steps.into_iter().filter(|step| !lasting(step)));
        for state in STATES.into_iter().filter(|state| !state.is_leaving()) {
            assert_eq!(next(state, observations), (after, followed.clone()));
        }
    }
}

#[test]
fn deletion_is_never_undone() {
    for state in STATES.into_iter().filter(|state| state.is_leaving()) {
        for observations in alive() {
            assert_eq!(next(state, observations), (state, Vec::new()));
        }
        for observations in leaving() {
            assert!(next(state, observations).0.is_leaving());
        }
    }
}

/// An instance is terminated, and finalizers are removed, only if nothing is left on the node or the node no longer reports.
#[test]
fn instance_outlives_pods_and_finalizers_outlive_the_instance() {
    for observations in leaving() {
        let Observations::Leaving { node, instance } = observations else {
            continue;
        };
        let (_, steps) = next(State::Draining, observations);
        let emptied = matches!(
            node,
            LeavingNode::Nothing
                | LeavingNode::Leaving {
                    pods: Pods::Left,
                    volumes: Detachment::Over,
                    ..
                }
        );
        assert!(
            emptied || !steps.contains(&Step::EndInstance),
            "{observations:?}"
        );
        let over = instance != Instance::Alive && instance != Instance::Underway;
        let released = steps.contains(&Step::Release);
        assert!(over || !released, "{observations:?}");
        assert!(
            node == LeavingNode::Nothing || !released,
            "{observations:?}"
        );
    }
}

#[test]
fn state_follows_from_conditions() {
    use model::node::ConditionStatus::{False, True};
    let state = |conditions: &[(&str, model::node::ConditionStatus)], held: bool, goes: bool| {
        let kinds: Vec<&str> = conditions.iter().map(|(kind, _)| *kind).collect();
        let mut claim = fixtures::claim("a", &kinds);
        for (condition, (_, status)) in claim.status.conditions.iter_mut().zip(conditions) {
            condition.status = *status;
        }
        if !held {
            claim.finalizers.clear();
        }
        claim.deleted_at = goes.then(fixtures::now);
        State::from_claim(&claim)
    };
    let (launched, registered) = ((LAUNCHED, True), (REGISTERED, True));
    assert_eq!(state(&[], false, false), State::Unprotected);
    assert_eq!(state(&[], true, false), State::Launching);
    assert_eq!(state(&[launched], false, false), State::Registering);
    assert_eq!(state(&[launched], true, false), State::Registering);
    assert_eq!(
        state(&[launched, (REGISTERED, False)], true, false),
        State::Ambiguous
    );
    assert_eq!(
        state(&[launched, registered], true, false),
        State::Initializing
    );
    assert_eq!(
        state(&[launched, registered, (INITIALIZED, True)], true, false),
        State::InService
    );
    assert_eq!(state(&[], true, true), State::Draining);
    assert_eq!(state(&[(DRAINED, True)], true, true), State::Detaching);
    assert_eq!(
        state(&[(VOLUMES_DETACHED, True)], true, true),
        State::Terminating
    );
    assert_eq!(
        state(&[(VOLUMES_DETACHED, False)], true, true),
        State::Terminating
    );
    assert_eq!(
        state(&[(INSTANCE_TERMINATING, True)], true, true),
        State::Terminating
    );
    assert_eq!(state(&[launched], false, true), State::Gone);
}

#[test]
fn gone_node_claim_has_no_steps() {
    for observations in alive().into_iter().chain(leaving()) {
        assert_eq!(next(State::Gone, observations), (State::Gone, Vec::new()));
    }
}
