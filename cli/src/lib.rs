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
mod command_line;
mod compare;
mod completion;
mod conformance;
mod convert;
mod crds;
mod dashboard;
mod decision;
mod demo;
mod doctor;
mod exit;
mod explain;
mod failure;
mod finding;
mod import;
mod init;
pub mod inputs;
mod journal;
mod kops;
mod kubeconfig;
mod launch_template;
mod live;
mod manual;
mod moment;
mod objects;
mod output;
mod pause;
mod plan;
mod planning;
mod prices;
mod progress;
mod regions;
mod registry;
mod replay;
mod review;
mod settings;
mod stack;
mod status;
mod timing;
mod version;
mod workloads;

use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};
use console::style;
use model::ledger::Mode;

use crate::exit::Exit;

/// Karpenter's node provisioning without a controller in the cluster.
#[derive(Parser)]
#[command(name = "whittle", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Let functions act for a registered cluster, once no other controller holds Karpenter's Lease
    #[command(after_help = "Examples:
  whittle activate prod")]
    Activate(registry::Switch),
    /// Approve a plan that exceeds a limit, or release resources held back by garbage collection
    Approve(approve::Arguments),
    /// Set caps on the cost and number of all clusters' nodes, or show the current totals
    ///
    /// Without a cap, the account's current totals are shown, and nothing is changed.
    Caps(caps::Arguments),
    /// Print the instance types of a Region, for plans of manifests
    ///
    /// JSON is the format of `whittle plan --catalog`. Region and credentials are those of the environment (`AWS_REGION`, `AWS_PROFILE`).
    Catalog(catalog::Arguments),
    /// List registered clusters
    Clusters(registry::Clusters),
    /// Compare a shadowed cluster's nodes with what Whittle would have launched
    Compare(compare::Arguments),
    /// Decide recorded cases and print one decision per line
    #[command(hide = true)]
    Conformance(conformance::Arguments),
    /// Print a script that completes commands and options in a shell
    ///
    /// The script goes to standard output.
    Completion(completion::Arguments),
    /// Convert manifests of Karpenter's v1beta1 and v1alpha5 APIs to v1
    Convert(convert::Arguments),
    /// Return a cluster to shadow mode, in which turns plan and change nothing
    #[command(after_help = "Examples:
  whittle deactivate prod")]
    Deactivate(registry::Switch),
    /// Show nodes, costs, decisions and pending pods on a local web page
    Dashboard(dashboard::Arguments),
    /// Play a story of pods and nodes in a simulated account and cluster
    Demo(demo::Arguments),
    /// Check a cluster for obstacles to Whittle, with a remedy for each finding
    ///
    /// With the name of a registered cluster, its entry and account are checked, too. Nothing is changed.
    Doctor(doctor::Arguments),
    /// Show the exit codes of all commands
    #[command(long_about = exit::table())]
    ExitCodes,
    /// Explain the decisions about a pod, node, NodeClaim or NodePool
    Explain(explain::Arguments),
    /// Convert Auto Scaling groups and managed node groups into NodePools, and options of NTH into settings
    Import(import::Arguments),
    /// Set up an EKS cluster step by step: account, access, stack, registration, chart
    Init(init::Arguments),
    /// List decisions of turns and their outcome
    ///
    /// `-o json` prints one complete record per line, and `-o yaml` one per document.
    Journal(journal::Arguments),
    /// Convert InstanceGroups of kOps into NodePools
    Kops(kops::Arguments),
    /// Write the manual pages of all commands
    #[command(name = "man", hide = true)]
    Manual(manual::Arguments),
    /// Pause Whittle in a cluster, a NodePool or the account
    Pause(pause::Arguments),
    /// Show the launches for manifests or a cluster, and the reasons
    ///
    /// Without manifests, plan for the pending pods of a running cluster. Nothing is changed.
    Plan(plan::Arguments),
    /// Generate a Region's table of on-demand prices from answers of the AWS Price List
    ///
    /// The answers are for shared tenancy, and for tenancy Dedicated with the product family "Compute Instance (bare metal)". A table that is
    /// put into shared/aws-rules/data/on-demand-prices and named in shared/aws-rules/src/prices/shipped.rs ships with Whittle.
    Prices(prices::Arguments),
    /// Register a cluster in shadow mode, in which turns plan and change nothing
    Register(registry::Register),
    /// Repeat the planning of a recorded turn, optionally with other manifests or settings
    Replay(replay::Arguments),
    /// Backtest changed manifests over the last days: cost, evictions and risks, as Markdown
    Review(review::Arguments),
    /// End a pause early
    Resume(pause::Resume),
    /// Show or change settings of a registered cluster
    Settings(settings::command::Arguments),
    /// Show clusters, their turns and relays, and what waits for a person
    Status(status::Arguments),
    /// Remove a cluster from the registry, after the stack has released it
    Unregister(registry::Unregister),
    /// Show the version of this program
    Version(version::Arguments),
}

/// Runs the command of the process' arguments.
pub fn run() -> ExitCode {
    let mut matches = command_line::command().get_matches();
    let arguments =
        Arguments::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit());
    let exit = run_command(&arguments.command).unwrap_or_else(|error| {
        let program = style("whittle:").for_stderr().red().bold();
        let profile = failure::profile();
        eprintln!("{program} {}", failure::text(&error, profile.as_deref()));
        Exit::Failed
    });
    exit.into()
}

fn run_command(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Activate(arguments) => return registry::switch(arguments, Mode::Active),
        Command::Approve(arguments) => approve::run(arguments)?,
        Command::Caps(arguments) => return caps::run(arguments),
        Command::Catalog(arguments) => catalog::run(arguments)?,
        Command::Clusters(arguments) => return registry::clusters(arguments),
        Command::Compare(arguments) => compare::run(arguments)?,
        Command::Completion(arguments) => completion::run(arguments)?,
        Command::Conformance(arguments) => conformance::run(arguments)?,
        Command::Convert(arguments) => return convert::run(arguments),
        Command::Deactivate(arguments) => return registry::switch(arguments, Mode::Shadow),
        Command::Dashboard(arguments) => dashboard::run(arguments)?,
        Command::Demo(arguments) => demo::run(arguments)?,
        Command::Doctor(arguments) => return doctor::run(arguments),
        Command::ExitCodes => exit::run()?,
        Command::Explain(arguments) => explain::run(arguments)?,
        Command::Import(arguments) => return import::run(arguments),
        Command::Init(arguments) => return init::run(arguments),
        Command::Journal(arguments) => journal::run(arguments)?,
        Command::Kops(arguments) => return kops::run(arguments),
        Command::Manual(arguments) => manual::run(arguments)?,
        Command::Pause(arguments) => return pause::pause(arguments),
        Command::Plan(arguments) => plan::run(arguments)?,
        Command::Prices(arguments) => prices::run(arguments)?,
        Command::Register(arguments) => return registry::register(arguments),
        Command::Replay(arguments) => replay::run(arguments)?,
        Command::Review(arguments) => return review::run(arguments),
        Command::Resume(arguments) => return pause::resume(arguments),
        Command::Settings(arguments) => return settings::command::run(arguments),
        Command::Status(arguments) => return status::run(arguments),
        Command::Unregister(arguments) => return registry::unregister(arguments),
        Command::Version(arguments) => version::run(arguments)?,
    }
    Ok(Exit::Done)
}
