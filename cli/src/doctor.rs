//! `whittle doctor`: obstacles to Whittle in a cluster, its entry and its account, numbered as in docs/TROUBLESHOOTING.md. It only reads.

mod crds;
mod network;
mod nodes;
mod pools;
mod workloads;

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;

use crate::{
    finding::{self, Finding, found},
    objects::Objects,
    registry::Registry,
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Name of the registered cluster, whose entry, account and objects are checked
    cluster: Option<String>,
    /// Kubeconfig context of the cluster whose objects are checked
    #[arg(long, required_unless_present_any = ["manifests", "cluster"])]
    context: Option<String>,
    /// Check objects in the output of `kubectl get -o yaml` instead
    #[arg(long, num_args = 1.., value_name = "FILE", conflicts_with = "context")]
    manifests: Vec<PathBuf>,
    #[command(flatten)]
    registry: Registry,
    /// Time to assume instead of the current time
    #[arg(long, hide = true)]
    now: Option<Timestamp>,
}

/// API paths of lists, with the kind of their items.
pub(crate) const LISTS: &[(&str, &str)] = &[
    ("/api/v1/pods", "Pod"),
    ("/api/v1/nodes", "Node"),
    ("/api/v1/services", "Service"),
    ("/api/v1/persistentvolumes", "PersistentVolume"),
    ("/api/v1/namespaces/kube-system/configmaps", "ConfigMap"),
    (
        "/api/v1/events?fieldSelector=reason%3DInsufficientFreeAddressesInSubnet",
        "Event",
    ),
    (
        "/api/v1/events?fieldSelector=reason%3DInstanceTerminating",
        "Event",
    ),
    ("/apis/apps/v1/deployments", "Deployment"),
    ("/apis/apps/v1/statefulsets", "StatefulSet"),
    ("/apis/apps/v1/daemonsets", "DaemonSet"),
    ("/apis/storage.k8s.io/v1/storageclasses", "StorageClass"),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "CustomResourceDefinition",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
    ),
    ("/apis/karpenter.sh/v1/nodepools", "NodePool"),
    ("/apis/karpenter.sh/v1/nodeclaims", "NodeClaim"),
    ("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", "EC2NodeClass"),
];

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the clock of this command"
    )]
    let now = arguments.now.unwrap_or_else(Timestamp::now);
    let objects = match &arguments.context {
        Some(context) => Some(Objects::of_cluster(context, LISTS)?),
        None if arguments.manifests.is_empty() => None,
        None => Some(Objects::of_files(&arguments.manifests)?),
    };
    let findings = match &arguments.cluster {
        Some(cluster) => registered(&arguments.registry, cluster, objects, now)?,
        None => check_objects(&objects.unwrap_or_default(), now),
    };
    let mut out = std::io::stdout().lock();
    if findings.is_empty() {
        writeln!(out, "Nothing was found.")?;
        return Ok(ExitCode::SUCCESS);
    }
    let count = findings.len();
    writeln!(
        out,
        "{count} found; the numbers are those of docs/TROUBLESHOOTING.md."
    )?;
    write!(out, "{}", finding::text(&findings))?;
    Ok(ExitCode::FAILURE)
}

#[cfg(feature = "aws")]
fn registered(
    registry: &Registry,
    cluster: &str,
    objects: Option<Objects>,
    now: Timestamp,
) -> Result<Vec<Finding>> {
    crate::aws::registry::doctor(registry.prefix(), cluster, objects, now)
}

#[cfg(not(feature = "aws"))]
fn registered(
    registry: &Registry,
    cluster: &str,
    _: Option<Objects>,
    _: Timestamp,
) -> Result<Vec<Finding>> {
    anyhow::bail!(
        "looking at {}/{cluster} calls AWS, which this build cannot: build it with `--features aws`, or leave the cluster out",
        registry.prefix()
    )
}

/// Findings in the objects of a cluster.
pub(crate) fn check_objects(objects: &Objects, now: Timestamp) -> Vec<Finding> {
    let checks = crds::checks(objects)
        .into_iter()
        .chain(workloads::checks(objects))
        .chain(network::checks(objects))
        .chain(pools::checks(objects))
        .chain(nodes::checks(objects, now));
    found(checks)
}
