//! Cost of a turn in a cluster without work: every lane's turn, as the functions run it, over the wire.
//!
//!     cargo bench -p whittle --bench turns -- [NODES] [PODS]
//!
//! The API server is a separate process, reached over TLS, so that times and memory are those of the turns alone; EC2 and
//! the ledger are in memory. Real turns create the cluster first: one provisions for all pods. The bench is in this crate
//! because the command line is where turns and the simulated cluster meet without an AWS SDK.
#![expect(clippy::print_stdout, reason = "printing is what a measurement is for")]

mod support;

use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use fakes::Sim;
use http::{Method, Request, header::CONTENT_TYPE};
use jiff::SignedDuration;
use k8s::{Access, Client, KubeCluster};
use model::{
    InstanceType, Lane,
    ids::TurnId,
    labels,
    launch::Instance,
    pod::{Pod, PodPhase},
    taint::{Taint, TaintEffect},
};
use ports::Cluster;
use sandbox::{NodeJoin, Sandbox, SandboxOptions};
use serde_json::{Value, json};
use support::{CLUSTER, SERVE, access, announce, catalog, forget_peak, memory, start_server};
use turns::{Outcome, Report};

/// The allocator of the functions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Instance type of all nodes, and the capacity for their pods together.
const TYPE: &str = "m5.xlarge";
const ZONE: &str = "us-east-1a";
const MILLICORES: usize = 3_800;
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(100);
const TURNS: usize = 21;
const LANES: [Lane; 4] = [
    Lane::Provisioner,
    Lane::Lifecycle,
    Lane::Disruption,
    Lane::Terminator,
];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let number = |index: usize, default: usize| match arguments.get(index) {
        Some(text) => text.parse().with_context(|| format!("{text} is no number")),
        None => Ok(default),
    };
    if arguments.first().is_some_and(|first| first == SERVE) {
        return serve().await;
    }
    Box::pin(measure(number(0, 500)?, number(1, 5_000)?)).await
}

/// A cluster whose machines are read from standard input, until its end.
async fn serve() -> Result<()> {
    let kind = instance_type()?;
    let sandbox = Sandbox::start(SandboxOptions::default()).await?;
    announce(&sandbox)?;
    let reader = tokio::task::spawn_blocking(move || -> Result<Sandbox> {
        for machine in std::io::stdin().lines() {
            sandbox.join_node(node(&kind, &machine?)?, SignedDuration::ZERO);
        }
        Ok(sandbox)
    });
    reader.await??.stop().await;
    Ok(())
}

/// Each machine is given by its name and its provider ID.
fn node(kind: &InstanceType, machine: &str) -> Result<NodeJoin> {
    let (name, provider_id) = machine
        .split_once(' ')
        .context("a name and a provider ID")?;
    Ok(NodeJoin {
        name: name.to_owned(),
        provider_id: provider_id.to_owned(),
        instance_type: kind.name.clone(),
        zone: ZONE.to_owned(),
        architecture: "amd64".to_owned(),
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        taints: vec![Taint {
            key: api::names::taint::UNREGISTERED.to_owned(),
            value: String::new(),
            effect: TaintEffect::NoExecute,
        }],
        ..NodeJoin::default()
    })
}

/// The type that every pod asks for.
fn instance_type() -> Result<InstanceType> {
    let mut types = catalog()?.into_iter();
    types.find(|kind| kind.name == TYPE).context(TYPE)
}

async fn measure(nodes: usize, pods: usize) -> Result<()> {
    let (mut server, announced) = start_server(&[])?;
    let access = access(&announced)?;
    let bench = Bench::new(&access)?;
    bench.prepare(nodes, pods).await?;
    let (mut launched, mut times) = (0, Vec::new());
    // One turn launches its share of what a large cluster asks for.
    while launched < nodes {
        let (took, report) = bench.turn(Lane::Provisioner).await?;
        if report.launched.is_empty() {
            bail!(
                "{launched} of {nodes} nodes were launched, and no more: {:?} {:?}",
                report.problems,
                report.warnings
            );
        }
        launched += report.launched.len();
        times.push(took.as_millis());
    }
    println!(
        "turns: those that launch {launched} nodes for {pods} pods: {times:?} ms, peak RSS {} MiB",
        memory("self", "VmHWM:")?,
    );
    // The pods are created again when the nodes are ready, so that the bench does not measure thousands of failed scheduling attempts.
    bench.scale(0).await?;
    bench.join(server.stdin.as_mut().context("a pipe")?)?;
    bench.settle(0).await?;
    bench.scale(pods).await?;
    bench
        .until(|pod| pod.phase == PodPhase::Running, pods)
        .await?;
    bench.settle(pods).await?;

    forget_peak()?;
    for lane in LANES {
        let mut times = Vec::new();
        for _ in 0..TURNS {
            let (took, report) = bench.turn(lane).await?;
            if !report.planned.is_empty() {
                bail!("a quiet turn has nothing to do: {report:?}");
            }
            times.push(took);
        }
        times.sort_unstable();
        let at = |index: usize| times.get(index).map_or(0, Duration::as_millis);
        println!(
            "turns: quiet, {:<13} median {:3} ms, fastest {:3} ms, slowest {:3} ms (target: under 150)",
            format!("{lane}:"),
            at(TURNS / 2),
            at(0),
            at(TURNS - 1),
        );
    }
    println!(
        "turns: peak RSS of quiet turns: {} MiB",
        memory("self", "VmHWM:")?
    );
    let largest = bench
        .sim
        .with(|world| world.ledger.archive.values().map(Vec::len).max());
    println!(
        "turns: the largest snapshot of the journal: {} KiB",
        largest.unwrap_or_default() >> 10
    );
    // The end of its input ends the server.
    drop(server.stdin.take());
    server.wait()?;
    Ok(())
}

struct Bench {
    client: Client,
    api: Arc<dyn Cluster>,
    sim: Sim,
    world: turns::World,
}

impl Bench {
    fn new(access: &Access) -> Result<Self> {
        let client = access.client()?;
        let api: Arc<dyn Cluster> = Arc::new(KubeCluster::new(client.clone(), "kube-system"));
        let sim = Sim::new(CLUSTER);
        let world = support::world(&sim, api.clone())?;
        Ok(Self {
            client,
            api,
            sim,
            world,
        })
    }

    /// Everything but nodes, and taken over by the first sweep.
    async fn prepare(&self, nodes: usize, pods: usize) -> Result<()> {
        for crd in api::schema::crds() {
            self.create(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                &crd.manifest,
            )
            .await?;
        }
        let named = |spec: Value| json!({"metadata": {"name": "default"}, "spec": spec});
        let class = named(serde_json::to_value(fakes::node_class("default").spec)?);
        let pool = named(serde_json::to_value(
            fakes::node_pool("default", "1h").spec,
        )?);
        self.create("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", &class)
            .await?;
        self.create("/apis/karpenter.sh/v1/nodepools", &pool)
            .await?;
        self.create(
            "/apis/apps/v1/namespaces/default/deployments",
            &deployment(nodes, pods),
        )
        .await?;
        self.until(|seen| seen.unschedulable, pods).await?;
        turns::housekeep(&self.world, &TurnId("sweep".to_owned())).await?;
        self.turn(Lane::Lifecycle).await?;
        Ok(())
    }

    /// Every instance becomes a node.
    fn join(&self, server: &mut impl Write) -> Result<()> {
        let instances: Vec<Instance> = self
            .sim
            .with(|world| world.account.instances.values().cloned().collect());
        for instance in instances {
            let name = instance.private_dns.context("a name")?;
            writeln!(server, "{name} aws:///{ZONE}/{}", instance.id)?;
        }
        Ok(())
    }

    async fn scale(&self, pods: usize) -> Result<()> {
        let path = "/apis/apps/v1/namespaces/default/deployments/web/scale";
        let replicas = json!({"spec": {"replicas": pods}});
        send(&self.client, Method::PATCH, path, &replicas).await?;
        self.until(|_| true, pods).await
    }

    /// Until every node is ready and no lane has anything left to do.
    async fn settle(&self, pods: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            let mut busy = false;
            for lane in LANES {
                let (_, report) = self.turn(lane).await?;
                busy |= !report.planned.is_empty();
            }
            let claims = self.api.node_claims().await?;
            let young = claims
                .iter()
                .filter(|claim| !claim.is_true("Initialized"))
                .count();
            if !busy && young == 0 {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                bail!("with {pods} pods, {young} nodes are not initialized");
            }
        }
    }

    async fn until(&self, holds: impl Fn(&Pod) -> bool, pods: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            let seen = self.api.pods().await?;
            if seen.len() == pods && seen.iter().all(&holds) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                bail!("the cluster does not come to rest");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn turn(&self, lane: Lane) -> Result<(Duration, Report)> {
        let now = self.world.clock.now();
        self.sim.with(|world| world.now = now);
        let (cluster, id) = (CLUSTER.into(), TurnId("turn".to_owned()));
        let started = Instant::now();
        let report = Box::pin(turns::run(
            &self.world,
            &cluster,
            lane,
            &id,
            self.world.clock.now() + turns::budget(lane),
        ))
        .await?;
        let took = started.elapsed();
        match &report.outcome {
            Outcome::Done => Ok((took, report)),
            Outcome::Held
            | Outcome::Unregistered
            | Outcome::Elsewhere(_)
            | Outcome::Postponed(_)
            | Outcome::Failed(_) => {
                bail!("{lane}: {:?}", report.outcome)
            }
        }
    }

    async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let started = Instant::now();
        loop {
            match send(&self.client, Method::POST, path, object).await {
                Ok(_) => return Ok(()),
                // A CRD is served a moment after it was created.
                Err(error)
                    if format!("{error:#}").contains("not find")
                        && started.elapsed() < PATIENCE =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Pods of which so many fill a node that the nodes are as many as asked for.
fn deployment(nodes: usize, pods: usize) -> Value {
    let millicores = MILLICORES / pods.div_ceil(nodes.max(1)).max(1);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "nodeSelector": {labels::INSTANCE_TYPE: TYPE, labels::ZONE: ZONE},
                "containers": [
                    {"name": "web", "image": "web:1", "resources": {"requests": {"cpu": format!("{millicores}m")}}},
                ],
            }},
        },
    })
}

/// One request with a body.
async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value> {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header(CONTENT_TYPE, kind);
    let request = request.body(body.to_string().into_bytes())?;
    client.request(request).await.context(path.to_owned())
}
