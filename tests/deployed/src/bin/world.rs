//! The deployed stack, a cluster and its machines, for any client or foreign test suite, until they are told to end.
//!
//! Standard output says how to reach them, as lines for a shell. Interrupt or SIGTERM ends everything that was started.
#![expect(clippy::print_stdout, reason = "a program that speaks to people")]

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Parser;
use deployed::{CLUSTER, Deployed, relay::Relay};
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
}

fn main() {
    let options = Options::parse();
    let ended = interrupted();
    let aws = LocalAws::start(CLUSTER);
    let mut deployed = Deployed::start(&aws);
    let relay = (!options.no_relay).then(|| Relay::start(&deployed));
    deployed.sweep();
    say(&aws, &deployed);
    deployed.serve(Duration::from_secs(options.sweep_every), || {
        ended.load(Ordering::Relaxed)
    });
    eprintln!("ending");
    drop(relay);
}

/// Prints what a shell needs, and then what people do.
fn say(aws: &LocalAws, deployed: &Deployed<'_>) {
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

/// Becomes true when somebody wants this program to end.
fn interrupted() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&ended);
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
        told.store(true, Ordering::Relaxed);
    });
    ended
}
