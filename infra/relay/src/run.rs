//! The main loop: passes observations to the relay, and its wakes and heartbeats to the sink.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use model::{ClusterName, Lane, Wake};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

use crate::counters::Counters;
use crate::metrics::Metrics;
use crate::relay::{Observation, Relay};
use crate::sink::{HeartbeatRecord, Sink, SinkError};

/// Capacity of the channel between the watches and the loop; a full channel blocks the watches, and with them the API server. A
/// page of a list is one observation.
pub const OBSERVATIONS: usize = 64;

/// Maximum time between two turns of the loop, so that `/healthz` can check that it turns.
const TURN_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// Timeout of storing a version of the view.
const VIEW_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of sending pending wakes when the process ends; well below Kubernetes' default grace period of 30 s.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The relay's state, shared by the loop and the HTTP endpoints.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    relay: Mutex<Relay>,
    last_turn: Mutex<Duration>,
    began: Instant,
    metrics: Metrics,
}

impl Shared {
    pub fn new(relay: Relay, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            relay: Mutex::new(relay),
            last_turn: Mutex::default(),
            began: Instant::now(),
            metrics,
        }))
    }

    /// Time since the relay started.
    pub fn now(&self) -> Duration {
        self.0.began.elapsed()
    }

    pub fn last_turn(&self) -> Duration {
        *self
            .0
            .last_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut Relay) -> R) -> R {
        act(&mut self.0.relay.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Content of heartbeats besides the counters.
pub struct Identity {
    pub cluster: ClusterName,
    pub epoch: String,
    pub api_server: String,
    pub clock: fn() -> Timestamp,
}

enum Completion {
    Wake(Box<Wake>, Result<(), SinkError>),
    Beat(Result<(), SinkError>),
    View(Result<(), SinkError>),
}

/// A kind of delivery; the log reports failures and recoveries per kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Delivery {
    Wakes(Lane),
    Heartbeat,
    View,
}

/// Runs the relay until `ending` resolves, then sends pending wakes and returns.
pub async fn run(
    shared: Shared,
    mut observations: mpsc::Receiver<Observation>,
    sink: Arc<dyn Sink>,
    identity: Identity,
    ending: impl Future<Output = ()>,
) {
    let mut dispatcher = Dispatcher {
        shared: shared.clone(),
        sink,
        identity,
        under_way: FuturesUnordered::new(),
        failing: BTreeSet::new(),
    };
    let mut ending = pin!(ending);
    loop {
        *shared
            .0
            .last_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = shared.now();
        dispatcher.dispatch();
        let due = shared.with(|relay| relay.due(shared.now()));
        let wait_until = shared.0.began
            + due
                .unwrap_or(Duration::MAX)
                .min(shared.now() + TURN_INTERVAL_MAX);
        tokio::select! {
            () = &mut ending => break,
            Some(observation) = observations.recv() => {
                shared.with(|relay| relay.observe(observation, shared.now()));
            }
            Some(done) = dispatcher.under_way.next() => dispatcher.handle(done),
            () = sleep_until(wait_until) => {}
        }
    }
    drop(observations);
    if timeout(SHUTDOWN_TIMEOUT, dispatcher.finish())
        .await
        .is_err()
    {
        warn!("relay stopped with unsent wakes; the housekeeper wakes their lanes");
    }
}

/// Sends due wakes, heartbeats and views: at most one wake per lane and one heartbeat at a time.
struct Dispatcher {
    shared: Shared,
    sink: Arc<dyn Sink>,
    identity: Identity,
    under_way: FuturesUnordered<BoxFuture<'static, Completion>>,
    /// Kinds of delivery whose failure has been logged.
    failing: BTreeSet<Delivery>,
}

impl Dispatcher {
    fn dispatch(&mut self) {
        let now = self.shared.now();
        if let Some(counters) = self.shared.with(|relay| relay.take_beat(now)) {
            let beat = self.beat(counters);
            let sink = Arc::clone(&self.sink);
            self.under_way.push(Box::pin(
                async move { Completion::Beat(sink.beat(&beat).await) },
            ));
        }
        if let Some(issue) = self.shared.with(|relay| relay.take_view(now)) {
            let sink = Arc::clone(&self.sink);
            self.under_way.push(Box::pin(async move {
                let stored = timeout(VIEW_TIMEOUT, sink.publish(issue)).await;
                Completion::View(stored.unwrap_or_else(|_| {
                    Err(SinkError {
                        what: "storing a version of the view".to_owned(),
                        cause: format!("no answer in {} s", VIEW_TIMEOUT.as_secs()),
                    })
                }))
            }));
        }
        let at = (self.identity.clock)();
        for mut wake in self.shared.with(|relay| relay.take_wakes(now)) {
            wake.view = self.shared.with(|relay| relay.view(at));
            wake.sent_at = Some(at);
            let sink = Arc::clone(&self.sink);
            self.under_way.push(Box::pin(async move {
                let sent = sink.send(&wake).await;
                Completion::Wake(Box::new(wake), sent)
            }));
        }
    }

    fn beat(&self, counters: Counters) -> HeartbeatRecord {
        let Identity {
            cluster,
            epoch,
            api_server,
            clock,
        } = &self.identity;
        HeartbeatRecord {
            cluster: cluster.clone(),
            epoch: epoch.clone(),
            at: clock(),
            version: env!("CARGO_PKG_VERSION"),
            api_server: api_server.clone(),
            counters,
            view: self.shared.with(|relay| relay.view(clock())),
        }
    }

    fn handle(&mut self, done: Completion) {
        let now = self.shared.now();
        let metrics = self.shared.metrics();
        match done {
            Completion::Wake(wake, outcome) => {
                metrics.wake(wake.lane, outcome.is_ok());
                self.report(Delivery::Wakes(wake.lane), &outcome);
                if outcome.is_ok() {
                    debug!(lane = %wake.lane, reason = wake.reason, hints = wake.hints.len(), "wake sent");
                    self.shared.with(|relay| relay.wake_sent(wake.lane));
                } else {
                    self.shared.with(|relay| relay.wake_failed(*wake, now));
                }
            }
            Completion::Beat(outcome) => {
                metrics.beat(outcome.is_ok());
                self.report(Delivery::Heartbeat, &outcome);
                self.shared.with(|relay| {
                    if outcome.is_ok() {
                        relay.beat_written()
                    } else {
                        relay.beat_failed()
                    }
                });
            }
            Completion::View(outcome) => {
                metrics.view(outcome.is_ok());
                self.report(Delivery::View, &outcome);
                self.shared.with(|relay| match outcome {
                    Ok(()) => relay.view_stored(),
                    Err(_) => relay.view_failed(now),
                });
            }
        }
    }

    /// Logs the first failure and the recovery of each kind of delivery; `/metrics` counts the others.
    fn report(&mut self, delivery: Delivery, outcome: &Result<(), SinkError>) {
        match outcome {
            Ok(()) if self.failing.remove(&delivery) => {
                info!(?delivery, "delivery to AWS recovered")
            }
            Ok(()) => {}
            Err(error) if self.failing.insert(delivery) => {
                warn!(?delivery, %error, "delivery to AWS failed; retrying")
            }
            Err(error) => debug!(?delivery, %error, "delivery to AWS failed; retrying"),
        }
    }

    /// Sends all pending wakes.
    async fn finish(&mut self) {
        let now = self.shared.now();
        self.shared.with(|relay| relay.flush(now));
        loop {
            self.dispatch();
            match self.under_way.next().await {
                Some(done) => self.handle(done),
                None => return,
            }
        }
    }
}
