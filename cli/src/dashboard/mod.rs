//! `whittle dashboard`: nodes, costs, decisions and pending pods on a local web page.

pub(crate) mod decisions;
pub(crate) mod document;
mod events;
pub(crate) mod hub;
mod recorded;
mod server;
mod watch;

use std::{io::Write, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{ArgGroup, Args};
use jiff::Timestamp;
use model::snapshot::Settings;
use tokio::task::JoinSet;

use self::{document::Source, hub::Hub, recorded::Recorded, server::Server, watch::Watch};
use crate::{
    demo::DemoSource,
    journal::source::{self, Origin},
    kubeconfig::Kubeconfig,
    live::Live,
    moment::{self, Moment},
    planning::Planning,
    regions::{Catalog, Zones},
};

/// Interval between observations.
const INTERVAL: Duration = Duration::from_secs(2);
/// Interval between observations of the demo, where time runs faster.
const DEMO_INTERVAL: Duration = Duration::from_millis(300);

#[derive(Args)]
#[command(group = ArgGroup::new("what"), after_help = "Examples:
  whittle dashboard
  whittle dashboard --context prod --port 8080
  whittle dashboard --journal prod --since 1d
  whittle dashboard --demo")]
pub(crate) struct Arguments {
    /// Show the running cluster of this kubeconfig context, read-only; repeat it for several clusters; defaults to the current context
    #[arg(long, group = "what", value_name = "NAME")]
    context: Vec<String>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Show the journal of this registered cluster; repeat it for several clusters
    #[arg(long, group = "what", value_name = "CLUSTER")]
    journal: Vec<String>,
    /// Show the simulated account and cluster of `whittle demo` while the demo runs
    #[arg(long, group = "what")]
    demo: bool,
    #[command(flatten)]
    from: Origin,
    /// Start of the journal to show: a time such as 2026-08-22T12:00:00Z, or an age such as 7d or 2h30m
    #[arg(long, default_value = "25h", value_parser = moment::parse)]
    since: Moment,
    /// End of the journal to show, a time or an age such as 2h30m; without it, follow new records
    #[arg(long, value_parser = moment::parse)]
    until: Option<Moment>,
    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    #[command(flatten)]
    catalog: Catalog,
    #[command(flatten)]
    planning: Planning,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(Box::pin(dashboard(arguments)))
}

async fn dashboard(arguments: &Arguments) -> Result<()> {
    let settings = arguments.planning.settings()?;
    let server = Server::bind(arguments.port).await?;
    let mut observers = Observers::default();
    if !arguments.journal.is_empty() {
        let planning = &arguments.planning;
        planning.refuse("a journal contains decisions by the settings of their time")?;
        let catalog = &arguments.catalog;
        catalog.refuse("a journal has the instance types of then")?;
        for cluster in &arguments.journal {
            let recorded = of_journal(arguments, cluster).await?;
            let hub = observers.hub("journal", cluster, recorded.since);
            observers.tasks.spawn(recorded.run(hub));
        }
        serve(server, observers).await
    } else if arguments.demo {
        let demo_source = DemoSource::open().await?;
        let now = demo_source.clock().now();
        let hub = observers.hub("demo", "a simulated account and cluster", now);
        let watch = of_demo(&demo_source, &arguments.catalog, settings)?;
        observers.tasks.spawn(watch.run(Arc::clone(&hub)));
        let playing = Box::pin(demo_source.play(hub));
        tokio::select! {
            served = serve(server, observers) => served,
            played = playing => played,
        }
    } else {
        let named = arguments.context.iter().map(|name| Some(name.as_str()));
        let current = arguments.context.is_empty().then_some(None);
        for context in named.chain(current) {
            let connected = k8s::from_kubeconfig(&arguments.kubeconfig.select(context)).await?;
            let hub = observers.hub("context", &connected.context, moment::now());
            let watch = of_cluster(connected.client, &arguments.catalog, settings.clone()).await?;
            observers.tasks.spawn(watch.run(hub));
        }
        serve(server, observers).await
    }
}

/// The observed clusters: the state of each, and the task that updates it.
#[derive(Default)]
struct Observers {
    hubs: Vec<Arc<Hub>>,
    tasks: JoinSet<()>,
}

impl Observers {
    fn hub(&mut self, kind: &'static str, name: &str, at: Timestamp) -> Arc<Hub> {
        let name = name.to_owned();
        let hub = Arc::new(Hub::new(Source { kind, name }, at));
        self.hubs.push(Arc::clone(&hub));
        hub
    }
}

/// Serves the page until it is interrupted.
async fn serve(server: Server, mut observers: Observers) -> Result<()> {
    let address = server.address();
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{address}\nOpen it in a browser; Ctrl-C ends it.")?;
        out.flush()?;
    }
    tokio::select! {
        served = server.serve(observers.hubs) => served,
        Some(Err(ended)) = observers.tasks.join_next() => Err(ended).context("an observation ended"),
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for Ctrl-C"),
    }
}

async fn of_journal(arguments: &Arguments, cluster: &str) -> Result<Recorded> {
    let now = moment::now();
    let until = arguments.until.map(|until| until.before(now));
    Ok(Recorded {
        source: source::Source::open(&arguments.from).await?,
        cluster: cluster.into(),
        since: arguments.since.before(now)?,
        until: until.transpose()?,
    })
}

async fn of_cluster(client: k8s::Client, catalog: &Catalog, settings: Settings) -> Result<Watch> {
    Ok(Watch {
        live: Live::lenient(client.clone(), catalog, moment::now()).await?,
        client,
        settings,
        clock: Box::new(moment::now),
        pause: INTERVAL,
        reads_events: true,
    })
}

fn of_demo(demo_source: &DemoSource, catalog: &Catalog, settings: Settings) -> Result<Watch> {
    if catalog.region.is_some() {
        bail!("--region has no effect: the demo's account is in us-east-1");
    }
    let (types, _) = catalog.types(&Zones::new())?;
    let clock = demo_source.clock();
    Ok(Watch {
        live: Live::of_table(demo_source.client(), types),
        client: demo_source.client(),
        settings,
        clock: Box::new(move || clock.now()),
        pause: DEMO_INTERVAL,
        reads_events: false,
    })
}
