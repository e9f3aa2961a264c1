//! Facts of a cluster: from EKS for clusters of type `eks`, from the registry entry for others.

use aws_rules::{ClusterFacts, cluster::KubernetesVersion};
use model::ClusterName;
use ports::CloudError;
use serde_json::Value;

use crate::{Account, errors::refused};

impl Account {
    /// The registry entry of a cluster, for callers that do not have it.
    pub(crate) async fn registered(&self, cluster: &ClusterName) -> Result<Value, CloudError> {
        let name = format!("{}/{cluster}", self.registry_prefix);
        let answer = self.ssm.get_parameter().name(&name).send().await;
        let answer = answer.map_err(refused("ssm:GetParameter"))?;
        let text = answer.parameter.and_then(|parameter| parameter.value);
        serde_json::from_str(&text.unwrap_or_default()).map_err(|error| CloudError::Invalid {
            action: format!("reading the registry entry {name}"),
            code: "InvalidEntry".to_owned(),
            message: format!("it is not JSON: {error}"),
        })
    }

    pub(crate) async fn facts(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<ClusterFacts, CloudError> {
        let settings = entry.get("settings").unwrap_or(&Value::Null);
        let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
        let mut facts = ClusterFacts {
            name: cluster.clone(),
            region: self.region.clone(),
            endpoint: text(entry, "endpoint").unwrap_or_default(),
            certificate_authority: text(entry, "certificateAuthority").unwrap_or_default(),
            ..ClusterFacts::default()
        };
        let mut version = text(settings, "kubernetesVersion");
        let mut cidr = text(settings, "serviceCIDR");
        if entry.get("type").and_then(Value::as_str) == Some("eks") {
            let described = self.eks_cluster(cluster).await?;
            facts.endpoint = described.endpoint.unwrap_or_default();
            let authority = described.certificate_authority.and_then(|ca| ca.data);
            facts.certificate_authority = authority.unwrap_or_default();
            let network = described.kubernetes_network_config;
            let of_eks = network.and_then(|n| n.service_ipv4_cidr.or(n.service_ipv6_cidr));
            cidr = cidr.or(of_eks);
            version = version.or(described.version);
        }
        facts.dns_ip = text(settings, "clusterDNS").or_else(|| tenth_address(cidr.as_deref()?));
        facts.service_cidr = cidr;
        facts.version = match version {
            Some(version) => version.parse().map_err(|error| invalid(cluster, &error))?,
            None => KubernetesVersion::default(),
        };
        Ok(facts)
    }
}

fn invalid(cluster: &ClusterName, problem: &dyn std::error::Error) -> CloudError {
    CloudError::Invalid {
        action: format!("reading facts of cluster {cluster}"),
        code: "InvalidConfiguration".to_owned(),
        message: problem.to_string(),
    }
}

/// The address of the cluster's DNS service: EKS, kubeadm and kOps use the tenth address of the service CIDR.
fn tenth_address(cidr: &str) -> Option<String> {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    let (base, _) = cidr.split_once('/')?;
    let tenth = match base.parse().ok()? {
        IpAddr::V4(base) => IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().checked_add(10)?)),
        IpAddr::V6(base) => IpAddr::V6(Ipv6Addr::from_bits(base.to_bits().checked_add(10)?)),
    };
    Some(tenth.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dns_is_the_tenth_address_of_the_service_cidr() {
        for (cidr, dns) in [
            ("10.100.0.0/16", Some("10.100.0.10")),
            ("fd12:3456::/108", Some("fd12:3456::a")),
            ("10.100.0.0", None),
            ("services/16", None),
        ] {
            assert_eq!(tenth_address(cidr).as_deref(), dns, "{cidr}");
        }
    }
}
