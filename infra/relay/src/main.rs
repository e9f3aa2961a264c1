//! The relay's process: configuration, clients, and tasks that run until SIGTERM.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ports::Clock;
use relay::aws::{AwsSink, sdk_config};
use relay::cluster_metrics::ClusterMetrics;
use relay::config::Config;
use relay::function_metrics::follow::follow;
use relay::http::router;
use relay::metrics::Metrics;
use relay::relay::Relay;
use relay::run::{Identity, OBSERVATIONS, Shared, run};
use relay::watch::{WatchTimeouts, Watcher};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc};
use tracing::{error, info};

/// A single thread: the relay mostly waits, and should use little memory.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    let config = Config::parse(&environment);
    let level = config
        .as_ref()
        .map_or(tracing::level_filters::LevelFilter::INFO, |config| {
            config.log_level
        });
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(level)
        .init();
    let relayed = match config {
        Ok(config) => {
            relay(
                config,
                environment.get("HOSTNAME").map_or("", String::as_str),
            )
            .await
        }
        Err(problems) => Err(problems.into()),
    };
    match relayed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "relay cannot start");
            ExitCode::FAILURE
        }
    }
}

/// Runs the relay until the process is asked to end.
async fn relay(config: Config, host: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut kube = kube::Config::infer().await?;
    // Watches have their own back-off.
    kube.default_retry = false;
    let api_server = kube.cluster_url.to_string();
    let epoch = format!("{}/{host}", now());
    let seed = seed(&epoch);
    let identity = Identity {
        cluster: config.cluster.clone(),
        epoch: epoch.clone(),
        api_server: api_server.clone(),
        clock: now,
    };
    let metrics = Metrics::default().of_cluster(ClusterMetrics {
        clock: now,
        per_object: config.per_object,
    });
    let relay = Relay::new(config.cluster.clone(), config.window, seed);
    let mut relay = relay.timing_terminations(now);
    if config.per_object {
        relay = relay.with_pod_series();
    }
    if config.view_bucket.is_some() {
        relay = relay.publishing(config.cluster.clone(), epoch.clone());
    }
    let shared = Shared::new(relay, metrics.clone());
    let sink = AwsSink::new(&sdk_config().await, &config, Arc::new(SystemClock));
    let sink = Arc::new(sink);

    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        format!(
            "cannot listen on {} (WHITTLE_LISTEN): {error}",
            config.listen
        )
    })?;
    let (sender, observations) = mpsc::channel(OBSERVATIONS);
    let client = kube::Client::try_from(kube)?;
    let mut watches = Watcher {
        client: client.clone(),
        observations: sender,
        timeouts: WatchTimeouts::new(seed),
        metrics: metrics.clone(),
        pages: Arc::new(Semaphore::new(1)),
    }
    .spawn();
    watches.spawn(follow(client, config.status_namespace, metrics));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ending = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("relay stopping");
    };

    info!(cluster = %config.cluster, api_server, epoch, version = env!("CARGO_PKG_VERSION"), listen = %listener.local_addr()?, "relay started");
    tokio::select! {
        () = run(shared.clone(), observations, sink, identity, ending) => Ok(()),
        served = axum::serve(listener, router(shared)) => Err(served.err().map_or_else(
            || "the HTTP server ended".into(),
            |error| format!("the HTTP server ended: {error}").into(),
        )),
        // Watches end only after the loop that receives their observations.
        Some(Err(panic)) = watches.join_next() => Err(panic.into()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of the process; it dates its epoch and heartbeats"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        now()
    }

    async fn sleep(&self, time: SignedDuration) {
        tokio::time::sleep(Duration::try_from(time).unwrap_or_default()).await;
    }
}

fn seed(epoch: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    epoch.hash(&mut hasher);
    hasher.finish()
}
