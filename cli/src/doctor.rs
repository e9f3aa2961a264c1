//! `whittle doctor`: obstacles to Whittle in a cluster, its entry and its account, numbered as in docs/TROUBLESHOOTING.md. It only reads.

mod crds;
mod network;
mod nodes;
mod pools;
mod workloads;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use jiff::Timestamp;

use crate::{
    exit::Exit,
    finding::{self, Finding, found},
    kubeconfig::Kubeconfig,
    objects::Objects,
    output::TextOutput,
    progress::Progress,
    registry::Registry,
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle doctor
  whittle doctor prod
  whittle doctor prod --context prod-admin -o wide
  kubectl get pods,nodes,nodepools,ec2nodeclasses -A -o yaml > objects.yaml
  whittle doctor --manifests objects.yaml")]
pub(crate) struct Arguments {
    /// Name of the registered cluster, whose entry, account and objects are checked
    cluster: Option<String>,
    /// Kubeconfig context of the cluster whose objects are checked; defaults to the credentials of the registered cluster's entry, and
    /// without CLUSTER to the current context
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    kubeconfig: Kubeconfig,
    /// Check objects in the output of `kubectl get -o yaml` instead of a running cluster
    #[arg(
        long, num_args = 1.., value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["context", "file"]
    )]
    manifests: Vec<PathBuf>,
    #[command(flatten)]
    output: TextOutput,
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

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the clock of this command"
    )]
    let now = arguments.now.unwrap_or_else(Timestamp::now);
    let findings = match &arguments.cluster {
        Some(cluster) => {
            let objects = arguments.named_objects()?;
            let _progress = Progress::of("Checking the cluster and its account");
            registered(&arguments.registry, cluster, objects, now)?
        }
        None => check_objects(&arguments.objects()?, now),
    };
    let text = match findings.len() {
        0 => "Nothing was found.\n".to_owned(),
        count => format!(
            "{count} found; the numbers are those of docs/TROUBLESHOOTING.md.\n{}",
            finding::text(&findings)
        ),
    };
    arguments.output.print(&text, &findings, &findings)?;
    Ok(match findings.is_empty() {
        true => Exit::Done,
        false => Exit::Findings,
    })
}

impl Arguments {
    /// Objects of the files, or of the context if one is named. A registered cluster has credentials of its own, and the current context may
    /// be another cluster's.
    fn named_objects(&self) -> Result<Option<Objects>> {
        match self.kubeconfig.select_named(self.context.as_deref()) {
            Some(selection) => Objects::of_cluster(&selection, LISTS).map(Some),
            None if self.manifests.is_empty() => Ok(None),
            None => Objects::of_files(&self.manifests).map(Some),
        }
    }

    /// Objects of the files, of the named context, or else of the current one.
    fn objects(&self) -> Result<Objects> {
        match self.named_objects()? {
            Some(objects) => Ok(objects),
            None => Objects::of_cluster(&self.kubeconfig.select(None), LISTS)
                .context("neither --context nor --manifests is given"),
        }
    }
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
