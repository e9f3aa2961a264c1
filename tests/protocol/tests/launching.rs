//! Launching, ownership and collection (docs/protocol.md#launching, docs/protocol.md#g1, docs/protocol.md#g2): a NodeClaim never
//! has two paid instances, no instance is leaked, and none is terminated while a NodeClaim owns it.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a model that leaves its bounds fails its test"
)]

use protocol::{Model, explore};

/// One NodeClaim with the turn that launches it, the turn that takes over, the turn that deletes it, and the collector.
#[derive(Clone, Copy)]
struct LaunchModel {
    /// The second turn repeats the frozen call under its own token (docs/protocol.md#a2).
    frozen: bool,
    /// The second turn first looks for launched instances (docs/protocol.md#a3).
    looks_up: bool,
    /// A call of unknown outcome is left alone while its request may be in flight (docs/protocol.md#a3).
    waits: bool,
    /// Ownership is a transaction over instance and NodeClaim (docs/protocol.md#a4).
    owns: bool,
    /// A deleted NodeClaim stays until its launch is resolved (docs/protocol.md#a5).
    resolves: bool,
    /// The collector writes the row that an adopting turn would write (docs/protocol.md#g1).
    takes: bool,
    /// An instance that an open call may have launched is skipped (docs/protocol.md#g1).
    open_calls: bool,
    /// The collector exists (docs/protocol.md#g1).
    collects: bool,
    /// EC2 answers a repeated token with the instances of the first call.
    idempotent: bool,
}

const RULES: LaunchModel = LaunchModel {
    frozen: true,
    looks_up: true,
    waits: true,
    owns: true,
    resolves: true,
    takes: true,
    open_calls: true,
    collects: true,
    idempotent: true,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// Request of the first turn, and whether its window is over.
    request: Request,
    window_over: bool,
    first_dead: bool,
    call_open: bool,
    /// Instances launched for the NodeClaim, with their tokens.
    instances: Vec<Instance>,
    claim: Claim,
    /// Instance that the NodeClaim owns according to the ledger.
    owned: Option<u8>,
    second: Second,
    collector: Option<u8>,
    resends: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Unsent,
    InFlight,
    Landed,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Instance {
    token: u8,
    alive: bool,
    /// Condemned by the collector's row.
    condemned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Exists,
    Deleted,
    Gone,
}

/// The turn that takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Second {
    Away,
    /// The instance found, and whether the window was over at the lookup.
    Found(Option<u8>, bool),
}

fn live(token: u8) -> Instance {
    Instance {
        token,
        alive: true,
        condemned: false,
    }
}

impl LaunchModel {
    fn land(&self, state: &mut State, token: u8) {
        let known = state
            .instances
            .iter()
            .any(|existing| existing.token == token);
        if !(self.idempotent && known) {
            state.instances.push(live(token));
        }
    }

    /// Ownership by docs/protocol.md#a4: the NodeClaim names its instance, and the call is closed.
    fn own(&self, state: &mut State, instance: u8) {
        let existing = &state.instances[usize::from(instance)];
        let free = state.owned.is_none_or(|other| other == instance) && !existing.condemned;
        if free || !self.owns {
            state.owned = Some(instance);
        }
        state.call_open = false;
    }
}

impl Model for LaunchModel {
    type State = State;

    fn initial(&self) -> State {
        State {
            request: Request::Unsent,
            window_over: false,
            first_dead: false,
            call_open: true,
            instances: Vec::new(),
            claim: Claim::Exists,
            owned: None,
            second: Second::Away,
            collector: None,
            resends: 2,
        }
    }

    fn next(&self, state: &State) -> Vec<(&'static str, State)> {
        let mut steps = Vec::new();
        let mut step = |name: &'static str, change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            if after != *state {
                steps.push((name, after));
            }
        };
        let first = |index: usize| u8::try_from(index).unwrap();
        if state.request == Request::Unsent
            && !state.window_over
            && !state.first_dead
            && state.call_open
        {
            step("the first turn sends its request", &|after| {
                after.request = Request::InFlight
            });
        }
        if state.request == Request::InFlight {
            step("the request takes effect", &|after| {
                after.request = Request::Landed;
                self.land(after, 0);
            });
        }
        if state.request == Request::Landed
            && !state.first_dead
            && state.call_open
            && state.owned.is_none()
        {
            step("the first turn owns its instance", &|after| {
                self.own(after, 0)
            });
        }
        step("the first turn crashes", &|after| after.first_dead = true);
        // A request is in flight no longer than the window.
        if state.request != Request::InFlight && state.first_dead {
            step("the window is over", &|after| after.window_over = true);
        }
        let may_look = state.first_dead && state.call_open && state.second == Second::Away;
        if may_look && state.claim == Claim::Exists {
            let found = state
                .instances
                .iter()
                .position(|existing| existing.alive)
                .filter(|_| self.looks_up);
            step("the second turn looks up instances", &|after| {
                after.second = Second::Found(found.map(first), state.window_over)
            });
        }
        match state.second {
            Second::Found(Some(instance), _) => {
                step("the second turn owns the found instance", &|after| {
                    after.second = Second::Away;
                    self.own(after, instance);
                })
            }
            Second::Found(None, late) if (late || !self.waits) && state.resends > 0 => {
                step("the second turn repeats the call", &|after| {
                    after.second = Second::Away;
                    after.resends -= 1;
                    let token = if self.frozen { 0 } else { after.resends + 1 };
                    self.land(after, token);
                    let instance = after
                        .instances
                        .iter()
                        .rposition(|existing| existing.token == token);
                    self.own(after, first(instance.unwrap()));
                });
            }
            Second::Found(None, _) => step("the second turn retries later", &|after| {
                after.second = Second::Away
            }),
            Second::Away => {}
        }
        if state.claim == Claim::Exists {
            step("the NodeClaim is deleted", &|after| {
                after.claim = Claim::Deleted
            });
        }
        let ends = |index: Option<u8>| {
            index.is_none_or(|index| !state.instances[usize::from(index)].alive)
        };
        if state.claim == Claim::Deleted {
            // A turn that repeats a call holds its lease meanwhile.
            let free = state.second == Second::Away;
            let settled = free && (!state.call_open || state.window_over);
            let shown = state.owned.or_else(|| {
                state
                    .instances
                    .iter()
                    .position(|existing| existing.alive)
                    .map(first)
            });
            if settled
                && let Some(instance) = shown.filter(|_| self.resolves || state.owned.is_some())
            {
                step("the instance is terminated", &|after| {
                    after.instances[usize::from(instance)].alive = false;
                });
            }
            let resolved = settled && ends(shown) || !self.resolves && ends(state.owned);
            if resolved {
                step("the NodeClaim is removed", &|after| {
                    after.claim = Claim::Gone;
                    after.call_open = false;
                    after.owned = None;
                });
            }
        }
        match state.collector {
            None if !self.collects => {}
            None => {
                let stray = |(_, existing): &(usize, &Instance)| existing.alive;
                for (index, _) in state.instances.iter().enumerate().filter(stray) {
                    // The list of NodeClaims does not show an ownership that was recorded just now.
                    let shown = state.owned == Some(first(index))
                        && !state.call_open
                        && state.claim != Claim::Gone;
                    let explained = self.open_calls && state.call_open;
                    if !shown && !explained {
                        step("the collector finds an orphan", &|after| {
                            after.collector = Some(first(index))
                        });
                    }
                }
            }
            Some(instance) => step("the collector terminates the orphan", &|after| {
                after.collector = None;
                let free = after.owned != Some(instance);
                if free || !self.takes {
                    let existing = &mut after.instances[usize::from(instance)];
                    existing.condemned = true;
                    existing.alive = false;
                }
            }),
        }
        steps
    }

    fn violation(&self, state: &State, last: bool) -> Option<&'static str> {
        let owner_lost = state.claim == Claim::Exists
            && state
                .owned
                .is_some_and(|index| !state.instances[usize::from(index)].alive);
        if owner_lost {
            return Some("an owned instance was terminated");
        }
        let alive = state
            .instances
            .iter()
            .filter(|existing| existing.alive)
            .count();
        if alive > 1 && self.idempotent {
            return Some("two instances are paid for");
        }
        if last && state.claim == Claim::Gone && alive > 0 {
            return Some("an instance is leaked");
        }
        let claimed = state.claim == Claim::Exists && state.first_dead && state.owned.is_none();
        (last && claimed).then_some("the launch is abandoned")
    }
}

#[test]
fn node_claim_has_one_instance_and_no_orphan() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn a2_a3_frozen_token_or_lookup_suffices() {
    assert!(
        explore(&LaunchModel {
            looks_up: false,
            ..RULES
        })
        .holds(),
        "the token returns the instances of the first call"
    );
    assert!(
        explore(&LaunchModel {
            frozen: false,
            ..RULES
        })
        .holds(),
        "launched instances are found"
    );
    assert!(
        !explore(&LaunchModel {
            frozen: false,
            looks_up: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn a3_without_the_frozen_token_a_request_in_flight_must_be_waited_for() {
    assert!(
        explore(&LaunchModel {
            waits: false,
            ..RULES
        })
        .holds(),
        "the token is the same"
    );
    assert!(
        !explore(&LaunchModel {
            waits: false,
            frozen: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn a4_without_the_transaction_an_owner_is_lost() {
    let careless = LaunchModel {
        takes: false,
        open_calls: false,
        ..RULES
    };
    assert!(
        !explore(&LaunchModel {
            owns: false,
            ..careless
        })
        .holds()
    );
}

#[test]
fn a5_launch_resolution_or_collector_suffices_for_a_deleted_node_claim() {
    assert!(
        explore(&LaunchModel {
            resolves: false,
            ..RULES
        })
        .holds(),
        "orphans are collected later"
    );
    assert!(
        explore(&LaunchModel {
            collects: false,
            ..RULES
        })
        .holds(),
        "there is no orphan"
    );
    assert!(
        !explore(&LaunchModel {
            resolves: false,
            collects: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn g1_owner_row_or_open_call_suffices() {
    assert!(
        explore(&LaunchModel {
            takes: false,
            ..RULES
        })
        .holds(),
        "instances of an open call are left alone"
    );
    assert!(
        explore(&LaunchModel {
            open_calls: false,
            ..RULES
        })
        .holds(),
        "the owner row decides"
    );
    assert!(
        !explore(&LaunchModel {
            takes: false,
            open_calls: false,
            ..RULES
        })
        .holds()
    );
}
