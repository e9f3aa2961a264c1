//! Serves the deployed stack, a cluster and its machines for any client or external test suite, until interrupted.
//!
//! Standard output has the environment to reach them, as lines for a shell. Interrupt or SIGTERM ends everything that
//! was started.
#![expect(clippy::print_stdout, reason = "a program that speaks to people")]

use std::{
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Parser;
use deployed::{CLUSTER, Deployed, local::Local, relay::Relay};
use harness::LocalAws;
use tokio::signal::unix::{SignalKind, signal};

/// Bring up the deployed stack with a cluster, and keep it until interrupted
#[derive(Parser)]
struct Options {
    /// Seconds between two sweeps of the housekeeper; its schedule says 60
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    sweep_every: u64,
    /// Leave the relay out: work is found by sweeps alone
    #[arg(long)]
    no_relay: bool,
    /// Run functions only when they are invoked, serve the endpoints of this file, and add pending pods: for `sam local invoke
    /// --env-vars FILE`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sweep_every", "no_relay"])]
    local_invoke: Option<PathBuf>,
}

fn main() {
    let options = Options::parse();
    let interrupted = interrupted_flag();
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let aws = LocalAws::start(CLUSTER);
    if let Some(variables) = options.local_invoke {
        let mut local = Local::start(&aws, &variables);
        print_environment(&aws, &local.deployed);
        return local.deployed.serve(Duration::MAX, is_interrupted);
    }
    let mut deployed = Deployed::start(&aws);
    let relay = (!options.no_relay).then(|| Relay::start(&deployed));
    deployed.sweep();
    print_environment(&aws, &deployed);
    deployed.serve(Duration::from_secs(options.sweep_every), is_interrupted);
    eprintln!("ending");
    drop(relay);
}

/// Prints the environment for a shell, then hints for people.
fn print_environment(aws: &LocalAws, deployed: &Deployed<'_>) {
    println!(
        "export KUBECONFIG={}",
        deployed.cluster.kubeconfig().display()
    );
    for (name, value) in aws.environment() {
        println!("export {name}={value}");
    }
    println!("export WHITTLE_CLUSTER={CLUSTER}");
    for (name, value) in &deployed.stack.outputs {
        println!("# {name}: {value}");
    }
    println!("# node role: {}", aws.moto.seed.node_role);
    println!("# ready");
    // Readers wait for the last line.
    let _ = std::io::stdout().flush();
    eprintln!(
        "cluster {CLUSTER} is up at {}; interrupt to end it",
        deployed.cluster.url()
    );
}

/// Returns a flag that becomes true on interrupt or SIGTERM.
fn interrupted_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&flag);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("a runtime for signals: {error}"));
        runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())
                .unwrap_or_else(|error| panic!("SIGTERM cannot be caught: {error}"));
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        });
        shared.store(true, Ordering::Relaxed);
    });
    flag
}
