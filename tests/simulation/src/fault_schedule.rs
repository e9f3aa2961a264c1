use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use fakes::{CallOutcome, CrashTiming, FaultSchedule};
use jiff::{SignedDuration, Timestamp};
use model::ClusterName;

use crate::{
    rng::Rng,
    script::{EventKind, Port},
};

/// Time after which a client gives up an unanswered call, the same as the real client's.
const CLIENT_TIMEOUT: SignedDuration = SignedDuration::from_secs(25);

/// The faults that are active now, and their effect on each call.
#[derive(Clone)]
pub(crate) struct ActiveFaults(Arc<Mutex<State>>);

struct State {
    rng: Rng,
    /// Probability of a slow call, per mille, and the longest duration of one in seconds.
    latency: (u64, i64),
    /// Active faults, each with its end and its cluster. Only faults of one cluster's API server are limited to that cluster.
    active: Vec<(Timestamp, ClusterName, EventKind)>,
    /// Whether several invocations are running, so that the interleaving of calls matters.
    concurrent: bool,
    /// End of the last fault that concerned each cluster.
    clear_since: BTreeMap<ClusterName, Timestamp>,
}

impl ActiveFaults {
    pub(crate) fn new(
        seed: u64,
        latency: (u64, i64),
        clusters: impl Iterator<Item = ClusterName>,
        now: Timestamp,
    ) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: Rng::new(seed, 2),
            latency,
            active: Vec::new(),
            concurrent: false,
            clear_since: clusters.map(|name| (name, now)).collect(),
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn add(&self, until: Timestamp, cluster: &ClusterName, event: EventKind) {
        let event = (until, cluster.clone(), event);
        self.with(|state| state.active.push(event));
    }

    pub(crate) fn advance(&self, now: Timestamp, concurrent: bool) {
        self.with(|state| {
            state.concurrent = concurrent;
            for (name, since) in &mut state.clear_since {
                let mut active = state.active.iter();
                if active.any(|(_, of, event)| of == name || !is_of_one_cluster(event)) {
                    *since = now;
                }
            }
            state.active.retain(|(until, ..)| *until > now);
        });
    }

    /// Ends all faults.
    pub(crate) fn end(&self, now: Timestamp) {
        self.with(|state| {
            state.active.clear();
            state.latency = (0, 0);
            for since in state.clear_since.values_mut() {
                *since = now;
            }
        });
    }

    /// Time since the last fault that concerned a cluster.
    pub(crate) fn clear_for(&self, cluster: &ClusterName, now: Timestamp) -> SignedDuration {
        self.with(|state| {
            let since = state.clear_since.get(cluster);
            since.map_or(SignedDuration::ZERO, |since| now.duration_since(*since))
        })
    }

    /// Returns the first result of `select` among the active faults.
    pub(crate) fn find<T>(
        &self,
        mut select: impl FnMut(&mut Rng, &EventKind) -> Option<T>,
    ) -> Option<T> {
        self.with(|state| {
            let State { rng, active, .. } = state;
            active.iter().find_map(|(.., event)| select(rng, event))
        })
    }
}

impl FaultSchedule for ActiveFaults {
    fn outcome(
        &mut self,
        _: u64,
        cluster: Option<&ClusterName>,
        call: &'static str,
        _: Timestamp,
    ) -> CallOutcome {
        self.with(|state| {
            let State {
                rng,
                active,
                concurrent,
                latency,
                ..
            } = state;
            let (permille, most) = *latency;
            let is_slow = rng.chance(permille);
            let mut outcome = CallOutcome {
                yields: if *concurrent { rng.below(3) } else { 0 },
                delay: if is_slow {
                    rng.seconds(1, most)
                } else {
                    SignedDuration::ZERO
                },
                ..CallOutcome::default()
            };
            if active.is_empty() {
                return outcome;
            }
            let port = port(call);
            let concerns = |of: &ClusterName, event: &EventKind| {
                !is_of_one_cluster(event) || cluster.is_none_or(|cluster| cluster == of)
            };
            for (_, of, event) in active.iter() {
                if !concerns(of, event) {
                    continue;
                }
                match event {
                    EventKind::Faults {
                        port: of,
                        fault,
                        permille,
                        ..
                    } if Some(*of) == port && rng.chance(*permille) => {
                        outcome.fault = Some(*fault);
                    }
                    EventKind::Down { port: of, .. } if Some(*of) == port => {
                        outcome.fault = Some(fakes::Fault::Unavailable);
                    }
                    EventKind::CallFails {
                        call: of,
                        fault: failing,
                        permille,
                        ..
                    } if *of == call && rng.chance(*permille) => match failing {
                        Some(failing) => outcome.fault = Some(*failing),
                        None => outcome.crash = Some(CrashTiming::After),
                    },
                    EventKind::ApiServerSlow { hangs, .. } if port == Some(Port::Cluster) => {
                        outcome.delay = match hangs {
                            true => CLIENT_TIMEOUT,
                            false => rng.seconds(10, 20),
                        };
                        outcome.fault =
                            hangs.then_some(fakes::Fault::Unavailable).or(outcome.fault);
                    }
                    EventKind::Slow { permille, most, .. } if rng.chance(*permille) => {
                        outcome.delay = rng.seconds(1, *most);
                    }
                    EventKind::Crashes { permille, .. } if rng.chance(*permille) => {
                        let crash = if rng.chance(500) {
                            CrashTiming::Before
                        } else {
                            CrashTiming::After
                        };
                        outcome.crash = Some(crash);
                    }
                    _ => {}
                }
            }
            outcome
        })
    }
}

/// Returns whether a fault is limited to its cluster: each cluster has its own API server, kubelets, mode and leader; everything
/// else is shared.
fn is_of_one_cluster(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::Down {
            port: Port::Cluster,
            ..
        } | EventKind::Faults {
            port: Port::Cluster,
            ..
        } | EventKind::ApiServerSlow { .. }
            | EventKind::ClusterRecreated { .. }
            | EventKind::Outbreak { .. }
            | EventKind::KubeletSilent { .. }
            | EventKind::Shadow { .. }
            | EventKind::KarpenterLeads { .. }
    )
}

/// Returns the port of a call; `None` for calls that no fault concerns.
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
