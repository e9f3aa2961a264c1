//! `whittle`: plan, try out and test what the functions would do, from a terminal.

mod approve;
#[cfg(feature = "aws")]
mod aws;
mod catalogs;
mod cluster;
mod conformance;
mod convert;
mod crds;
mod decision;
mod demo;
mod import;
mod kops;
mod launch_template;
mod live;
mod plan;
mod prices;
mod timing;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// As the functions allocate.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Karpenter's node provisioning without a controller in the cluster.
#[derive(Parser)]
#[command(name = "whittle", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lets garbage collection go on with what it held back.
    Approve(approve::Arguments),
    /// Decides recorded cases and prints one decision per line.
    Conformance(conformance::Arguments),
    /// Turns manifests of Karpenter's v1beta1 and v1alpha5 APIs into v1.
    Convert(convert::Arguments),
    /// Tells a story of pods and nodes, in a simulated account and cluster.
    Demo(demo::Arguments),
    /// Turns Auto Scaling groups and managed node groups into NodePools.
    Import(import::Arguments),
    /// Turns InstanceGroups of kOps into NodePools.
    Kops(kops::Arguments),
    /// Shows what would be launched for manifests, and why.
    Plan(plan::Arguments),
    /// Makes a Region's table of on-demand prices from answers of the AWS Price List.
    Prices(prices::Arguments),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("whittle: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Approve(arguments) => approve::run(arguments)?,
        Command::Conformance(arguments) => conformance::run(arguments)?,
        Command::Convert(arguments) => return convert::run(arguments),
        Command::Demo(arguments) => demo::run(arguments)?,
        Command::Import(arguments) => return import::run(arguments),
        Command::Kops(arguments) => return kops::run(arguments),
        Command::Plan(arguments) => plan::run(arguments)?,
        Command::Prices(arguments) => prices::run(arguments)?,
    }
    Ok(ExitCode::SUCCESS)
}
