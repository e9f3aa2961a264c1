//! `whittle init`: leads through the installation for an EKS cluster, from the account's prerequisites to the relay's first heartbeat.
//! Each step is checked first, so that the command continues where it ended before.

#[cfg(any(feature = "aws", test))]
pub(crate) mod invocation;
#[cfg(any(feature = "aws", test))]
pub(crate) mod registration;
#[cfg(any(feature = "aws", test))]
pub(crate) mod steps;
#[cfg(any(feature = "aws", test))]
pub(crate) mod values;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{exit::Exit, kubeconfig::Kubeconfig, registry, stack::Stack};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle init prod --dry-run
  whittle init prod --create-all --values prod-values.yaml
  whittle init prod --wait")]
pub(crate) struct Arguments {
    /// Name of the cluster in EKS
    #[arg(value_parser = registry::name)]
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) create: Create,
    /// Name of the role of nodes; the stack allows roles called KarpenterNodeRole-*, and others by its parameter NodeRoleArns
    #[arg(long, value_name = "NAME", value_parser = role_name)]
    node_role: Option<String>,
    /// File to write the chart's values to
    #[arg(long, value_name = "FILE", default_value = "values.yaml")]
    pub(crate) values: PathBuf,
    /// Overwrite the values file if it differs
    #[arg(long)]
    pub(crate) replace: bool,
    /// Chart to install: the folder of a checkout, or the archive or OCI address of a release
    #[arg(long, default_value = "infra/chart")]
    pub(crate) chart: String,
    /// Registry and name of the relay's image, without tag; defaults to whittle/relay in the account's ECR, and to the release's image
    /// for the chart of a release
    #[arg(long, value_name = "REPOSITORY")]
    relay_image: Option<String>,
    /// Architecture of the relay's image
    #[arg(long, value_enum, default_value_t = Architecture::Amd64)]
    relay_architecture: Architecture,
    /// Network from which the API server is reached: "public", or "vpc:<id>" if the stack has a lane in that VPC; defaults to the
    /// network of the registered cluster, and to "public" for a new entry
    #[arg(long, value_parser = registry::reach)]
    reach: Option<String>,
    /// Settings of the cluster as JSON for a new entry; docs/settings.md lists them
    #[arg(long, value_name = "JSON", value_parser = crate::settings::read)]
    settings: Option<Value>,
    /// Kubeconfig context for checking the cluster's objects; defaults to your AWS credentials
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) kubeconfig: Kubeconfig,
    /// Wait for the relay's heartbeat at the end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Time to wait for the heartbeat, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) timeout: u64,
    /// Print every step and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) stack: Stack,
    #[command(flatten)]
    pub(crate) registry: registry::Registry,
}

/// Resources that the command may create. It prints commands for the others.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Create {
    /// Create everything below that is missing
    #[arg(long)]
    create_all: bool,
    /// Create the service-linked role of EC2 Spot
    #[arg(long)]
    create_spot_role: bool,
    /// Create the role of nodes, with the managed policies that nodes need
    #[arg(long)]
    create_node_role: bool,
    /// Create the access entry by which nodes join the cluster
    #[arg(long)]
    create_node_access: bool,
    /// Tag the cluster's subnets and security group with karpenter.sh/discovery
    #[arg(long)]
    create_tags: bool,
    /// Create access entries for the roles of the stack's functions
    #[arg(long)]
    create_access_entries: bool,
    /// Create the add-on eks-pod-identity-agent and the relay's Pod Identity association
    #[arg(long)]
    create_pod_identity: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
    /// A multi-architecture image
    Any,
}

#[cfg(any(feature = "aws", test))]
impl Create {
    fn allows(self, change: steps::Change) -> bool {
        use steps::Change;
        let asked = match change {
            Change::SpotRole => self.create_spot_role,
            Change::NodeRole => self.create_node_role,
            Change::NodeAccess => self.create_node_access,
            Change::Tags => self.create_tags,
            Change::FunctionAccess => self.create_access_entries,
            Change::PodIdentityAgent | Change::PodIdentity => self.create_pod_identity,
            Change::Entry | Change::Values => true,
        };
        asked || self.create_all
    }
}

#[cfg(feature = "aws")]
impl Arguments {
    pub(crate) fn node_role(&self) -> String {
        let default = || format!("KarpenterNodeRole-{}", self.cluster);
        self.node_role.clone().unwrap_or_else(default)
    }

    /// The image's repository; `None` for the image that the chart of a release names.
    pub(crate) fn relay_image(&self, account: &str, region: &str, domain: &str) -> Option<String> {
        let is_release = self.chart.starts_with("oci://") || self.chart.ends_with(".tgz");
        let own = || format!("{account}.dkr.ecr.{region}.{domain}/whittle/relay");
        self.relay_image.clone().or_else(|| (!is_release).then(own))
    }

    pub(crate) fn relay_architecture(&self) -> &'static str {
        match self.relay_architecture {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
            Architecture::Any => "",
        }
    }

    /// The entry of a registration in a network, in shadow mode.
    pub(crate) fn entry(&self, reach: &str) -> Value {
        registry::eks_entry(reach, self.settings.as_ref())
    }
}

/// Validates a name by the rules of IAM for roles, whose characters need no quotes in a shell.
fn role_name(text: &str) -> Result<String, String> {
    const LENGTH_MAX: usize = 64;
    let may = |c: char| c.is_ascii_alphanumeric() || "+=,.@_-".contains(c);
    match !text.is_empty() && text.len() <= LENGTH_MAX && text.chars().all(may) {
        true => Ok(text.to_owned()),
        false => Err(
            "expected the name of a role, without path: at most 64 letters, digits, and characters of +=,.@_-"
                .to_owned(),
        ),
    }
}

#[cfg(feature = "aws")]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    crate::aws::init::run(arguments)
}

#[cfg(not(feature = "aws"))]
pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    anyhow::bail!(
        "init {} calls AWS, which this build cannot: build it with `--features aws`",
        arguments.cluster
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_has_a_name_that_iam_accepts() {
        for name in ["KarpenterNodeRole-prod", "nodes@team+1=a,b.c_d"] {
            assert_eq!(role_name(name).as_deref(), Ok(name));
        }
        for name in ["", "team/nodes", "nodes prod", "$(id)", &"n".repeat(65)] {
            assert!(role_name(name).is_err(), "{name}");
        }
    }
}
