//! Facts of a cluster that a node needs in order to join it.

use std::net::IpAddr;

use model::ClusterName;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFacts {
    pub name: ClusterName,
    pub region: String,
    /// URL of the API server, as nodes reach it.
    pub endpoint: String,
    /// CA bundle of the API server: PEM in base64.
    pub certificate_authority: String,
    /// CIDR of the cluster's Services. AL2023 nodes cannot join without it.
    pub service_cidr: Option<String>,
    /// The cluster IP of kube-dns. An IPv6 address makes this an IPv6 cluster.
    pub dns_ip: Option<String>,
    pub version: KubernetesVersion,
}

/// Minor version of a cluster, written `1.35`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub struct KubernetesVersion {
    pub major: u32,
    pub minor: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a Kubernetes version: expected major.minor, such as 1.35")]
pub struct VersionError(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamily {
    V4,
    V6,
}

impl ClusterFacts {
    pub fn ip_family(&self) -> IpFamily {
        self.dns_ip.as_deref().map_or(IpFamily::V4, ip_family)
    }
}

/// The family of an address. Text that is not an address counts as IPv4, as upstream has it.
pub(crate) fn ip_family(address: &str) -> IpFamily {
    match address.parse() {
        Ok(IpAddr::V6(_)) => IpFamily::V6,
        Ok(IpAddr::V4(_)) | Err(_) => IpFamily::V4,
    }
}

impl std::fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<KubernetesVersion> for String {
    fn from(version: KubernetesVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for KubernetesVersion {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

/// Parses `1.35` as EKS writes it, and `1` with `35+` joined by a dot, as some API servers report it.
impl std::str::FromStr for KubernetesVersion {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let parse = || {
            let (major, minor) = text.strip_prefix('v').unwrap_or(text).split_once('.')?;
            let minor = minor.split(['.', '+', '-']).next()?;
            Some(Self {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        };
        parse().ok_or_else(|| VersionError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_versions_parse_in_both_formats() {
        for text in ["1.35", "1.35+", "v1.35.2-eks-1", "1.35.0"] {
            assert_eq!(
                text.parse(),
                Ok(KubernetesVersion {
                    major: 1,
                    minor: 35
                }),
                "{text}"
            );
        }
        let error = "latest".parse::<KubernetesVersion>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"latest\" is not a Kubernetes version: expected major.minor, such as 1.35"
        );
    }

    #[test]
    fn dns_address_decides_the_ip_family() {
        let facts = |dns: &str| ClusterFacts {
            dns_ip: Some(dns.to_owned()),
            ..ClusterFacts::default()
        };
        assert_eq!(facts("10.100.0.10").ip_family(), IpFamily::V4);
        assert_eq!(facts("fd12:3456::a").ip_family(), IpFamily::V6);
        assert_eq!(ClusterFacts::default().ip_family(), IpFamily::V4);
    }
}
