//! The metrics on `/metrics`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::Lane;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::cluster_metrics::ClusterMetrics;
use crate::function_metrics::FunctionMetrics;
use crate::kind::Kind;
use crate::relay::Relay;

/// Shared handles of the relay's metrics; cloning is cheap.
#[derive(Clone, Default)]
pub struct Metrics {
    events: Family<EventLabels, Counter>,
    restarts: Family<RestartLabels, Counter>,
    wakes: Family<WakeLabels, Counter>,
    beats: Family<OutcomeLabels, Counter>,
    views: Family<OutcomeLabels, Counter>,
    functions: Arc<Mutex<FunctionMetrics>>,
    cluster: Option<ClusterMetrics>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    resource: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RestartLabels {
    resource: &'static str,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WakeLabels {
    lane: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    lane: &'static str,
}

impl Metrics {
    /// Adds series of the watched cluster.
    pub fn of_cluster(self, cluster: ClusterMetrics) -> Self {
        Self {
            cluster: Some(cluster),
            ..self
        }
    }

    pub fn event(&self, kind: Kind, event: &'static str) {
        self.events
            .get_or_create(&EventLabels {
                resource: kind.resource(),
                event,
            })
            .inc();
    }

    pub fn watch_restarted(&self, kind: Kind, cause: &'static str) {
        self.restarts
            .get_or_create(&RestartLabels {
                resource: kind.resource(),
                cause,
            })
            .inc();
    }

    pub fn wake(&self, lane: Lane, sent: bool) {
        self.wakes
            .get_or_create(&WakeLabels {
                lane: lane.as_str(),
                outcome: outcome(sent),
            })
            .inc();
    }

    pub fn beat(&self, written: bool) {
        self.beats
            .get_or_create(&OutcomeLabels {
                outcome: outcome(written),
            })
            .inc();
    }

    pub fn view(&self, stored: bool) {
        self.views
            .get_or_create(&OutcomeLabels {
                outcome: outcome(stored),
            })
            .inc();
    }

    /// Replaces the metrics of the functions.
    pub fn show(&self, functions: FunctionMetrics) {
        *self.functions() = functions;
    }

    /// Records why newer metrics of the functions cannot be read.
    pub(crate) fn set_functions_error(&self, error: String) {
        self.functions().set_error(error);
    }

    /// The metrics of the functions.
    pub fn functions(&self) -> MutexGuard<'_, FunctionMetrics> {
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Renders all metrics in the OpenMetrics text format, including those that derive from the relay's state.
    pub fn render(&self, relay: &Relay, now: Duration) -> Result<String, fmt::Error> {
        let objects = Family::<ResourceLabels, Gauge>::default();
        let silence = Family::<ResourceLabels, Gauge>::default();
        for kind in Kind::ALL {
            let labels = ResourceLabels {
                resource: kind.resource(),
            };
            objects
                .get_or_create(&labels)
                .set(clamp(relay.state().count(kind)));
            if let Some(activity) = relay.watches().last_activity(kind) {
                silence
                    .get_or_create(&labels)
                    .set(clamp(now.saturating_sub(activity).as_secs()));
            }
        }
        let changes = Family::<LaneLabels, Counter>::default();
        for (lane, count) in relay.counters().iter() {
            changes
                .get_or_create(&LaneLabels {
                    lane: lane.as_str(),
                })
                .inc_by(count);
        }
        let waiting = Gauge::<i64>::default();
        waiting.set(clamp(relay.state().waiting()));

        let mut registry = Registry::with_prefix("whittle_relay");
        registry.register("events", "Watch events, by resource", self.events.clone());
        registry.register(
            "watch_restarts",
            "Watches restarted after an error",
            self.restarts.clone(),
        );
        registry.register(
            "wakes",
            "Wakes sent to the functions' queues",
            self.wakes.clone(),
        );
        registry.register(
            "heartbeats",
            "Heartbeats written to the ledger",
            self.beats.clone(),
        );
        registry.register(
            "views",
            "Versions of the view of pods stored in the bucket",
            self.views.clone(),
        );
        registry.register("objects", "Known objects", objects);
        registry.register("changes", "Changes that concern a lane", changes);
        registry.register("pods_waiting", "Unschedulable pods", waiting);
        registry.register_with_unit(
            "watch_silence",
            "Time since the last event or bookmark",
            Unit::Seconds,
            silence,
        );
        let mut text = String::new();
        encode_registry(&mut text, &registry)?;
        let mut of_functions = Registry::default();
        let replaced = self.cluster.map_or(&[][..], ClusterMetrics::replaced);
        let measured = relay.state().measured();
        self.functions()
            .register(measured, replaced, &mut of_functions);
        encode_registry(&mut text, &of_functions)?;
        if let Some(cluster) = self.cluster {
            cluster.write(relay, &self.functions(), now, &mut text);
        }
        encode_eof(&mut text)?;
        Ok(text)
    }
}

fn outcome(success: bool) -> &'static str {
    if success { "success" } else { "error" }
}

fn clamp(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}
