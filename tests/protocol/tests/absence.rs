//! Garbage collection of NodeClaims (docs/protocol.md#g2, docs/protocol.md#g3): EC2 that forgets for a moment, or leaves out of a
//! list, costs nothing, and EC2 that shows nothing at all costs one node.

use protocol::{Model, Verdict, explore};

/// Instances that live all the time, while EC2 tells lies about them.
#[derive(Clone, Copy)]
struct Absences {
    /// Two looks, so far apart that what was only late is there (docs/protocol.md#g2).
    twice: bool,
    /// An instance that a list leaves out is asked for by its id (docs/protocol.md#g2).
    get: bool,
    /// More than one, or a tenth, within an hour is not believed (docs/protocol.md#g3).
    brake: bool,
}

const RULES: Absences = Absences {
    twice: true,
    get: true,
    brake: true,
};

const INSTANCES: usize = 3;
/// Ticks between two looks, and for which EC2 may forget for a moment.
const APART: u8 = 2;
/// The most that docs/protocol.md#g3 allows of so few.
const ALLOWED: usize = 1;
/// One lie at a time: a list that lies twice, and a description that does so at the right moment, are believed.
const SPELLS: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// EC2 shows nothing, for so many ticks now.
    blind: Option<u8>,
    /// Lists leave the first instance out.
    truncated: bool,
    spells: u8,
    /// For how many ticks each has been missing, as the sweeps remember it.
    missing: [Option<u8>; INSTANCES],
    collected: [bool; INSTANCES],
    broken: Option<&'static str>,
}

impl Absences {
    fn look(&self, state: &State, at: usize) -> State {
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
        let is_sure = !self.twice || since >= APART;
        let is_denied = !self.get || !is_shown;
        let lost = state.collected.iter().filter(|lost| **lost).count();
        if is_sure && is_denied && !*collected && (!self.brake || lost < ALLOWED) {
            *collected = true;
            after.broken = match state.blind {
                None => Some("a list is believed"),
                Some(ticks) if ticks < APART => Some("a moment is believed"),
                Some(_) if lost >= ALLOWED => Some("a blind cloud is believed"),
                Some(_) => None,
            };
        }
        after
    }
}

impl Model for Absences {
    type State = State;

    fn initial(&self) -> State {
        State {
            blind: None,
            truncated: false,
            spells: SPELLS,
            missing: [None; INSTANCES],
            collected: [false; INSTANCES],
            broken: None,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps: Vec<_> = (0..INSTANCES)
            .map(|at| ("a sweep looks", self.look(state, at)))
            .collect();
        let mut step = |name, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            steps.push((name, after));
        };
        step("time passes", &|after| {
            let ticks = [&mut after.blind].into_iter().chain(&mut after.missing);
            for ticks in ticks.flatten() {
                *ticks = (*ticks + 1).min(APART);
            }
        });
        if state.spells > 0 {
            step("EC2 shows nothing", &|after| {
                (after.blind, after.spells) = (after.blind.or(Some(0)), after.spells - 1);
            });
            step("lists leave one out", &|after| {
                (after.truncated, after.spells) = (true, after.spells - 1);
            });
        }
        step("EC2 shows all again", &|after| {
            (after.blind, after.truncated) = (None, false);
        });
        steps
    }

    fn broken(&self, state: &State, _: bool) -> Option<&'static str> {
        state.broken
    }
}

fn breaks(rules: Absences, law: &str) {
    match explore(&rules) {
        Verdict::Broken { rule, .. } => assert_eq!(rule, law),
        Verdict::Holds { states } => panic!("{law}: not in {states} states"),
    }
}

#[test]
fn g2_g3_what_ec2_does_not_show_is_not_gone() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn g2_who_looks_once_believes_a_moment() {
    breaks(
        Absences {
            twice: false,
            ..RULES
        },
        "a moment is believed",
    );
}

#[test]
fn g2_who_does_not_ask_by_id_believes_a_list() {
    breaks(
        Absences {
            get: false,
            ..RULES
        },
        "a list is believed",
    );
}

#[test]
fn g3_without_the_brake_a_blind_cloud_costs_all_nodes() {
    breaks(
        Absences {
            brake: false,
            ..RULES
        },
        "a blind cloud is believed",
    );
}
