//! The loop that carries observations to the relay and its wakes and heartbeats to the sink.

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
use crate::sink::{Beat, Sink, SinkError};

/// Observations between the watches and the loop; a full channel makes the watches wait, and the API server with them.
/// A page of a list is one of them.
pub const OBSERVATIONS: usize = 64;

/// The loop turns at least this often, so that `/healthz` can tell whether it does.
const TURN_MOST: Duration = Duration::from_secs(5);

/// Storing a version of the view takes a moment, or is given up.
const VIEW_MOST: Duration = Duration::from_secs(20);

/// For what waits when the process is asked to end; well under Kubernetes' default grace of 30 s.
const FAREWELL: Duration = Duration::from_secs(5);

/// The relay's memory, shared between its loop and its HTTP endpoints.
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

/// What a heartbeat says besides the counters.
pub struct Identity {
    pub cluster: ClusterName,
    pub epoch: String,
    pub api_server: String,
    pub clock: fn() -> Timestamp,
}

enum Done {
    Wake(Wake, Result<(), SinkError>),
    Beat(Result<(), SinkError>),
    View(Result<(), SinkError>),
}

/// What the log speaks of as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Delivery {
    Wakes(Lane),
    Heartbeat,
    View,
}

/// Relays until `ending` resolves, then sends what waits and returns.
pub async fn run(
    shared: Shared,
    mut observations: mpsc::Receiver<Observation>,
    sink: Arc<dyn Sink>,
    identity: Identity,
    ending: impl Future<Output = ()>,
) {
    let mut courier = Courier {
        shared: shared.clone(),
        sink,
        identity,
        under_way: FuturesUnordered::new(),
        troubled: BTreeSet::new(),
    };
    let mut ending = pin!(ending);
    loop {
        *shared
            .0
            .last_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = shared.now();
        courier.dispatch();
        let due = shared.with(|relay| relay.due(shared.now()));
        let wait_until =
            shared.0.began + due.unwrap_or(Duration::MAX).min(shared.now() + TURN_MOST);
        tokio::select! {
            () = &mut ending => break,
            Some(observation) = observations.recv() => {
                shared.with(|relay| relay.observe(observation, shared.now()));
            }
            Some(done) = courier.under_way.next() => courier.conclude(done),
            () = sleep_until(wait_until) => {}
        }
    }
    drop(observations);
    if timeout(FAREWELL, courier.finish()).await.is_err() {
        warn!("ended with wakes that could not be sent; the sweep makes them good");
    }
}

/// Sends what is due, at most one wake per lane and one heartbeat at a time.
struct Courier {
    shared: Shared,
    sink: Arc<dyn Sink>,
    identity: Identity,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    /// What the log has said cannot be delivered.
    troubled: BTreeSet<Delivery>,
}

impl Courier {
    fn dispatch(&mut self) {
        let now = self.shared.now();
        if let Some(counters) = self.shared.with(|relay| relay.take_beat(now)) {
            let beat = self.beat(counters);
            let sink = Arc::clone(&self.sink);
            self.under_way
                .push(Box::pin(async move { Done::Beat(sink.beat(&beat).await) }));
        }
        if let Some(issue) = self.shared.with(|relay| relay.take_view(now)) {
            let sink = Arc::clone(&self.sink);
            self.under_way.push(Box::pin(async move {
                let stored = timeout(VIEW_MOST, sink.publish(issue)).await;
                Done::View(stored.unwrap_or_else(|_| {
                    Err(SinkError {
                        what: "storing a version of the view".to_owned(),
                        cause: format!("no answer in {} s", VIEW_MOST.as_secs()),
                    })
                }))
            }));
        }
        let at = (self.identity.clock)();
        for mut wake in self.shared.with(|relay| relay.take_wakes(now)) {
            wake.view = self.shared.with(|relay| relay.view(at));
            let sink = Arc::clone(&self.sink);
            self.under_way.push(Box::pin(async move {
                let sent = sink.send(&wake).await;
                Done::Wake(wake, sent)
            }));
        }
    }

    fn beat(&self, counters: Counters) -> Beat {
        let Identity {
            cluster,
            epoch,
            api_server,
            clock,
        } = &self.identity;
        Beat {
            cluster: cluster.clone(),
            epoch: epoch.clone(),
            at: clock(),
            version: env!("CARGO_PKG_VERSION"),
            api_server: api_server.clone(),
            counters,
            view: self.shared.with(|relay| relay.view(clock())),
        }
    }

    fn conclude(&mut self, done: Done) {
        let now = self.shared.now();
        let metrics = self.shared.metrics();
        match done {
            Done::Wake(wake, outcome) => {
                metrics.wake(wake.lane, outcome.is_ok());
                self.report(Delivery::Wakes(wake.lane), &outcome);
                if outcome.is_ok() {
                    debug!(lane = %wake.lane, reason = wake.reason, hints = wake.hints.len(), "woke");
                    self.shared.with(|relay| relay.wake_sent(wake.lane));
                } else {
                    self.shared.with(|relay| relay.wake_failed(wake, now));
                }
            }
            Done::Beat(outcome) => {
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
            Done::View(outcome) => {
                metrics.view(outcome.is_ok());
                self.report(Delivery::View, &outcome);
                self.shared.with(|relay| match outcome {
                    Ok(()) => relay.view_stored(),
                    Err(_) => relay.view_failed(now),
                });
            }
        }
    }

    /// Says the first failure and the recovery aloud, for each kind of delivery; `/metrics` counts the rest.
    fn report(&mut self, what: Delivery, outcome: &Result<(), SinkError>) {
        match outcome {
            Ok(()) if self.troubled.remove(&what) => info!(?what, "delivering again"),
            Ok(()) => {}
            Err(error) if self.troubled.insert(what) => {
                warn!(%error, "cannot deliver; trying again")
            }
            Err(error) => debug!(%error, "cannot deliver; trying again"),
        }
    }

    /// Sends what waits, until nothing does.
    async fn finish(&mut self) {
        let now = self.shared.now();
        self.shared.with(|relay| relay.hurry(now));
        loop {
            self.dispatch();
            match self.under_way.next().await {
                Some(done) => self.conclude(done),
                None => return,
            }
        }
    }
}
