//! Setup shared by the measurements of turns: an API server in a separate process, and all other services in memory.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use api::EC2NodeClass;
use async_trait::async_trait;
use fakes::Sim;
use flate2::read::GzDecoder;
use jiff::Timestamp;
use k8s::{Access, Credentials};
use model::{ClusterName, InstanceType};
use ports::{Catalog, Clock, CloudError, Cluster, ClusterError, Clusters};
use sandbox::{Sandbox, WorldClock};
use serde_json::Value;

pub(crate) const CLUSTER: &str = "bench";
/// Makes a measurement's program the API server.
pub(crate) const SERVE: &str = "serve";
const CATALOG: &[u8] = include_bytes!("../../data/us-east-1.json.gz");

pub(crate) fn catalog() -> Result<Vec<InstanceType>> {
    let mut text = Vec::new();
    GzDecoder::new(CATALOG).read_to_end(&mut text)?;
    Ok(api::convert::catalog_file::read(&text)?)
}

/// Prints to the parent process how to reach the server.
#[expect(clippy::print_stdout, reason = "the parent process reads it")]
pub(crate) fn announce(sandbox: &Sandbox) -> Result<()> {
    let kubeconfig = sandbox.kubeconfig_yaml();
    let (_, authority) = kubeconfig
        .split_once("certificate-authority-data:")
        .context("no authority")?;
    let authority = authority.split_whitespace().next().unwrap_or_default();
    println!("{} {} {authority}", sandbox.tls_url(), sandbox.token());
    Ok(())
}

/// Second process of this program, which serves as the API server, and the address that it announced.
pub(crate) fn start_server(arguments: &[String]) -> Result<(Child, String)> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg(SERVE)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().context("a pipe")?).read_line(&mut line)?;
    Ok((server, line))
}

/// Reads what a server announced.
pub(crate) fn access(announced: &str) -> Result<Access> {
    let [endpoint, token, authority] = announced.split_whitespace().collect::<Vec<_>>()[..] else {
        bail!("the API server did not start: {announced}");
    };
    Ok(Access {
        endpoint: endpoint.to_owned(),
        certificate_authority: Some(authority.to_owned()),
        credentials: Credentials::BearerToken(token.to_owned().into()),
    })
}

/// Everything in memory but the cluster.
pub(crate) fn world(sim: &Sim, api: Arc<dyn Cluster>) -> Result<turns::World> {
    let port = Arc::new(sim.clone());
    Ok(turns::World {
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
        clusters: Arc::new(Connected(api)),
        holder: "whittle/000000000000/us-east-1/bench".to_owned(),
        share: turns::Share::TURN,
        views: Arc::default(),
        heartbeats: Arc::default(),
        reach: turns::PUBLIC.to_owned(),
    })
}

/// MiB of a process, by its number or as `self`.
pub(crate) fn memory(process: &str, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))
        .context("this system does not say how much memory a process takes")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no {field}"))?.div_ceil(1024))
}

/// Resets the peak, so that memory used before does not count.
pub(crate) fn forget_peak() -> Result<()> {
    std::fs::write("/proc/self/clear_refs", "5").context("the peak cannot be forgotten")
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
