//! What a turn costs in a cluster where nothing is to do: every lane's turn, as the functions run it, over the wire.
//!
//!     cargo bench -p whittle --bench turns -- [NODES] [PODS]
//!
//! The API server is a process of its own, reached over TLS, so that times and memory are those of the turns alone; EC2 and
//! the ledger are in memory. First the cluster comes to be by real turns: one provisions for all pods. It lives here because
//! the command line is where turns and the simulated cluster meet without an AWS SDK.
#![expect(clippy::print_stdout, reason = "printing is what a measurement is for")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use api::EC2NodeClass;
use async_trait::async_trait;
use fakes::Sim;
use flate2::read::GzDecoder;
use http::{Request, header::CONTENT_TYPE};
use jiff::{SignedDuration, Timestamp};
use k8s::{Access, Client, Credentials, KubeCluster};
use model::{
    ClusterName, InstanceType, Lane,
    ids::TurnId,
    labels,
    launch::Instance,
    pod::{Pod, PodPhase},
    taint::{Taint, TaintEffect},
};
use ports::{Catalog, Clock, CloudError, Cluster, ClusterError, Clusters};
use sandbox::{NodeJoin, Sandbox, SandboxOptions, WorldClock};
use serde_json::{Value, json};
use turns::{Outcome, Report};

/// As the functions allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLUSTER: &str = "bench";
const CATALOG: &[u8] = include_bytes!("../data/us-east-1.json.gz");
/// Makes this program the API server.
const SERVE: &str = "serve";
/// What all nodes are, and what their pods may take together.
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

/// A cluster whose machines are told on standard input, until that ends.
async fn serve() -> Result<()> {
    let kind = instance_type()?;
    let sandbox = Sandbox::start(SandboxOptions::default()).await?;
    let kubeconfig = sandbox.kubeconfig_yaml();
    let (_, authority) = kubeconfig
        .split_once("certificate-authority-data:")
        .context("no authority")?;
    let authority = authority.split_whitespace().next().unwrap_or_default();
    println!("{} {} {authority}", sandbox.tls_url(), sandbox.token());
    let told = tokio::task::spawn_blocking(move || -> Result<Sandbox> {
        for machine in std::io::stdin().lines() {
            sandbox.join_node(node(&kind, &machine?)?, SignedDuration::ZERO);
        }
        Ok(sandbox)
    });
    told.await??.stop().await;
    Ok(())
}

/// A machine is told by its name and its provider ID.
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

fn catalog() -> Result<Vec<InstanceType>> {
    let mut text = Vec::new();
    GzDecoder::new(CATALOG).read_to_end(&mut text)?;
    Ok(api::convert::catalog_file::read(&text)?)
}

async fn measure(nodes: usize, pods: usize) -> Result<()> {
    let (mut server, access) = start_server()?;
    let bench = Bench::new(&access)?;
    bench.prepare(nodes, pods).await?;
    let (took, report) = bench.turn(Lane::Provisioner).await?;
    if report.launched.len() != nodes {
        bail!(
            "{} of {nodes} nodes were launched: {report:?}",
            report.launched.len()
        );
    }
    println!(
        "turns: the one that launches {nodes} nodes for {pods} pods: {} ms, peak RSS {} MiB",
        took.as_millis(),
        memory("VmHWM:")?,
    );
    // The pods come back when the nodes are ready: a scheduler that tries thousands in vain at every change is no part of this.
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
    println!("turns: peak RSS of quiet turns: {} MiB", memory("VmHWM:")?);
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

fn start_server() -> Result<(Child, Access)> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg(SERVE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().context("a pipe")?).read_line(&mut line)?;
    let [endpoint, token, authority] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        bail!("the API server did not start: {line}");
    };
    let access = Access {
        endpoint: endpoint.to_owned(),
        certificate_authority: Some(authority.to_owned()),
        credentials: Credentials::BearerToken(token.to_owned().into()),
    };
    Ok((server, access))
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
        let port = Arc::new(sim.clone());
        let world = turns::World {
            cloud: port.clone(),
            upkeep: port.clone(),
            notifier: port.clone(),
            ledger: port.clone(),
            journal: port.clone(),
            archive: port.clone(),
            wakes: port.clone(),
            clock: Arc::new(WallClock(WorldClock::wall())),
            catalog: Arc::new(Fixed(Arc::new(catalog()?))),
            node_classes: port.clone(),
            launches: port.clone(),
            registry: port.clone(),
            metrics: port,
            clusters: Arc::new(Connected(api.clone())),
            holder: "whittle/000000000000/us-east-1/bench".to_owned(),
            share: turns::Share::TURN,
            reach: turns::PUBLIC.to_owned(),
        };
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
        let request = Request::patch(path)
            .header(CONTENT_TYPE, "application/merge-patch+json")
            .body(serde_json::to_vec(&json!({"spec": {"replicas": pods}}))?)?;
        self.client.request::<Value>(request).await?;
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
            Outcome::Held | Outcome::Postponed(_) | Outcome::Failed(_) => {
                bail!("{lane}: {:?}", report.outcome)
            }
        }
    }

    async fn create(&self, path: &str, object: &Value) -> Result<()> {
        let started = Instant::now();
        loop {
            let request = Request::post(path)
                .header(CONTENT_TYPE, "application/json")
                .body(serde_json::to_vec(object)?)?;
            match self.client.request::<Value>(request).await {
                Ok(_) => return Ok(()),
                // A CRD is served a moment after it was created.
                Err(error)
                    if error.to_string().contains("not find") && started.elapsed() < PATIENCE =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
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

struct WallClock(WorldClock);

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// The catalog as a warm function has it.
struct Fixed(Arc<Vec<InstanceType>>);

#[async_trait]
impl Catalog for Fixed {
    async fn instance_types(
        &self,
        _: &ClusterName,
        _: &EC2NodeClass,
        _: &Value,
        _: &model::Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        Ok(self.0.clone())
    }

    async fn zonal_shifts(
        &self,
        _: &ClusterName,
        _: &Value,
    ) -> Result<Vec<model::experience::ZonalShift>, CloudError> {
        Ok(Vec::new())
    }
}

/// A cluster that is connected already, as a warm function's is.
struct Connected(Arc<dyn Cluster>);

#[async_trait]
impl Clusters for Connected {
    async fn connect(&self, _: &ClusterName, _: &Value) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(self.0.clone())
    }
}

/// MiB of this process.
fn memory(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .context("this system does not say how much memory a process takes")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no {field}"))?.div_ceil(1024))
}

/// What was provisioned for all pods does not count for quiet turns.
fn forget_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("the peak cannot be forgotten")
}
