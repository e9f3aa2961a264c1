use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use fakes::{Death, Fate, Weather};
use jiff::{SignedDuration, Timestamp};
use model::ClusterName;

use crate::{
    dice::Dice,
    script::{Port, What},
};

/// Time after which a client gives up a call that is not answered, as the real one does.
const GIVEN_UP_AFTER: SignedDuration = SignedDuration::from_secs(25);

/// The trouble there is now, and how it hits each call.
#[derive(Clone)]
pub(crate) struct Sky(Arc<Mutex<State>>);

struct State {
    dice: Dice,
    /// So many of a thousand calls take up to so many seconds.
    latency: (u64, i64),
    /// With the cluster of each, which those of API servers concern alone.
    spells: Vec<(Timestamp, ClusterName, What)>,
    /// Whether others run at the same time, so that it matters how calls interleave.
    crowded: bool,
    /// When the last spell ended that concerned a cluster.
    clear_since: BTreeMap<ClusterName, Timestamp>,
}

impl Sky {
    pub(crate) fn new(
        seed: u64,
        latency: (u64, i64),
        clusters: impl Iterator<Item = ClusterName>,
        now: Timestamp,
    ) -> Self {
        Self(Arc::new(Mutex::new(State {
            dice: Dice::new(seed, 2),
            latency,
            spells: Vec::new(),
            crowded: false,
            clear_since: clusters.map(|name| (name, now)).collect(),
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, until: Timestamp, cluster: &ClusterName, spell: What) {
        let spell = (until, cluster.clone(), spell);
        self.with(|state| state.spells.push(spell));
    }

    pub(crate) fn pass(&self, now: Timestamp, crowded: bool) {
        self.with(|state| {
            state.crowded = crowded;
            for (name, since) in &mut state.clear_since {
                let mut spells = state.spells.iter();
                if spells.any(|(_, of, spell)| of == name || !is_of_one_cluster(spell)) {
                    *since = now;
                }
            }
            state.spells.retain(|(until, ..)| *until > now);
        });
    }

    /// Everything works again.
    pub(crate) fn end(&self, now: Timestamp) {
        self.with(|state| {
            state.spells.clear();
            state.latency = (0, 0);
            for since in state.clear_since.values_mut() {
                *since = now;
            }
        });
    }

    /// How long nothing has gone wrong that concerns a cluster.
    pub(crate) fn clear_for(&self, cluster: &ClusterName, now: Timestamp) -> SignedDuration {
        self.with(|state| {
            let since = state.clear_since.get(cluster);
            since.map_or(SignedDuration::ZERO, |since| now.duration_since(*since))
        })
    }

    /// A spell that is there now and that this chooses.
    pub(crate) fn any<T>(&self, mut of: impl FnMut(&mut Dice, &What) -> Option<T>) -> Option<T> {
        self.with(|state| {
            let State { dice, spells, .. } = state;
            spells.iter().find_map(|(.., spell)| of(dice, spell))
        })
    }
}

impl Weather for Sky {
    fn fate(
        &mut self,
        _: u64,
        cluster: Option<&ClusterName>,
        call: &'static str,
        _: Timestamp,
    ) -> Fate {
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
            let concerns = |of: &ClusterName, spell: &What| {
                !is_of_one_cluster(spell) || cluster.is_none_or(|cluster| cluster == of)
            };
            for (_, of, spell) in spells.iter() {
                if !concerns(of, spell) {
                    continue;
                }
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
                    What::CallFails {
                        call: of,
                        fault: failing,
                        permille,
                        ..
                    } if *of == call && dice.chance(*permille) => match failing {
                        Some(failing) => fate.fault = Some(*failing),
                        None => fate.dies = Some(Death::After),
                    },
                    What::ApiServerSlow { hangs, .. } if port == Some(Port::Cluster) => {
                        fate.takes = match hangs {
                            true => GIVEN_UP_AFTER,
                            false => dice.seconds(10, 20),
                        };
                        fate.fault = hangs.then_some(fakes::Fault::Unavailable).or(fate.fault);
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

/// Whether trouble stays within its cluster: each has an API server, kubelets, a mode and a leader of its own, and shares the rest.
fn is_of_one_cluster(spell: &What) -> bool {
    matches!(
        spell,
        What::Down {
            port: Port::Cluster,
            ..
        } | What::Faults {
            port: Port::Cluster,
            ..
        } | What::ApiServerSlow { .. }
            | What::MadeAnew { .. }
            | What::Outbreak { .. }
            | What::KubeletSilent { .. }
            | What::Shadow { .. }
            | What::KarpenterLeads { .. }
    )
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
        | "reboot"
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
        | "device_objects"
        | "resource_slices"
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
        | "annotate_pod"
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
