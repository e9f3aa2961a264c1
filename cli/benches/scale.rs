//! Cost of turns as clusters grow: every lane over the wire, in a separate process, at 500, 2,000 and 5,000 nodes.
//!
//!     cargo bench -p whittle --bench scale -- [NODES | FILE]…
//!
//! A file has lines that other measurements printed, which are printed again; one that ends with "missed" counts as that.
//! The API server is a separate process, too, in which nothing acts, and holds objects of the size that real ones have;
//! EC2 and the ledger are in memory. The last line says which goals were missed, and the exit status follows.
#![expect(clippy::print_stdout, reason = "printing is what a measurement is for")]

mod support;

#[path = "scale/cluster.rs"]
mod cluster;
#[path = "scale/server.rs"]
mod server;
#[path = "scale/subject.rs"]
mod subject;
#[path = "scale/table.rs"]
mod table;

use std::{
    io::Write as _,
    process::{Child, Command, ExitCode},
};

use anyhow::{Context, Result, bail};
use model::Lane;
use subject::{ANNOUNCED, Measured, Until, VIEW};
use support::{SERVE, memory, start_server};
use table::{Goals, Table, What};

/// The allocator of the functions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [usize; 3] = [500, 2_000, 5_000];
const PODS_PER_NODE: usize = 10;
/// Turns of a lane in a cluster at rest, if there is time.
const TURNS: usize = 101;

const SETTLE: &str = "settle";
const PUBLISH: &str = "publish";
const AWAIT: &str = "await";
const MEASURE: &str = "measure";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<ExitCode> {
    let arguments = std::env::args().skip(1);
    let arguments: Vec<String> = arguments.filter(|one| !one.starts_with("--")).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [SERVE, nodes] => {
            let nodes = nodes.parse()?;
            server::serve(nodes, nodes * PODS_PER_NODE).await?;
        }
        [PUBLISH, path] => subject::publish(path).await?,
        [AWAIT, pods] => subject::wait_for(pods.parse()?).await?,
        [SETTLE] => Box::pin(subject::settle()).await?,
        [MEASURE, lane, until] => {
            let lane: Lane = serde_json::from_value(lane.into())?;
            let until = match until {
                "all" => Until::AllPlanned,
                turns => Until::Quiet(turns.parse()?),
            };
            let measured = Box::pin(subject::measure(lane, until)).await?;
            println!("{}", serde_json::to_string(&measured)?);
        }
        _ => {
            let mut sizes = Vec::new();
            let mut others = String::new();
            for word in words {
                match word.parse() {
                    Ok(size) => sizes.push(size),
                    Err(_) => {
                        let text = std::fs::read_to_string(word);
                        others.push_str(&text.context(word.to_owned())?);
                    }
                }
            }
            if sizes.is_empty() {
                sizes = SIZES.to_vec();
            }
            return compare(&sizes, &others);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures clusters of these sizes one after the other, and prints whether each goal is met.
fn compare(sizes: &[usize], others: &str) -> Result<ExitCode> {
    let mut table = Table::new();
    for nodes in sizes {
        quiet(*nodes, &mut table)?;
        for (what, rung) in [
            (What::Wave, Rung::View),
            (What::Wave, Rung::Lists),
            (What::Flood, Rung::View),
        ] {
            let mut cluster = Cluster::start(*nodes)?;
            cluster.run(&[SETTLE])?;
            cluster.wait(what.pods())?;
            let measured = cluster.measure(Lane::Provisioner, rung, "all")?;
            table.add(*nodes, Lane::Provisioner, rung, what, measured);
            cluster.stop()?;
        }
    }
    println!("{table}{others}");
    let mut missed = table.missed(&Goals::AT_5000);
    let of_others = others.lines().filter(|line| line.ends_with("missed"));
    missed.extend(of_others.map(str::to_owned));
    Ok(match missed.is_empty() {
        true => {
            println!("scale: every goal was reached");
            ExitCode::SUCCESS
        }
        false => {
            println!("scale: missed: {}", missed.join("; "));
            ExitCode::FAILURE
        }
    })
}

/// Turns that find nothing to do.
fn quiet(nodes: usize, table: &mut Table) -> Result<()> {
    let cluster = Cluster::start(nodes)?;
    cluster.run(&[SETTLE])?;
    for rung in [Rung::View, Rung::Lists] {
        for lane in Lane::WOKEN {
            // The terminator uses no view: it reads the pods of the nodes that it drains from the API server.
            if (lane, rung) != (Lane::Terminator, Rung::View) {
                let measured = cluster.measure(lane, rung, &TURNS.to_string())?;
                table.add(nodes, lane, rung, What::Quiet, measured);
            }
        }
    }
    let server = memory(&cluster.server.id().to_string(), "VmHWM:")?;
    table.server(nodes, server);
    cluster.stop()
}

/// An API server with a cluster in it.
struct Cluster {
    server: Child,
    announced: String,
    directory: tempfile::TempDir,
}

/// Source from which a subject reads the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// The view that the relay publishes.
    View,
    /// The API server: lists at first, and changes since then.
    Lists,
}

impl Cluster {
    fn start(nodes: usize) -> Result<Self> {
        let (server, announced) = start_server(&[nodes.to_string()])?;
        Ok(Self {
            server,
            announced,
            directory: tempfile::tempdir()?,
        })
    }

    fn wait(&mut self, pods: usize) -> Result<()> {
        let input = self.server.stdin.as_mut().context("a pipe")?;
        writeln!(input, "{pods}")?;
        // Returns once the server has created the pods.
        self.run(&[AWAIT, &pods.to_string()])?;
        Ok(())
    }

    fn measure(&self, lane: Lane, rung: Rung, until: &str) -> Result<Measured> {
        let view = self.directory.path().join("view");
        let view = view.to_str().context("a path")?;
        let environment = match rung {
            Rung::View => {
                self.run(&[PUBLISH, view])?;
                Some((VIEW, view))
            }
            Rung::Lists => None,
        };
        let said = self.run_with(&[MEASURE, lane.as_str(), until], environment)?;
        Ok(serde_json::from_str(&said)?)
    }

    /// Runs this program again, on the cluster.
    fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_with(arguments, None)
    }

    fn run_with(&self, arguments: &[&str], environment: Option<(&str, &str)>) -> Result<String> {
        let mut command = Command::new(std::env::current_exe()?);
        let subject = command.args(arguments).env(ANNOUNCED, &self.announced);
        let subject = subject.envs(environment);
        let output = subject.stderr(std::process::Stdio::inherit()).output()?;
        if !output.status.success() {
            bail!("{arguments:?} ended with {}", output.status);
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The end of its input ends the server.
    fn stop(mut self) -> Result<()> {
        drop(self.server.stdin.take());
        self.server.wait()?;
        Ok(())
    }
}
