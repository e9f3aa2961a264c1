//! Lanes and wakes (docs/protocol.md#lanes): every change in the cluster is observed, whichever wakes are lost and turns crash.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a model that leaves its bounds fails its test"
)]

use protocol::{Model, Verdict, explore};

/// The rules, each of which can be switched off.
#[derive(Clone, Copy)]
struct LaneModel {
    /// A held lane refuses a second turn (docs/protocol.md#l1).
    lease: bool,
    /// A turn that finds the lane held marks it for repetition (docs/protocol.md#l1, docs/protocol.md#l2).
    again: bool,
    /// An expired lease counts as due (docs/protocol.md#l2, docs/protocol.md#l5).
    lapsed_is_due: bool,
    /// A failing turn records its failure and nothing else (docs/protocol.md#l2).
    failures: bool,
    /// The relay's counter must equal the recorded one (docs/protocol.md#l5).
    equal: bool,
    /// The counter is read before the lists (docs/protocol.md#l6).
    counter_first: bool,
    /// Only a full look records counters (docs/protocol.md#l6); a failed one has observed nothing.
    sweep: bool,
    /// Faults: lost wakes, crashed or failed turns, restarted relays.
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    WakesAreLost,
    TurnsDie,
    TurnsFail,
    RelayRestarts,
}

const RULES: LaneModel = LaneModel {
    lease: true,
    again: true,
    lapsed_is_due: true,
    failures: true,
    equal: true,
    counter_first: true,
    sweep: true,
    fault: Fault::None,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Number of changes in the cluster, and of those that a turn has observed.
    changes: u8,
    observed: u8,
    /// Number of changes still to come.
    left: u8,
    /// Restarts of the relay, and its counter.
    epoch: u8,
    count: u8,
    wakes: u8,
    lane: Lane,
    turns: [Turn; 2],
    faults: u8,
    concurrent: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    /// Turn that holds the lease.
    held: Option<u8>,
    again: bool,
    failed: bool,
    recorded: (u8, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Away,
    Began,
    /// After the first read: of the relay's counter or of the lists.
    Read {
        counter: Option<(u8, u8)>,
        seen: Option<u8>,
    },
    Observed {
        counter: (u8, u8),
        seen: u8,
    },
    /// Holds the lane forever, as far as the ledger shows.
    Dead,
}

impl LaneModel {
    fn is_due(&self, state: &State) -> bool {
        let held = state.lane.held.map(|by| &state.turns[usize::from(by)]);
        let lapsed = held == Some(&Turn::Dead);
        let (epoch, count) = state.lane.recorded;
        let changed = match self.equal {
            true => (epoch, count) != (state.epoch, state.count),
            false => state.count > count,
        };
        self.sweep
            && ((lapsed && self.lapsed_is_due)
                || (held.is_none() && (state.lane.failed || changed)))
    }

    fn take(&self, state: &State) -> Option<State> {
        let free = match state.lane.held {
            None => true,
            Some(by) => !self.lease || state.turns[usize::from(by)] == Turn::Dead,
        };
        let mut after = state.clone();
        if !free {
            after.lane.again |= self.again;
            return Some(after);
        }
        let at = state
            .turns
            .iter()
            .position(|turn| matches!(turn, Turn::Away | Turn::Dead))?;
        after.concurrent |= state
            .turns
            .iter()
            .any(|turn| !matches!(turn, Turn::Away | Turn::Dead));
        after.turns[at] = Turn::Began;
        after.lane.held = Some(u8::try_from(at).unwrap());
        Some(after)
    }

    fn steps_of(&self, state: &State, at: usize, steps: &mut Vec<(&'static str, State)>) {
        let with = |turn: Turn| {
            let mut after = state.clone();
            after.turns[at] = turn;
            after
        };
        let counter = (state.epoch, state.count);
        match &state.turns[at] {
            Turn::Away | Turn::Dead => return,
            Turn::Began if self.counter_first => {
                steps.push((
                    "reads the counter",
                    with(Turn::Read {
                        counter: Some(counter),
                        seen: None,
                    }),
                ));
            }
            Turn::Began => {
                steps.push((
                    "reads the lists",
                    with(Turn::Read {
                        counter: None,
                        seen: Some(state.changes),
                    }),
                ));
            }
            Turn::Read {
                counter: Some(counter),
                ..
            } => {
                steps.push((
                    "reads the lists",
                    with(Turn::Observed {
                        counter: *counter,
                        seen: state.changes,
                    }),
                ));
            }
            Turn::Read { seen, .. } => {
                steps.push((
                    "reads the counter",
                    with(Turn::Observed {
                        counter,
                        seen: seen.unwrap(),
                    }),
                ));
            }
            Turn::Observed { counter, seen } => {
                let mut after = with(Turn::Away);
                after.observed = after.observed.max(*seen);
                if state.lane.held == Some(u8::try_from(at).unwrap()) {
                    after.lane = Lane {
                        recorded: *counter,
                        ..Lane::default()
                    };
                    after.wakes += u8::from(state.lane.again);
                }
                steps.push(("ends", after));
            }
        }
        if state.faults == 0 {
            return;
        }
        if self.fault == Fault::TurnsDie {
            let mut after = with(Turn::Dead);
            after.faults -= 1;
            steps.push(("crashes", after));
        }
        if self.fault == Fault::TurnsFail {
            let mut after = with(Turn::Away);
            after.faults -= 1;
            after.lane.held = None;
            after.lane.failed = self.failures;
            if !self.failures {
                after.lane.recorded = counter;
            }
            after.wakes += u8::from(std::mem::take(&mut after.lane.again));
            steps.push(("fails", after));
        }
    }
}

impl Model for LaneModel {
    type State = State;

    fn initial(&self) -> State {
        State {
            changes: 0,
            observed: 0,
            left: 3,
            epoch: 0,
            count: 0,
            wakes: 0,
            lane: Lane::default(),
            turns: [Turn::Away, Turn::Away],
            faults: 2,
            concurrent: false,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        if state.left > 0 {
            let mut after = state.clone();
            after.left -= 1;
            after.changes += 1;
            after.count += 1;
            after.wakes = (after.wakes + 1).min(2);
            steps.push(("the cluster changes", after));
        }
        if state.wakes > 0 {
            let mut after = state.clone();
            after.wakes -= 1;
            steps.extend(self.take(&after).map(|after| ("a wake arrives", after)));
            if self.fault == Fault::WakesAreLost && state.faults > 0 {
                after.faults -= 1;
                steps.push(("a wake is lost", after));
            }
        }
        if self.is_due(state) {
            steps.extend(
                self.take(state)
                    .map(|after| ("the sweep finds the lane due", after)),
            );
        }
        if self.fault == Fault::RelayRestarts && state.faults > 0 {
            let mut after = state.clone();
            after.faults -= 1;
            after.epoch += 1;
            // Changes during the restart are neither counted nor followed by a wake.
            after.count = 0;
            if after.left > 0 {
                after.left -= 1;
                after.changes += 1;
            }
            steps.push(("the relay restarts", after));
        }
        for at in 0..state.turns.len() {
            self.steps_of(state, at, &mut steps);
        }
        steps.retain(|(_, after)| after != state);
        steps
    }

    fn violation(&self, state: &State, last: bool) -> Option<&'static str> {
        if state.concurrent {
            return Some("two turns of a lane run at once");
        }
        (last && state.observed < state.changes).then_some("a change is never observed")
    }
}

const FAULTS: [Fault; 5] = [
    Fault::None,
    Fault::WakesAreLost,
    Fault::TurnsDie,
    Fault::TurnsFail,
    Fault::RelayRestarts,
];

fn has_violation(lanes: LaneModel) -> bool {
    FAULTS
        .into_iter()
        .any(|fault| !explore(&LaneModel { fault, ..lanes }).holds())
}

#[test]
fn every_change_is_observed() {
    for fault in FAULTS {
        let verdict = explore(&LaneModel { fault, ..RULES });
        assert!(verdict.holds(), "{verdict:?}");
    }
}

#[test]
fn l1_without_the_lease_two_turns_run_at_once() {
    assert!(has_violation(LaneModel {
        lease: false,
        ..RULES
    }));
}

#[test]
fn l2_without_repetition_only_the_sweep_observes_the_change() {
    let forgetful = LaneModel {
        again: false,
        ..RULES
    };
    assert!(
        !has_violation(forgetful),
        "the sweep sees the changed counter"
    );
    assert!(has_violation(LaneModel {
        sweep: false,
        ..forgetful
    }));
    let alone = LaneModel {
        sweep: false,
        ..RULES
    };
    assert!(
        explore(&alone).holds(),
        "repetition suffices without faults"
    );
}

#[test]
fn l2_a_lapsed_lease_must_count_as_due() {
    assert!(has_violation(LaneModel {
        lapsed_is_due: false,
        ..RULES
    }));
}

#[test]
fn l2_a_failure_must_be_recorded() {
    assert!(has_violation(LaneModel {
        failures: false,
        ..RULES
    }));
}

#[test]
fn l5_counters_must_be_equal() {
    assert!(has_violation(LaneModel {
        equal: false,
        ..RULES
    }));
}

#[test]
fn l5_without_the_sweep_a_lost_wake_is_never_recovered() {
    assert!(has_violation(LaneModel {
        sweep: false,
        ..RULES
    }));
}

#[test]
fn l6_the_counter_must_be_read_before_the_lists() {
    assert!(has_violation(LaneModel {
        counter_first: false,
        ..RULES
    }));
    let violation = explore(&LaneModel {
        counter_first: false,
        fault: Fault::WakesAreLost,
        ..RULES
    });
    assert!(
        matches!(
            violation,
            Verdict::Violated {
                rule: "a change is never observed",
                ..
            }
        ),
        "{violation:?}"
    );
}
