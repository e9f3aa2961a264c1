//! `whittle`: plan, try out and test what the functions would do, from a terminal.
//!
//! A library only so that tests and fuzz targets reach what reads the input of others. It must never depend on an AWS SDK but for
//! the feature `aws`, and no other crate on it.

mod admission;
mod approve;
#[cfg(feature = "aws")]
mod aws;
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
mod rehearsal;
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
    /// Lets functions act for a registered cluster, once nobody else holds Karpenter's Lease.
    Activate(registry::Switch),
    /// Says yes to a plan above a limit, or lets garbage collection go on with what it held back.
    Approve(approve::Arguments),
    /// Caps what the nodes of all clusters of the account may cost and number, or shows what they do.
    Caps(caps::Arguments),
    /// Prints the instance types of a Region, for plans of manifests.
    Catalog(catalog::Arguments),
    /// Lists the clusters that are registered.
    Clusters(registry::Clusters),
    /// Sets a cluster that somebody else provides with nodes next to what Whittle would have done.
    Compare(compare::Arguments),
    /// Decides recorded cases and prints one decision per line.
    Conformance(conformance::Arguments),
    /// Turns manifests of Karpenter's v1beta1 and v1alpha5 APIs into v1.
    Convert(convert::Arguments),
    /// Takes a cluster back to shadow mode: it is planned for, and nothing is done.
    Deactivate(registry::Switch),
    /// Shows nodes, costs, decisions and what waits on a local web page.
    Dashboard(dashboard::Arguments),
    /// Tells a story of pods and nodes, in a simulated account and cluster.
    Demo(demo::Arguments),
    /// Looks for what keeps Whittle from working for a cluster, with a remedy for each finding.
    Doctor(doctor::Arguments),
    /// Says what was decided about a pod, node, NodeClaim or NodePool, when and why.
    Explain(explain::Arguments),
    /// Turns Auto Scaling groups and managed node groups into NodePools, and options of NTH into settings.
    Import(import::Arguments),
    /// Lists what turns decided, and what came of it.
    Journal(journal::Arguments),
    /// Turns InstanceGroups of kOps into NodePools.
    Kops(kops::Arguments),
    /// Holds Whittle back for a while: a cluster, a NodePool or the account.
    Pause(pause::Arguments),
    /// Shows what would be launched for manifests, and why.
    Plan(plan::Arguments),
    /// Makes a Region's table of on-demand prices from answers of the AWS Price List.
    Prices(prices::Arguments),
    /// Registers a cluster, in shadow mode: it is planned for, and nothing is done.
    Register(registry::Register),
    /// Plans what a turn saw again, also with other manifests or settings.
    Replay(replay::Arguments),
    /// Rehearses the last days with other manifests: cost, evictions and risks, as Markdown.
    Review(review::Arguments),
    /// Ends a pause before its time.
    Resume(pause::Resume),
    /// Takes a cluster out of the registry, in two steps: first nothing is done any more, then it is forgotten.
    Unregister(registry::Unregister),
}

/// Does what the process' arguments say.
pub fn run() -> ExitCode {
    match obey(&Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("whittle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn obey(command: &Command) -> anyhow::Result<ExitCode> {
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
