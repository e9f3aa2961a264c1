//! `whittle`: plan, try and test the functions' decisions from a terminal.
//!
//! A library only so that tests and fuzz targets reach the parsers of foreign input. It must never depend on an AWS SDK except with the
//! feature `aws`, and no other crate may depend on it.

mod admission;
mod approve;
#[cfg(feature = "aws")]
mod aws;
mod aws_output;
mod backtest;
mod caps;
mod catalog;
mod catalogs;
mod classes;
mod cluster;
mod compare;
mod conformance;
mod convert;
mod crds;
mod dashboard;
mod decision;
mod demo;
mod doctor;
mod explain;
mod finding;
mod import;
pub mod inputs;
mod journal;
mod kops;
mod launch_template;
mod live;
mod moment;
mod objects;
mod pause;
mod plan;
mod planning;
mod prices;
mod regions;
mod registry;
mod replay;
mod review;
mod settings;
mod stack;
mod timing;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use model::ledger::Mode;

/// Karpenter's node provisioning without a controller in the cluster.
#[derive(Parser)]
#[command(name = "whittle", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Let functions act for a registered cluster, once nothing else holds Karpenter's Lease
    Activate(registry::Switch),
    /// Approve a plan that exceeds a limit, or release resources held back by garbage collection
    Approve(approve::Arguments),
    /// Set caps on the cost and number of all clusters' nodes, or show the current totals
    Caps(caps::Arguments),
    /// Print the instance types of a Region, for plans of manifests
    Catalog(catalog::Arguments),
    /// List registered clusters
    Clusters(registry::Clusters),
    /// Compare a shadowed cluster's nodes with what Whittle would have launched
    Compare(compare::Arguments),
    /// Decide recorded cases and print one decision per line
    Conformance(conformance::Arguments),
    /// Convert manifests of Karpenter's v1beta1 and v1alpha5 APIs to v1
    Convert(convert::Arguments),
    /// Return a cluster to shadow mode, in which turns plan and change nothing
    Deactivate(registry::Switch),
    /// Show nodes, costs, decisions and pending pods on a local web page
    Dashboard(dashboard::Arguments),
    /// Play a story of pods and nodes in a simulated account and cluster
    Demo(demo::Arguments),
    /// Check a cluster for obstacles to Whittle, with a remedy for each finding
    Doctor(doctor::Arguments),
    /// Explain the decisions about a pod, node, NodeClaim or NodePool
    Explain(explain::Arguments),
    /// Convert Auto Scaling groups and managed node groups into NodePools, and options of NTH into settings
    Import(import::Arguments),
    /// List decisions of turns and their outcome
    Journal(journal::Arguments),
    /// Convert InstanceGroups of kOps into NodePools
    Kops(kops::Arguments),
    /// Pause Whittle in a cluster, a NodePool or the account
    Pause(pause::Arguments),
    /// Show the launches for manifests or a cluster, and the reasons
    Plan(plan::Arguments),
    /// Generate a Region's table of on-demand prices from answers of the AWS Price List
    Prices(prices::Arguments),
    /// Register a cluster in shadow mode, in which turns plan and change nothing
    Register(registry::Register),
    /// Plan the snapshot of a turn again, optionally with other manifests or settings
    Replay(replay::Arguments),
    /// Backtest changed manifests over the last days: cost, evictions and risks, as Markdown
    Review(review::Arguments),
    /// End a pause early
    Resume(pause::Resume),
    /// Remove a cluster from the registry, after the stack has released it
    Unregister(registry::Unregister),
}

/// Runs the command of the process' arguments.
pub fn run() -> ExitCode {
    match run_command(&Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("whittle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_command(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Activate(arguments) => return registry::switch(arguments, Mode::Active),
        Command::Approve(arguments) => approve::run(arguments)?,
        Command::Caps(arguments) => return caps::run(arguments),
        Command::Catalog(arguments) => catalog::run(arguments)?,
        Command::Clusters(arguments) => return registry::clusters(arguments),
        Command::Compare(arguments) => compare::run(arguments)?,
        Command::Conformance(arguments) => conformance::run(arguments)?,
        Command::Convert(arguments) => return convert::run(arguments),
        Command::Deactivate(arguments) => return registry::switch(arguments, Mode::Shadow),
        Command::Dashboard(arguments) => dashboard::run(arguments)?,
        Command::Demo(arguments) => demo::run(arguments)?,
        Command::Doctor(arguments) => return doctor::run(arguments),
        Command::Explain(arguments) => explain::run(arguments)?,
        Command::Import(arguments) => return import::run(arguments),
        Command::Journal(arguments) => journal::run(arguments)?,
        Command::Kops(arguments) => return kops::run(arguments),
        Command::Pause(arguments) => return pause::pause(arguments),
        Command::Plan(arguments) => plan::run(arguments)?,
        Command::Prices(arguments) => prices::run(arguments)?,
        Command::Register(arguments) => return registry::register(arguments),
        Command::Replay(arguments) => replay::run(arguments)?,
        Command::Review(arguments) => return review::run(arguments),
        Command::Resume(arguments) => return pause::resume(arguments),
        Command::Unregister(arguments) => return registry::unregister(arguments),
    }
    Ok(ExitCode::SUCCESS)
}
