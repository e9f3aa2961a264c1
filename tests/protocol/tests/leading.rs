//! Karpenter's leader Lease (docs/protocol.md#b1, docs/protocol.md#b2): never do two brains act on one cluster.

use protocol::{Model, Verdict, explore};

/// Whittle's sweeps and turns beside a Karpenter that comes and goes; time passes in ticks.
#[derive(Clone, Copy)]
struct Leases {
    /// The Lease is read before acts (docs/protocol.md#b1).
    reads: bool,
    /// It must last for longer than the acts take (docs/protocol.md#b1).
    margin: bool,
    /// A foreign Lease is taken only when it was seen unchanged for longer than its own duration (docs/protocol.md#b2).
    past: bool,
    /// By our own clock since we saw it, not by the time that is written in it (docs/protocol.md#b2).
    own_clock: bool,
}

const RULES: Leases = Leases {
    reads: true,
    margin: true,
    past: true,
    own_clock: true,
};

/// Ticks for which a Lease of Karpenter, and one of ours, is good.
const THEIRS: u8 = 2;
const OURS: u8 = 4;
/// A turn's acts end within so many ticks, and a turn that was stopped half way goes on no later.
const ACTS: u8 = 2;
const TURN: u8 = 5;
/// Karpenter's clock is behind by so many.
const SKEW: u8 = 2;
/// Beyond this, older is all the same.
const OLDEST: u8 = 6;
/// Renewals that are looked at: Karpenter goes away after that.
const RENEWALS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Whittle,
    Karpenter,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    holder: Holder,
    /// Ticks since it was renewed.
    age: u8,
    /// Ticks for which Karpenter still believes that it leads.
    believes: u8,
    /// Ticks for which our sweeps have seen the same foreign Lease.
    seen: Option<u8>,
    /// A turn has looked whether we lead, so many ticks ago.
    turn: Option<u8>,
    /// It acts, for so many ticks yet.
    acts: Option<u8>,
    renewals: u8,
}

fn older(ticks: u8) -> u8 {
    (ticks + 1).min(OLDEST)
}

impl Leases {
    fn may_take(&self, state: &State, seen: u8) -> bool {
        let age = match self.own_clock {
            true => seen,
            false => state.age + SKEW,
        };
        !self.past || age > THEIRS
    }

    /// The rule docs/protocol.md#b1, as a turn finds it before it acts.
    fn may_act(&self, state: &State) -> bool {
        let lasts = state.age + ACTS < OURS || !self.margin && state.age < OURS;
        !self.reads || state.holder == Holder::Whittle && lasts
    }
}

impl Model for Leases {
    type State = State;

    fn initial(&self) -> State {
        State {
            holder: Holder::Karpenter,
            age: 0,
            believes: THEIRS,
            seen: None,
            turn: None,
            acts: None,
            renewals: RENEWALS,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        let mut step = |name, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            if after != *state {
                steps.push((name, after));
            }
        };
        step("time passes", &|after| {
            after.age = older(state.age);
            after.believes = state.believes.saturating_sub(1);
            after.seen = state.seen.map(older);
            after.turn = state.turn.map(older).filter(|age| *age <= TURN);
            after.acts = state.acts.and_then(|left| left.checked_sub(1));
        });
        match state.holder {
            Holder::Karpenter => {
                if state.renewals > 0 {
                    step("Karpenter renews", &|after| {
                        (after.age, after.believes, after.seen) = (0, THEIRS, None);
                        after.renewals -= 1;
                    });
                }
                step("a sweep looks", &|after| match state.seen {
                    Some(seen) if self.may_take(state, seen) => {
                        (after.holder, after.age, after.seen) = (Holder::Whittle, 0, None);
                    }
                    seen => after.seen = Some(seen.unwrap_or(0)),
                });
            }
            Holder::Whittle => {
                step("a sweep renews", &|after| after.age = 0);
                // It waits out what it sees, as every client of such Leases does.
                if state.age > OURS && state.renewals > 0 {
                    step("Karpenter takes over", &|after| {
                        (after.holder, after.age, after.believes) = (Holder::Karpenter, 0, THEIRS);
                        after.renewals -= 1;
                    });
                }
                if state.turn.is_none() && state.age < OURS {
                    step("a turn begins", &|after| after.turn = Some(0));
                }
            }
        }
        if state.turn.is_some() && state.acts.is_none() {
            step("the turn acts, if it may", &|after| {
                after.turn = None;
                after.acts = self.may_act(state).then_some(ACTS);
            });
        }
        steps
    }

    fn broken(&self, state: &State, _: bool) -> Option<&'static str> {
        let both = state.acts.is_some() && state.believes > 0;
        both.then_some("two brains act")
    }
}

fn two_brains(rules: Leases) {
    match explore(&rules) {
        Verdict::Broken { rule, .. } => assert_eq!(rule, "two brains act"),
        Verdict::Holds { states } => panic!("they do not, in {states} states"),
    }
}

#[test]
fn b1_b2_never_do_two_brains_act() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn b1_who_does_not_read_the_lease_again_acts_beside_another() {
    two_brains(Leases {
        reads: false,
        ..RULES
    });
}

#[test]
fn b1_who_leaves_no_time_for_its_acts_acts_beside_another() {
    two_brains(Leases {
        margin: false,
        ..RULES
    });
}

#[test]
fn b2_who_takes_a_lease_before_its_duration_is_past_acts_beside_its_holder() {
    two_brains(Leases {
        past: false,
        ..RULES
    });
}

#[test]
fn b2_who_believes_the_time_in_a_lease_acts_beside_its_holder() {
    two_brains(Leases {
        own_clock: false,
        ..RULES
    });
}
