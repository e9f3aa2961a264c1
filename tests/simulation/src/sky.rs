use std::sync::{Arc, Mutex, PoisonError};

use fakes::{Death, Fate, Weather};
use jiff::{SignedDuration, Timestamp};

use crate::{
    dice::Dice,
    script::{Port, What},
};

/// The trouble there is now, and how it hits each call.
#[derive(Clone)]
pub(crate) struct Sky(Arc<Mutex<State>>);

struct State {
    dice: Dice,
    /// So many of a thousand calls take up to so many seconds.
    latency: (u64, i64),
    spells: Vec<(Timestamp, What)>,
    /// Whether others run at the same time, so that it matters how calls interleave.
    crowded: bool,
    /// When the last spell ended.
    clear_since: Timestamp,
}

impl Sky {
    pub(crate) fn new(seed: u64, latency: (u64, i64), now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(State {
            dice: Dice::new(seed, 2),
            latency,
            spells: Vec::new(),
            crowded: false,
            clear_since: now,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, until: Timestamp, spell: What) {
        self.with(|state| state.spells.push((until, spell)));
    }

    pub(crate) fn pass(&self, now: Timestamp, crowded: bool) {
        self.with(|state| {
            state.crowded = crowded;
            if !state.spells.is_empty() {
                state.clear_since = now;
            }
            state.spells.retain(|(until, _)| *until > now);
        });
    }

    /// Everything works again.
    pub(crate) fn end(&self, now: Timestamp) {
        self.with(|state| {
            state.spells.clear();
            state.latency = (0, 0);
            state.clear_since = now;
        });
    }

    /// For how long nothing has gone wrong.
    pub(crate) fn clear_for(&self, now: Timestamp) -> SignedDuration {
        self.with(|state| now.duration_since(state.clear_since))
    }

    /// A spell that is there now and that this chooses.
    pub(crate) fn any<T>(&self, mut of: impl FnMut(&mut Dice, &What) -> Option<T>) -> Option<T> {
        self.with(|state| {
            let State { dice, spells, .. } = state;
            spells.iter().find_map(|(_, spell)| of(dice, spell))
        })
    }
}

impl Weather for Sky {
    fn fate(&mut self, _: u64, call: &'static str, _: Timestamp) -> Fate {
        self.with(|state| {
            let State {
                dice,
                spells,
                crowded,
                latency,
                ..
            } = state;
            let (permille, most) = *latency;
            let is_slow = dice.chance(permille);
            let mut fate = Fate {
                gives_way: if *crowded { dice.below(3) } else { 0 },
                takes: if is_slow {
                    dice.seconds(1, most)
                } else {
                    SignedDuration::ZERO
                },
                ..Fate::default()
            };
            if spells.is_empty() {
                return fate;
            }
            let port = port(call);
            for (_, spell) in spells.iter() {
                match spell {
                    What::Faults {
                        port: of,
                        fault,
                        permille,
                        ..
                    } if Some(*of) == port && dice.chance(*permille) => {
                        fate.fault = Some(*fault);
                    }
                    What::Down { port: of, .. } if Some(*of) == port => {
                        fate.fault = Some(fakes::Fault::Unavailable);
                    }
                    What::Slow { permille, most, .. } if dice.chance(*permille) => {
                        fate.takes = dice.seconds(1, *most);
                    }
                    What::Crashes { permille, .. } if dice.chance(*permille) => {
                        let dies = if dice.chance(500) {
                            Death::Before
                        } else {
                            Death::After
                        };
                        fate.dies = Some(dies);
                    }
                    _ => {}
                }
            }
            fate
        })
    }
}

/// Whose call it is; `None` for what no trouble concerns.
fn port(call: &str) -> Option<Port> {
    match call {
        "ready"
        | "launch"
        | "instances_of_launch"
        | "describe_instances"
        | "instances_of_reservation"
        | "list_instances"
        | "troubles"
        | "terminate"
        | "tag"
        | "instance_types"
        | "resolve"
        | "prepare"
        | "free_addresses" => Some(Port::Cloud),
        "node_pools"
        | "node_classes"
        | "node_claims"
        | "nodes"
        | "pods"
        | "unassigned_pods"
        | "daemon_sets"
        | "namespaces"
        | "disruption_budgets"
        | "storage"
        | "node_overlays"
        | "capacity_buffers"
        | "pod"
        | "node"
        | "node_claim"
        | "create_node_claim"
        | "update_node_claim"
        | "delete_node_claim"
        | "update_node"
        | "evict"
        | "delete_pod"
        | "update_node_pool_status"
        | "update_node_class_status"
        | "annotate_node_pool"
        | "annotate_node_class"
        | "set_node_class_finalizer"
        | "identity"
        | "post_event"
        | "leader_lease"
        | "hold_leader_lease"
        | "connect" => Some(Port::Cluster),
        "send" => Some(Port::Queue),
        "entries" | "renew_prices" | "collect_templates" | "secret" | "post" | "publish"
        | "put_event" | "get" | "put" | "archive" | "zonal_shifts_of" => None,
        _ => Some(Port::Ledger),
    }
}
