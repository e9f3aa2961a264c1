//! Garbage collection of NodeClaims (docs/protocol.md#g2, docs/protocol.md#g3): delayed or truncated answers of EC2 cost no node,
//! and an EC2 that shows nothing at all costs one.

use protocol::{Model, Verdict, explore};

/// Instances that run all the time, while EC2 answers incorrectly.
#[derive(Clone, Copy)]
struct AbsenceModel {
    /// Two sweeps at such a distance that a delayed instance is visible at the second (docs/protocol.md#g2).
    two_sweeps: bool,
    /// An instance that a list omits is described by its id (docs/protocol.md#g2).
    get_by_id: bool,
    /// More absences than one, or than a tenth, within an hour are not believed (docs/protocol.md#g3).
    brake: bool,
}

const RULES: AbsenceModel = AbsenceModel {
    two_sweeps: true,
    get_by_id: true,
    brake: true,
};

const INSTANCES: usize = 3;
/// Ticks between the two sweeps, and longest delay of EC2.
const SWEEP_DISTANCE: u8 = 2;
/// Terminations that docs/protocol.md#g3 allows for so few instances.
const TERMINATIONS_MAX: usize = 1;
/// One fault at a time: a list truncated twice together with a delayed description would be believed.
const FAULTS: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Ticks since EC2 began to show nothing.
    blind: Option<u8>,
    /// Lists omit the first instance.
    truncated: bool,
    faults: u8,
    /// Ticks for which each instance has been missing, as remembered by the sweeps.
    missing: [Option<u8>; INSTANCES],
    collected: [bool; INSTANCES],
    violation: Option<&'static str>,
}

impl AbsenceModel {
    fn sweep(&self, state: &State, at: usize) -> State {
        let mut after = state.clone();
        let (Some(missing), Some(collected)) =
            (after.missing.get_mut(at), after.collected.get_mut(at))
        else {
            return after;
        };
        let is_shown = state.blind.is_none();
        let is_listed = is_shown && !(state.truncated && at == 0);
        if is_listed {
            *missing = None;
            return after;
        }
        let since = *missing.get_or_insert(0);
        let is_sure = !self.two_sweeps || since >= SWEEP_DISTANCE;
        let is_denied = !self.get_by_id || !is_shown;
        let lost = state.collected.iter().filter(|lost| **lost).count();
        if is_sure && is_denied && !*collected && (!self.brake || lost < TERMINATIONS_MAX) {
            *collected = true;
            after.violation = match state.blind {
                None => Some("a truncated list is believed"),
                Some(ticks) if ticks < SWEEP_DISTANCE => Some("a delayed answer is believed"),
                Some(_) if lost >= TERMINATIONS_MAX => Some("an empty EC2 is believed"),
                Some(_) => None,
            };
        }
        after
    }
}

impl Model for AbsenceModel {
    type State = State;

    fn initial(&self) -> State {
        State {
            blind: None,
            truncated: false,
            faults: FAULTS,
            missing: [None; INSTANCES],
            collected: [false; INSTANCES],
            violation: None,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps: Vec<_> = (0..INSTANCES)
            .map(|at| ("a sweep reads", self.sweep(state, at)))
            .collect();
        let mut step = |name, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((name, after));
        };
        step("time passes", &|after| {
            let ticks = [&mut after.blind].into_iter().chain(&mut after.missing);
            for ticks in ticks.flatten() {
                *ticks = (*ticks + 1).min(SWEEP_DISTANCE);
            }
        });
        if state.faults > 0 {
            step("EC2 shows nothing", &|after| {
                (after.blind, after.faults) = (after.blind.or(Some(0)), after.faults - 1);
            });
            step("lists omit an instance", &|after| {
                (after.truncated, after.faults) = (true, after.faults - 1);
            });
        }
        step("EC2 shows all instances again", &|after| {
            (after.blind, after.truncated) = (None, false);
        });
        steps
    }

    fn violation(&self, state: &State, _: bool) -> Option<&'static str> {
        state.violation
    }
}

fn assert_violation(rules: AbsenceModel, expected: &str) {
    match explore(&rules) {
        Verdict::Violated { rule, .. } => assert_eq!(rule, expected),
        Verdict::Holds { states } => panic!("no violation in {states} states: {expected}"),
    }
}

#[test]
fn g2_g3_instances_missing_in_ec2_are_not_gone() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn g2_single_look_mistakes_a_delay_for_an_absence() {
    assert_violation(
        AbsenceModel {
            two_sweeps: false,
            ..RULES
        },
        "a delayed answer is believed",
    );
}

#[test]
fn g2_without_a_get_by_id_a_truncated_list_is_believed() {
    assert_violation(
        AbsenceModel {
            get_by_id: false,
            ..RULES
        },
        "a truncated list is believed",
    );
}

#[test]
fn g3_without_the_brake_a_blind_cloud_costs_all_nodes() {
    assert_violation(
        AbsenceModel {
            brake: false,
            ..RULES
        },
        "an empty EC2 is believed",
    );
}
