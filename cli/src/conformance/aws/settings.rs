//! Cluster settings of a case; all others have the corpus' defaults.

use anyhow::{Context, Result};
use aws_rules::{ClusterFacts, ProviderSettings};
use model::snapshot::MinValuesPolicy;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CaseSettings {
    cluster_name: String,
    cluster_endpoint: String,
    #[serde(rename = "clusterCABundle")]
    pub(super) cluster_ca_bundle: String,
    #[serde(rename = "clusterCIDR")]
    cluster_cidr: String,
    #[serde(rename = "clusterDNSIP")]
    cluster_dns_ip: String,
    pub(super) region: String,
    kubernetes_version: String,
    vm_memory_overhead_percent: serde_json::Number,
    #[serde(rename = "reservedENIs")]
    reserved_enis: u32,
    reserved_capacity: bool,
    min_values_policy: String,
    #[serde(rename = "nodeClassCEL")]
    node_class_cel: bool,
}

impl Default for CaseSettings {
    fn default() -> Self {
        Self {
            cluster_name: "test-cluster".to_owned(),
            cluster_endpoint: "https://test-cluster".to_owned(),
            cluster_ca_bundle: "Y2EtYnVuZGxlCg==".to_owned(),
            cluster_cidr: "10.100.0.0/16".to_owned(),
            cluster_dns_ip: "10.100.0.10".to_owned(),
            region: "us-east-1".to_owned(),
            kubernetes_version: "1.35".to_owned(),
            vm_memory_overhead_percent: serde_json::Number::from_f64(0.075)
                .unwrap_or_else(|| 0.into()),
            reserved_enis: 0,
            reserved_capacity: true,
            min_values_policy: "Strict".to_owned(),
            node_class_cel: false,
        }
    }
}

impl CaseSettings {
    pub(super) fn provider(&self) -> Result<ProviderSettings> {
        let overhead = self.vm_memory_overhead_percent.to_string();
        Ok(ProviderSettings {
            vm_memory_overhead: overhead.parse().context("vmMemoryOverheadPercent")?,
            reserved_enis: self.reserved_enis,
            reserved_capacity: self.reserved_capacity,
            node_class_cel: self.node_class_cel,
            min_values_policy: match self.min_values_policy.as_str() {
                "BestEffort" => MinValuesPolicy::BestEffort,
                _ => MinValuesPolicy::Strict,
            },
            ..ProviderSettings::default()
        })
    }

    pub(super) fn cluster(&self) -> Result<ClusterFacts> {
        let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        Ok(ClusterFacts {
            name: self.cluster_name.as_str().into(),
            region: self.region.clone(),
            endpoint: self.cluster_endpoint.clone(),
            certificate_authority: self.cluster_ca_bundle.clone(),
            service_cidr: known(&self.cluster_cidr),
            dns_ip: known(&self.cluster_dns_ip),
            version: self.kubernetes_version.parse()?,
        })
    }
}
