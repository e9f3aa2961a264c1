//! Lanes and wakes (docs/protocol.md#lanes): whatever wakes are lost and whichever turns die, what happens in the cluster is
//! looked at.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a model that leaves its bounds fails its test"
)]

use protocol::{Model, Verdict, explore};

/// The rules, each of which can be switched off.
#[derive(Clone, Copy)]
struct Lanes {
    /// A lane that is held refuses a second turn (docs/protocol.md#l1).
    lease: bool,
    /// Who finds the lane held asks its holder to look again (docs/protocol.md#l1, docs/protocol.md#l2).
    again: bool,
    /// A lapsed lease counts as due (docs/protocol.md#l2, docs/protocol.md#l5).
    lapsed_is_due: bool,
    /// A turn that fails records it, and nothing else (docs/protocol.md#l2).
    failures: bool,
    /// The relay's counter must equal the one that was recorded (docs/protocol.md#l5).
    equal: bool,
    /// The counter is read before the lists (docs/protocol.md#l6).
    counter_first: bool,
    /// Only a full look records counters (docs/protocol.md#l6); a failed one has seen nothing.
    sweep: bool,
    /// Whether wakes are lost, turns die or fail, and relays begin to count afresh.
    trouble: Trouble,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    WakesAreLost,
    TurnsDie,
    TurnsFail,
    RelayRestarts,
}

const RULES: Lanes = Lanes {
    lease: true,
    again: true,
    lapsed_is_due: true,
    failures: true,
    equal: true,
    counter_first: true,
    sweep: true,
    trouble: Trouble::None,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// What has happened in the cluster, and how much of it a turn has looked at.
    happened: u8,
    looked: u8,
    /// How much is still to happen.
    left: u8,
    /// Relay: how often it began to count, and how far it has come.
    epoch: u8,
    count: u8,
    wakes: u8,
    lane: Lane,
    turns: [Turn; 2],
    troubles: u8,
    both: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Lane {
    /// Whose lease it is.
    held: Option<u8>,
    again: bool,
    failed: bool,
    recorded: (u8, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Away,
    Began,
    /// With what was read first: the relay's counter, or what has happened.
    Read {
        counter: Option<(u8, u8)>,
        seen: Option<u8>,
    },
    Looked {
        counter: (u8, u8),
        seen: u8,
    },
    /// It holds the lane for ever, as far as the ledger knows.
    Dead,
}

impl Lanes {
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
        after.both |= state
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
                        seen: Some(state.happened),
                    }),
                ));
            }
            Turn::Read {
                counter: Some(counter),
                ..
            } => {
                steps.push((
                    "reads the lists",
                    with(Turn::Looked {
                        counter: *counter,
                        seen: state.happened,
                    }),
                ));
            }
            Turn::Read { seen, .. } => {
                steps.push((
                    "reads the counter",
                    with(Turn::Looked {
                        counter,
                        seen: seen.unwrap(),
                    }),
                ));
            }
            Turn::Looked { counter, seen } => {
                let mut after = with(Turn::Away);
                after.looked = after.looked.max(*seen);
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
        if state.troubles == 0 {
            return;
        }
        if self.trouble == Trouble::TurnsDie {
            let mut after = with(Turn::Dead);
            after.troubles -= 1;
            steps.push(("dies", after));
        }
        if self.trouble == Trouble::TurnsFail {
            let mut after = with(Turn::Away);
            after.troubles -= 1;
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

impl Model for Lanes {
    type State = State;

    fn initial(&self) -> State {
        State {
            happened: 0,
            looked: 0,
            left: 3,
            epoch: 0,
            count: 0,
            wakes: 0,
            lane: Lane::default(),
            turns: [Turn::Away, Turn::Away],
            troubles: 2,
            both: false,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        if state.left > 0 {
            let mut after = state.clone();
            after.left -= 1;
            after.happened += 1;
            after.count += 1;
            after.wakes = (after.wakes + 1).min(2);
            steps.push(("something happens", after));
        }
        if state.wakes > 0 {
            let mut after = state.clone();
            after.wakes -= 1;
            steps.extend(self.take(&after).map(|after| ("a wake comes", after)));
            if self.trouble == Trouble::WakesAreLost && state.troubles > 0 {
                after.troubles -= 1;
                steps.push(("a wake is lost", after));
            }
        }
        if self.is_due(state) {
            steps.extend(
                self.take(state)
                    .map(|after| ("the sweep finds it due", after)),
            );
        }
        if self.trouble == Trouble::RelayRestarts && state.troubles > 0 {
            let mut after = state.clone();
            after.troubles -= 1;
            after.epoch += 1;
            // What happened while it was away is not counted, and nobody is woken for it.
            after.count = 0;
            if after.left > 0 {
                after.left -= 1;
                after.happened += 1;
            }
            steps.push(("another relay begins", after));
        }
        for at in 0..state.turns.len() {
            self.steps_of(state, at, &mut steps);
        }
        steps.retain(|(_, after)| after != state);
        steps
    }

    fn broken(&self, state: &State, last: bool) -> Option<&'static str> {
        if state.both {
            return Some("two turns of a lane at once");
        }
        (last && state.looked < state.happened).then_some("nobody looks at what happened")
    }
}

const TROUBLES: [Trouble; 5] = [
    Trouble::None,
    Trouble::WakesAreLost,
    Trouble::TurnsDie,
    Trouble::TurnsFail,
    Trouble::RelayRestarts,
];

fn breaks(lanes: Lanes) -> bool {
    TROUBLES
        .into_iter()
        .any(|trouble| !explore(&Lanes { trouble, ..lanes }).holds())
}

#[test]
fn everything_that_happens_is_looked_at() {
    for trouble in TROUBLES {
        let verdict = explore(&Lanes { trouble, ..RULES });
        assert!(verdict.holds(), "{verdict:?}");
    }
}

#[test]
fn l1_without_the_lease_two_turns_run_at_once() {
    assert!(breaks(Lanes {
        lease: false,
        ..RULES
    }));
}

#[test]
fn l2_without_asking_again_only_the_sweep_helps() {
    let forgetful = Lanes {
        again: false,
        ..RULES
    };
    assert!(
        !breaks(forgetful),
        "the sweep sees that the counter has moved on"
    );
    assert!(breaks(Lanes {
        sweep: false,
        ..forgetful
    }));
    let alone = Lanes {
        sweep: false,
        ..RULES
    };
    assert!(
        explore(&alone).holds(),
        "asking again is enough where nothing goes wrong"
    );
}

#[test]
fn l2_a_lapsed_lease_must_count_as_due() {
    assert!(breaks(Lanes {
        lapsed_is_due: false,
        ..RULES
    }));
}

#[test]
fn l2_a_failure_must_be_recorded() {
    assert!(breaks(Lanes {
        failures: false,
        ..RULES
    }));
}

#[test]
fn l5_counters_must_be_equal() {
    assert!(breaks(Lanes {
        equal: false,
        ..RULES
    }));
}

#[test]
fn l5_without_the_sweep_a_lost_wake_is_lost() {
    assert!(breaks(Lanes {
        sweep: false,
        ..RULES
    }));
}

#[test]
fn l6_the_counter_must_be_read_before_the_lists() {
    assert!(breaks(Lanes {
        counter_first: false,
        ..RULES
    }));
    let broken = explore(&Lanes {
        counter_first: false,
        trouble: Trouble::WakesAreLost,
        ..RULES
    });
    assert!(
        matches!(
            broken,
            Verdict::Broken {
                rule: "nobody looks at what happened",
                ..
            }
        ),
        "{broken:?}"
    );
}
