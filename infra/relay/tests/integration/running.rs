//! Shared parts of the integration tests: a cluster and AWS with injected failures, and a relay between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use jiff::Timestamp;
use model::{ClusterName, Lane, Wake};
use relay::backoff::Backoff;
use relay::batcher::Window;
use relay::http::router;
use relay::metrics::Metrics;
use relay::relay::Relay;
use relay::run::{Identity, OBSERVATIONS, Shared, run};
use relay::sink::{HeartbeatRecord, Sink, SinkError};
use relay::watch::{WatchTimeouts, Watcher};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;
use view::ViewVersion;

use crate::api_server::ApiServer;
use crate::support::until;

/// Collects the relay's deliveries, and fails on demand.
#[derive(Default)]
pub(crate) struct MemorySink(Mutex<Received>);

#[derive(Default)]
struct Received {
    wakes: Vec<Wake>,
    beats: Vec<HeartbeatRecord>,
    views: BTreeMap<String, Vec<u8>>,
    refused: usize,
    down: bool,
    refuses_views: bool,
}

impl MemorySink {
    pub(crate) fn wakes(&self, lane: Lane) -> Vec<Wake> {
        let received = self.0.lock().unwrap();
        received
            .wakes
            .iter()
            .filter(|wake| wake.lane == lane)
            .cloned()
            .collect()
    }

    /// A version of the view as stored in the bucket.
    pub(crate) fn view(&self, name: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().views.get(name).cloned()
    }

    pub(crate) fn last_beat(&self) -> Option<HeartbeatRecord> {
        self.0.lock().unwrap().beats.last().cloned()
    }

    /// Number of calls that were answered with an error.
    pub(crate) fn refused(&self) -> usize {
        self.0.lock().unwrap().refused
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.0.lock().unwrap().down = down;
    }

    pub(crate) fn refuse_views(&self) {
        self.0.lock().unwrap().refuses_views = true;
    }

    fn receive(&self, keep: impl FnOnce(&mut Received)) -> Result<(), SinkError> {
        let mut received = self.0.lock().unwrap();
        if received.down {
            received.refused += 1;
            return Err(SinkError {
                what: "calling AWS".to_owned(),
                cause: "it is down".to_owned(),
            });
        }
        keep(&mut received);
        Ok(())
    }
}

#[async_trait]
impl Sink for MemorySink {
    async fn send(&self, wake: &Wake) -> Result<(), SinkError> {
        self.receive(|received| received.wakes.push(wake.clone()))
    }

    async fn beat(&self, beat: &HeartbeatRecord) -> Result<(), SinkError> {
        self.receive(|received| received.beats.push(beat.clone()))
    }

    async fn publish(&self, issue: ViewVersion) -> Result<(), SinkError> {
        self.receive(|received| {
            if received.refuses_views {
                return;
            }
            received.views.insert(issue.name.clone(), issue.object);
        })?;
        match self.view(&issue.name) {
            Some(_) => Ok(()),
            None => Err(SinkError {
                what: issue.name,
                cause: "the bucket is down".to_owned(),
            }),
        }
    }
}

/// A running relay.
pub(crate) struct Running {
    pub(crate) sink: Arc<MemorySink>,
    shared: Shared,
    end: Option<oneshot::Sender<()>>,
    looping: JoinHandle<()>,
    _watches: JoinSet<()>,
}

impl Running {
    pub(crate) fn start(server: &ApiServer) -> Self {
        Self::start_with_window(server, Duration::from_millis(30))
    }

    pub(crate) fn start_with_window(server: &ApiServer, idle: Duration) -> Self {
        Self::begin(server, idle, Metrics::default())
    }

    /// Starts a relay with these additional metrics.
    pub(crate) fn start_with_metrics(server: &ApiServer, metrics: Metrics) -> Self {
        Self::begin(server, Duration::from_millis(30), metrics)
    }

    fn begin(server: &ApiServer, idle: Duration, metrics: Metrics) -> Self {
        let window = Window {
            idle,
            max: idle * 10,
        };
        let cluster = ClusterName::from("demo");
        let relay = Relay::new(cluster.clone(), window, 0);
        let relay = relay.publishing(cluster.clone(), "epoch".to_owned());
        let relay = relay.with_pod_series();
        let shared = Shared::new(relay, metrics.clone());
        let sink = Arc::new(MemorySink::default());
        let (observations, receiver) = mpsc::channel(OBSERVATIONS);
        let mut config = kube::Config::new(server.url().parse().unwrap());
        config.default_retry = false;
        let watcher = Watcher {
            client: kube::Client::try_from(config).unwrap(),
            observations,
            timeouts: short_timeouts(),
            metrics,
            pages: Arc::new(Semaphore::new(1)),
        };
        let (end, ending) = oneshot::channel::<()>();
        let identity = Identity {
            cluster,
            epoch: "epoch".to_owned(),
            api_server: server.url(),
            clock: || Timestamp::UNIX_EPOCH,
        };
        let loop_ends = async move {
            // Dropping the sender ends the relay as well.
            let _ = ending.await;
        };
        let looping = tokio::spawn(run(
            shared.clone(),
            receiver,
            Arc::clone(&sink) as _,
            identity,
            loop_ends,
        ));
        Self {
            sink,
            shared,
            end: Some(end),
            looping,
            _watches: watcher.spawn(),
        }
    }

    /// Waits until every kind is watched.
    pub(crate) async fn ready(&self) {
        until("the relay is ready", async || {
            self.get("/readyz").await.0 == StatusCode::OK
        })
        .await;
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router(self.shared.clone()).oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Serves on a local address, and returns it.
    pub(crate) async fn serve(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, router(self.shared.clone())).into_future());
        address.to_string()
    }

    pub(crate) fn count(&self, lane: Lane) -> u64 {
        self.shared.with(|relay| relay.counters().get(lane))
    }

    /// Asks the relay to end, and waits for it.
    pub(crate) async fn end(mut self) -> Arc<MemorySink> {
        drop(self.end.take());
        self.looping.await.unwrap();
        self.sink
    }
}

fn short_timeouts() -> WatchTimeouts {
    WatchTimeouts {
        response: Duration::from_secs(5),
        silence: Duration::from_millis(400),
        missing: Duration::from_millis(30),
        backoff: Backoff {
            first: Duration::from_millis(10),
            max: Duration::from_millis(50),
            seed: 0,
        },
    }
}
