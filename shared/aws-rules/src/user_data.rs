//! User data with which an instance joins the cluster as the node its claim describes (docs/spec/aws.md#user-data).
//!
//! The user's own user data comes first and Whittle's last: if both set a value, Whittle's applies.

mod al2;
mod al2023;
mod bottlerocket;
mod kubelet;
pub mod mime;
mod windows;

use std::collections::BTreeMap;

use api::{
    karpenter::{EC2NodeClass, InstanceStorePolicy, KubeletSettings},
    names::{label, taint},
};
use model::{
    catalog::Overhead,
    taint::{Taint, TaintEffect},
};
use thiserror::Error;

use crate::{ClusterFacts, expressions::as_resolved, families::Family};

/// Inputs of the user data of a group of instances.
#[derive(Clone, Copy, Debug)]
pub struct UserDataInput<'a> {
    pub cluster: &'a ClusterFacts,
    pub node_class: &'a EC2NodeClass,
    /// Labels of the NodeClaim.
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub startup_taints: &'a [Taint],
    pub capacity_type: &'a str,
    /// Number of pods of the instance type if the NodeClass does not set it.
    pub max_pods: i64,
    /// Values of the kubelet's expressions; without them, entries that are expressions are left out.
    pub resolved: Option<&'a Overhead>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UserDataError {
    #[error(
        "the cluster's service CIDR is not known, which AL2023 nodes need: set serviceCIDR in the cluster's settings"
    )]
    NoServiceCidr,
    #[error("spec.userData is not a MIME archive: {0}")]
    Mime(String),
    #[error("spec.userData is not TOML that Bottlerocket can use: {0}")]
    Toml(String),
    #[error("{0}")]
    Kubelet(String),
}

/// The user data as text; EC2 accepts it in base64.
pub fn render(family: Family, boot: &UserDataInput<'_>) -> Result<String, UserDataError> {
    match family {
        Family::Al2 => al2::render(boot),
        Family::Al2023 => al2023::render(boot),
        Family::Bottlerocket => bottlerocket::render(boot),
        Family::Windows2019 | Family::Windows2022 | Family::Windows2025 => windows::render(boot),
        Family::Custom => Ok(boot.custom().to_owned()),
    }
}

impl<'a> UserDataInput<'a> {
    fn custom(&self) -> &'a str {
        self.node_class.spec.user_data.as_deref().unwrap_or("")
    }

    fn kubelet(&self) -> Result<KubeletSettings, UserDataError> {
        let Some(kubelet) = &self.node_class.spec.kubelet else {
            return Ok(KubeletSettings::default());
        };
        let settings = kubelet.settings().map_err(|problems| {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            UserDataError::Kubelet(problems.join("; "))
        })?;
        Ok(as_resolved(settings, self.resolved))
    }

    /// DNS addresses of the NodeClass, else of the cluster.
    fn cluster_dns(&self, settings: &KubeletSettings) -> Vec<String> {
        if settings.cluster_dns.is_empty() {
            self.cluster.dns_ip.iter().cloned().collect()
        } else {
            settings.cluster_dns.clone()
        }
    }

    fn max_pods(&self, settings: &KubeletSettings) -> i64 {
        use api::karpenter::MaxPods;
        match settings.max_pods {
            Some(MaxPods::Count(count)) => i64::from(count),
            Some(MaxPods::Expression(_)) | None => self.max_pods,
        }
    }

    fn joins_disks(&self) -> bool {
        self.node_class.spec.instance_store_policy == Some(InstanceStorePolicy::Raid0)
    }

    /// Labels that the kubelet may set on its own node; others are set once the node has registered.
    fn node_labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels.extend([
            (
                label::CAPACITY_TYPE.to_owned(),
                self.capacity_type.to_owned(),
            ),
            (label::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned()),
        ]);
        labels.retain(|key, _| {
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            !KUBERNETES_DOMAINS.iter().any(|reserved| {
                domain
                    .strip_suffix(reserved)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
        });
        labels
    }

    /// The labels as `key=value,…`.
    fn node_labels_text(&self) -> String {
        let labels = self.node_labels();
        let labels: Vec<_> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        labels.join(",")
    }

    /// The claim's taints, and the one that keeps pods away until the node is registered.
    fn node_taints(&self) -> Vec<Taint> {
        let mut taints = [self.taints, self.startup_taints].concat();
        let unregistered = Taint {
            key: taint::UNREGISTERED.to_owned(),
            value: String::new(),
            effect: TaintEffect::NoExecute,
        };
        let is_there =
            |taint: &Taint| taint.key == unregistered.key && taint.effect == unregistered.effect;
        if !taints.iter().any(is_there) {
            taints.push(unregistered);
        }
        taints
    }
}

/// Domains in which a kubelet must not set labels on its own node.
const KUBERNETES_DOMAINS: [&str; 3] = ["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"];

fn effect_text(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}
