//! `whittle settings`: shows and changes the settings of a registered cluster.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    exit::Exit,
    registry::{Registry, name},
};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print settings of a registered cluster
    Get(Get),
    /// Change settings of a registered cluster, after a look at the difference
    Set(Set),
}

#[derive(Args)]
#[command(after_help = "Examples:
  whittle settings get prod
  whittle settings get prod guards.nodes")]
pub(crate) struct Get {
    /// Name of the registered cluster
    #[arg(value_parser = name)]
    pub(crate) cluster: String,
    /// Setting, such as guards.nodes; all settings if omitted
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) registry: Registry,
}

#[derive(Args)]
#[command(after_help = "Examples:
  whittle settings set prod guards.nodes=20 featureGates.nodeRepair=true
  whittle settings set prod optimize= --yes")]
pub(crate) struct Set {
    /// Name of the registered cluster
    #[arg(value_parser = name)]
    pub(crate) cluster: String,
    /// New values, such as guards.nodes=20 or featureGates.nodeRepair=true; KEY= removes a setting
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = assignment)]
    pub(crate) assignments: Vec<Assignment>,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) registry: Registry,
}

/// A setting's path and its new value as text; no value removes the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) path: Vec<String>,
    pub(crate) value: Option<String>,
}

pub(super) fn assignment(text: &str) -> Result<Assignment, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("expected KEY=VALUE, such as guards.nodes=20")?;
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(format!(
            "{key:?} names no setting: expected names with dots between them, such as guards.nodes"
        ));
    }
    let value = Some(value.to_owned()).filter(|value| !value.is_empty());
    Ok(Assignment { path, value })
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    match &arguments.command {
        Command::Get(get) => print(get),
        Command::Set(set) => change(set),
    }
}

#[cfg(feature = "aws")]
use crate::aws::settings::{change, print};

#[cfg(not(feature = "aws"))]
fn print(get: &Get) -> Result<Exit> {
    let key = get.key.as_deref().unwrap_or("settings");
    anyhow::bail!(
        "{key} of {}/{} is read from AWS, which this build cannot: build it with `--features aws`",
        get.registry.prefix(),
        get.cluster
    )
}

#[cfg(not(feature = "aws"))]
fn change(set: &Set) -> Result<Exit> {
    let Set {
        cluster,
        assignments,
        yes: _,
        registry,
    } = set;
    let keys: Vec<String> = assignments
        .iter()
        .map(|Assignment { path, value }| match value {
            Some(value) => format!("{}={value}", path.join(".")),
            None => format!("{}=", path.join(".")),
        })
        .collect();
    anyhow::bail!(
        "settings are written to {}/{cluster} in AWS, which this build cannot: build it with `--features aws` ({})",
        registry.prefix(),
        keys.join(" ")
    )
}
