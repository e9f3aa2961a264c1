//! Karpenter's leader Lease (docs/protocol.md#b1, docs/protocol.md#b2): two controllers never act on one cluster.

use protocol::{Model, Verdict, explore};

/// Whittle's sweeps and turns beside an intermittent Karpenter; time passes in ticks.
#[derive(Clone, Copy)]
struct LeaseModel {
    /// The Lease is read before actions (docs/protocol.md#b1).
    reads: bool,
    /// The Lease must last longer than the actions take (docs/protocol.md#b1).
    margin: bool,
    /// A foreign Lease is taken only after it was seen unchanged for longer than its own duration (docs/protocol.md#b2).
    past: bool,
    /// The duration is measured by the local clock since the first sight, not by the time in the Lease (docs/protocol.md#b2).
    own_clock: bool,
}

const RULES: LeaseModel = LeaseModel {
    reads: true,
    margin: true,
    past: true,
    own_clock: true,
};

/// Durations of Karpenter's Lease and of Whittle's, in ticks.
const KARPENTER_LEASE: u8 = 2;
const WHITTLE_LEASE: u8 = 4;
/// Ticks in which a turn's actions end, and after which a suspended turn no longer continues.
const ACTION_TICKS: u8 = 2;
const TURN_TICKS: u8 = 5;
/// Ticks by which Karpenter's clock is behind.
const SKEW: u8 = 2;
/// Ages above this are equal.
const AGE_MAX: u8 = 6;
/// Number of renewals explored, after which Karpenter is gone.
const RENEWALS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Whittle,
    Karpenter,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    holder: Holder,
    /// Ticks since the last renewal.
    age: u8,
    /// Ticks for which Karpenter still believes that it leads.
    believes: u8,
    /// Ticks for which Whittle's sweeps have seen the foreign Lease unchanged.
    seen: Option<u8>,
    /// Ticks since a turn has read the Lease.
    turn: Option<u8>,
    /// Remaining ticks of the turn's actions.
    acting: Option<u8>,
    renewals: u8,
}

fn older(ticks: u8) -> u8 {
    (ticks + 1).min(AGE_MAX)
}

impl LeaseModel {
    fn may_take(&self, state: &State, seen: u8) -> bool {
        let age = match self.own_clock {
            true => seen,
            false => state.age + SKEW,
        };
        !self.past || age > KARPENTER_LEASE
    }

    /// Rule docs/protocol.md#b1, evaluated by a turn before its actions.
    fn may_act(&self, state: &State) -> bool {
        let lasts =
            state.age + ACTION_TICKS < WHITTLE_LEASE || !self.margin && state.age < WHITTLE_LEASE;
        !self.reads || state.holder == Holder::Whittle && lasts
    }
}

impl Model for LeaseModel {
    type State = State;

    fn initial(&self) -> State {
        State {
            holder: Holder::Karpenter,
            age: 0,
            believes: KARPENTER_LEASE,
            seen: None,
            turn: None,
            acting: None,
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
            after.turn = state.turn.map(older).filter(|age| *age <= TURN_TICKS);
            after.acting = state.acting.and_then(|left| left.checked_sub(1));
        });
        match state.holder {
            Holder::Karpenter => {
                if state.renewals > 0 {
                    step("Karpenter renews", &|after| {
                        (after.age, after.believes, after.seen) = (0, KARPENTER_LEASE, None);
                        after.renewals -= 1;
                    });
                }
                step("a sweep reads", &|after| match state.seen {
                    Some(seen) if self.may_take(state, seen) => {
                        (after.holder, after.age, after.seen) = (Holder::Whittle, 0, None);
                    }
                    seen => after.seen = Some(seen.unwrap_or(0)),
                });
            }
            Holder::Whittle => {
                step("a sweep renews", &|after| after.age = 0);
                // Karpenter waits for the Lease to expire, as every client of such Leases does.
                if state.age > WHITTLE_LEASE && state.renewals > 0 {
                    step("Karpenter takes over", &|after| {
                        (after.holder, after.age, after.believes) =
                            (Holder::Karpenter, 0, KARPENTER_LEASE);
                        after.renewals -= 1;
                    });
                }
                if state.turn.is_none() && state.age < WHITTLE_LEASE {
                    step("a turn starts", &|after| after.turn = Some(0));
                }
            }
        }
        if state.turn.is_some() && state.acting.is_none() {
            step("the turn acts if allowed", &|after| {
                after.turn = None;
                after.acting = self.may_act(state).then_some(ACTION_TICKS);
            });
        }
        steps
    }

    fn violation(&self, state: &State, _: bool) -> Option<&'static str> {
        let both = state.acting.is_some() && state.believes > 0;
        both.then_some("two controllers act")
    }
}

fn assert_two_leaders(rules: LeaseModel) {
    match explore(&rules) {
        Verdict::Violated { rule, .. } => assert_eq!(rule, "two controllers act"),
        Verdict::Holds { states } => panic!("no violation in {states} states"),
    }
}

#[test]
fn b1_b2_two_controllers_never_act_at_once() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn b1_without_rereading_the_lease_two_controllers_act() {
    assert_two_leaders(LeaseModel {
        reads: false,
        ..RULES
    });
}

#[test]
fn b1_without_a_margin_two_controllers_act() {
    assert_two_leaders(LeaseModel {
        margin: false,
        ..RULES
    });
}

#[test]
fn b2_early_takeover_of_a_lease_lets_two_controllers_act() {
    assert_two_leaders(LeaseModel {
        past: false,
        ..RULES
    });
}

#[test]
fn b2_trusting_the_holders_clock_lets_two_controllers_act() {
    assert_two_leaders(LeaseModel {
        own_clock: false,
        ..RULES
    });
}
