//! Launching, ownership and collection (docs/protocol.md#launching, docs/protocol.md#g1, docs/protocol.md#g2): a NodeClaim never
//! has two instances that are paid for, none is left without somebody who ends it, and none is ended under its owner.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a model that leaves its bounds fails its test"
)]

use protocol::{Model, explore};

/// One NodeClaim, who launches it, who takes over, who deletes it, and the collector.
#[derive(Clone, Copy)]
struct Launches {
    /// Who takes over sends the frozen call again, under its own token (docs/protocol.md#a2).
    frozen: bool,
    /// Who takes over looks for what was launched first (docs/protocol.md#a3).
    looks: bool,
    /// A call that nothing is known of is left alone for as long as its request may be on its way (docs/protocol.md#a3).
    waits: bool,
    /// An instance is owned by a transaction over both sides (docs/protocol.md#a4).
    owns: bool,
    /// A deleted NodeClaim stays until its launch is resolved (docs/protocol.md#a5).
    resolves: bool,
    /// The collector takes the row that an adopter would take (docs/protocol.md#g1).
    takes: bool,
    /// An instance that an open call may have launched is not looked at (docs/protocol.md#g1).
    open_calls: bool,
    /// There is a collector at all (docs/protocol.md#g1).
    collects: bool,
    /// EC2 answers a repeated token with what it launched before.
    idempotent: bool,
}

const RULES: Launches = Launches {
    frozen: true,
    looks: true,
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
    /// The first one's request, and whether its window is over.
    request: Request,
    window_over: bool,
    first_dead: bool,
    call_open: bool,
    /// Who was launched for the claim, and under which token.
    instances: Vec<Instance>,
    claim: Claim,
    /// What the ledger says the claim owns.
    owned: Option<u8>,
    second: Second,
    collector: Option<u8>,
    resends: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    Unsent,
    UnderWay,
    Landed,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Instance {
    token: u8,
    alive: bool,
    /// By the collector's row.
    condemned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    There,
    Deleted,
    Gone,
}

/// Who takes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Second {
    Away,
    /// What it found, and whether the window was over when it looked.
    Found(Option<u8>, bool),
}

fn live(token: u8) -> Instance {
    Instance {
        token,
        alive: true,
        condemned: false,
    }
}

impl Launches {
    fn land(&self, state: &mut State, token: u8) {
        let known = state.instances.iter().any(|one| one.token == token);
        if !(self.idempotent && known) {
            state.instances.push(live(token));
        }
    }

    /// After docs/protocol.md#a4: the claim shows its instance, and the call is over.
    fn own(&self, state: &mut State, instance: u8) {
        let one = &state.instances[usize::from(instance)];
        let free = state.owned.is_none_or(|other| other == instance) && !one.condemned;
        if free || !self.owns {
            state.owned = Some(instance);
        }
        state.call_open = false;
    }
}

impl Model for Launches {
    type State = State;

    fn initial(&self) -> State {
        State {
            request: Request::Unsent,
            window_over: false,
            first_dead: false,
            call_open: true,
            instances: Vec::new(),
            claim: Claim::There,
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
            step("the first one sends its request", &|after| {
                after.request = Request::UnderWay
            });
        }
        if state.request == Request::UnderWay {
            step("the request lands", &|after| {
                after.request = Request::Landed;
                self.land(after, 0);
            });
        }
        if state.request == Request::Landed
            && !state.first_dead
            && state.call_open
            && state.owned.is_none()
        {
            step("the first one owns what it launched", &|after| {
                self.own(after, 0)
            });
        }
        step("the first one dies", &|after| after.first_dead = true);
        // Requests are not on their way for longer than the window.
        if state.request != Request::UnderWay && state.first_dead {
            step("the window is over", &|after| after.window_over = true);
        }
        let may_look = state.first_dead && state.call_open && state.second == Second::Away;
        if may_look && state.claim == Claim::There {
            let found = state
                .instances
                .iter()
                .position(|one| one.alive)
                .filter(|_| self.looks);
            step("the second one looks", &|after| {
                after.second = Second::Found(found.map(first), state.window_over)
            });
        }
        match state.second {
            Second::Found(Some(instance), _) => {
                step("the second one owns what it found", &|after| {
                    after.second = Second::Away;
                    self.own(after, instance);
                })
            }
            Second::Found(None, late) if (late || !self.waits) && state.resends > 0 => {
                step("the second one sends the call again", &|after| {
                    after.second = Second::Away;
                    after.resends -= 1;
                    let token = if self.frozen { 0 } else { after.resends + 1 };
                    self.land(after, token);
                    let instance = after.instances.iter().rposition(|one| one.token == token);
                    self.own(after, first(instance.unwrap()));
                });
            }
            Second::Found(None, _) => step("the second one comes back later", &|after| {
                after.second = Second::Away
            }),
            Second::Away => {}
        }
        if state.claim == Claim::There {
            step("the NodeClaim is deleted", &|after| {
                after.claim = Claim::Deleted
            });
        }
        let ends = |one: Option<u8>| one.is_none_or(|one| !state.instances[usize::from(one)].alive);
        if state.claim == Claim::Deleted {
            // Whoever sends a call again holds its lease meanwhile.
            let free = state.second == Second::Away;
            let settled = free && (!state.call_open || state.window_over);
            let shown = state
                .owned
                .or_else(|| state.instances.iter().position(|one| one.alive).map(first));
            if settled
                && let Some(instance) = shown.filter(|_| self.resolves || state.owned.is_some())
            {
                step("its instance is ended", &|after| {
                    after.instances[usize::from(instance)].alive = false;
                });
            }
            let resolved = settled && ends(shown) || !self.resolves && ends(state.owned);
            if resolved {
                step("the NodeClaim goes", &|after| {
                    after.claim = Claim::Gone;
                    after.call_open = false;
                    after.owned = None;
                });
            }
        }
        match state.collector {
            None if !self.collects => {}
            None => {
                let stray = |(_, one): &(usize, &Instance)| one.alive;
                for (index, _) in state.instances.iter().enumerate().filter(stray) {
                    // The list of NodeClaims does not show an instance that is owned just now.
                    let shown = state.owned == Some(first(index))
                        && !state.call_open
                        && state.claim != Claim::Gone;
                    let explained = self.open_calls && state.call_open;
                    if !shown && !explained {
                        step("the collector finds it belongs to nobody", &|after| {
                            after.collector = Some(first(index))
                        });
                    }
                }
            }
            Some(instance) => step("the collector ends it", &|after| {
                after.collector = None;
                let free = after.owned != Some(instance);
                if free || !self.takes {
                    let one = &mut after.instances[usize::from(instance)];
                    one.condemned = true;
                    one.alive = false;
                }
            }),
        }
        steps
    }

    fn broken(&self, state: &State, last: bool) -> Option<&'static str> {
        let owner_lost = state.claim == Claim::There
            && state
                .owned
                .is_some_and(|one| !state.instances[usize::from(one)].alive);
        if owner_lost {
            return Some("an instance was ended under its owner");
        }
        let alive = state.instances.iter().filter(|one| one.alive).count();
        if alive > 1 && self.idempotent {
            return Some("two instances are paid for");
        }
        if last && state.claim == Claim::Gone && alive > 0 {
            return Some("an instance is left behind");
        }
        let claimed = state.claim == Claim::There && state.first_dead && state.owned.is_none();
        (last && claimed).then_some("nobody goes on with the launch")
    }
}

#[test]
fn a_node_claim_has_one_instance_and_nothing_is_left_behind() {
    let verdict = explore(&RULES);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn a2_a3_the_frozen_token_and_looking_first_stand_in_for_each_other() {
    assert!(
        explore(&Launches {
            looks: false,
            ..RULES
        })
        .holds(),
        "the token answers with what it launched"
    );
    assert!(
        explore(&Launches {
            frozen: false,
            ..RULES
        })
        .holds(),
        "what was launched is found"
    );
    assert!(
        !explore(&Launches {
            frozen: false,
            looks: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn a3_without_the_frozen_token_a_request_on_its_way_must_be_waited_for() {
    assert!(
        explore(&Launches {
            waits: false,
            ..RULES
        })
        .holds(),
        "the token is the same"
    );
    assert!(
        !explore(&Launches {
            waits: false,
            frozen: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn a4_without_the_transaction_an_owner_is_lost() {
    let careless = Launches {
        takes: false,
        open_calls: false,
        ..RULES
    };
    assert!(
        !explore(&Launches {
            owns: false,
            ..careless
        })
        .holds()
    );
}

#[test]
fn a5_a_deleted_node_claim_waits_for_its_launch_or_the_collector_sees_to_it() {
    assert!(
        explore(&Launches {
            resolves: false,
            ..RULES
        })
        .holds(),
        "what is left is collected, later"
    );
    assert!(
        explore(&Launches {
            collects: false,
            ..RULES
        })
        .holds(),
        "nothing is left to collect"
    );
    assert!(
        !explore(&Launches {
            resolves: false,
            collects: false,
            ..RULES
        })
        .holds()
    );
}

#[test]
fn g1_the_row_and_open_calls_stand_in_for_each_other() {
    assert!(
        explore(&Launches {
            takes: false,
            ..RULES
        })
        .holds(),
        "what an open call launched is left alone"
    );
    assert!(
        explore(&Launches {
            open_calls: false,
            ..RULES
        })
        .holds(),
        "whoever has the row wins"
    );
    assert!(
        !explore(&Launches {
            takes: false,
            open_calls: false,
            ..RULES
        })
        .holds()
    );
}
