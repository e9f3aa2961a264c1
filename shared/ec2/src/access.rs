//! Access to a cluster's API server: endpoint, credentials and identity.

use std::time::{Duration, SystemTime};

use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign},
    sign::v4,
};
use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use model::ClusterName;
use ports::CloudError;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use crate::{Account, errors::refused};

/// Inputs of a client of a cluster's API server.
#[derive(Clone, Debug)]
pub struct ClusterAccess {
    pub endpoint: String,
    /// PEM in base64; `None` means the certificate authorities of the platform.
    pub certificate_authority: Option<String>,
    pub credentials: ClusterCredentials,
    /// Expiry of the credentials, if known.
    pub until: Option<Timestamp>,
}

/// EKS' description of a cluster, in EKS' own terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EksCluster {
    /// Status, such as `ACTIVE`.
    pub status: String,
    /// Kubernetes version, such as `1.35`.
    pub version: String,
    /// Subnets of the control plane's network interfaces.
    pub subnets: Vec<String>,
    /// The security group that EKS creates for the cluster; empty if EKS returns none.
    pub security_group: String,
    pub public_endpoint: bool,
    /// CIDRs from which the public endpoint accepts connections.
    pub public_cidrs: Vec<String>,
    /// `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`; empty if EKS returns none.
    pub authentication_mode: String,
}

#[derive(Clone, Debug)]
pub enum ClusterCredentials {
    BearerToken(SecretString),
    /// PEM in base64, as in a kubeconfig.
    ClientCertificate {
        certificate: String,
        key: SecretString,
    },
}

/// Time for which a token is used. EKS accepts a token for fifteen minutes after it was signed; one minute is left for clock skew.
const TOKEN_LIFETIME: SignedDuration = SignedDuration::from_mins(14);
/// Time for which STS accepts the signed request.
const SIGNATURE_LIFETIME: Duration = Duration::from_secs(60);
const CLUSTER_HEADER: &str = "x-k8s-aws-id";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCertificate {
    client_certificate: String,
    client_key: String,
}

impl Account {
    /// Returns the access to a cluster's API server by its registry entry.
    pub async fn cluster_access(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<ClusterAccess, CloudError> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        match text("type").as_deref() {
            Some("eks") => self.eks_access(cluster).await,
            Some("endpoint") => {
                let missing = |name: &str| invalid(cluster, format!("{name} is missing"));
                let parameter = text("credentials").ok_or_else(|| missing("credentials"))?;
                Ok(ClusterAccess {
                    endpoint: text("endpoint").ok_or_else(|| missing("endpoint"))?,
                    certificate_authority: text("certificateAuthority"),
                    credentials: self.stored_credentials(cluster, &parameter).await?,
                    until: None,
                })
            }
            other => Err(invalid(
                cluster,
                format!("type is {other:?}, expected \"eks\" or \"endpoint\""),
            )),
        }
    }

    /// Checks that a parameter contains credentials that can be parsed; the error names the problem.
    pub async fn holds_credentials(
        &self,
        cluster: &ClusterName,
        parameter: &str,
    ) -> Result<(), CloudError> {
        self.stored_credentials(cluster, parameter).await.map(drop)
    }

    /// Describes an EKS cluster that need not be registered.
    pub async fn describe_eks_cluster(
        &self,
        cluster: &ClusterName,
    ) -> Result<EksCluster, CloudError> {
        let described = self.eks_cluster(cluster).await?;
        let network = described.resources_vpc_config.as_ref();
        let status = described.status.as_ref();
        let access = described.access_config.as_ref();
        let mode = access.and_then(|access| access.authentication_mode.as_ref());
        Ok(EksCluster {
            status: status.map_or_else(String::new, |status| status.as_str().to_owned()),
            version: described.version.clone().unwrap_or_default(),
            subnets: network
                .and_then(|network| network.subnet_ids.clone())
                .unwrap_or_default(),
            security_group: network
                .and_then(|network| network.cluster_security_group_id.clone())
                .unwrap_or_default(),
            public_endpoint: network.is_none_or(|network| network.endpoint_public_access),
            public_cidrs: network
                .and_then(|network| network.public_access_cidrs.clone())
                .unwrap_or_default(),
            authentication_mode: mode.map_or_else(String::new, |mode| mode.as_str().to_owned()),
        })
    }

    pub(crate) async fn eks_cluster(
        &self,
        cluster: &ClusterName,
    ) -> Result<aws_sdk_eks::types::Cluster, CloudError> {
        let call = self.eks.describe_cluster().name(cluster.as_str());
        let answer = call.send().await.map_err(refused("eks:DescribeCluster"))?;
        answer.cluster.ok_or_else(|| CloudError::Unknown {
            action: "eks:DescribeCluster".to_owned(),
            message: "the answer contains no cluster".to_owned(),
        })
    }

    async fn eks_access(&self, cluster: &ClusterName) -> Result<ClusterAccess, CloudError> {
        let described = self.eks_cluster(cluster).await?;
        let endpoint = described
            .endpoint
            .ok_or_else(|| invalid(cluster, "EKS has no endpoint for it yet".to_owned()))?;
        let now = self.clock.now();
        Ok(ClusterAccess {
            endpoint,
            certificate_authority: described.certificate_authority.and_then(|ca| ca.data),
            credentials: ClusterCredentials::BearerToken(self.eks_token(cluster, now).await?),
            until: now.checked_add(TOKEN_LIFETIME).ok(),
        })
    }

    /// The value of a parameter, decrypted; empty if it has none.
    pub(crate) async fn parameter(&self, name: &str) -> Result<String, CloudError> {
        let call = self.ssm.get_parameter().name(name);
        let answer = call.with_decryption(true).send().await;
        let answer = answer.map_err(refused("ssm:GetParameter"))?;
        let value = answer.parameter.and_then(|parameter| parameter.value);
        Ok(value.unwrap_or_default())
    }

    /// Checks that a parameter belongs to the cluster. Functions may read the credentials of every cluster: without this check an entry
    /// could name another cluster's credentials and have them sent to the endpoint of its choice.
    fn owned_by(&self, cluster: &ClusterName, parameter: &str) -> Result<(), CloudError> {
        let prefix = self.credentials_prefix.as_deref();
        if is_own(prefix, cluster, parameter) {
            return Ok(());
        }
        let prefix = prefix.unwrap_or("<prefix>");
        Err(invalid(
            cluster,
            format!(
                "credentials is {parameter}: expected {prefix}/{cluster} or a parameter below it; store them there, and name that parameter in the entry"
            ),
        ))
    }

    /// Reads a SecureString with a bearer token, or with a client certificate and its key as JSON.
    async fn stored_credentials(
        &self,
        cluster: &ClusterName,
        parameter: &str,
    ) -> Result<ClusterCredentials, CloudError> {
        self.owned_by(cluster, parameter)?;
        let value = self.parameter(parameter).await?;
        let value = value.trim();
        if value.starts_with('{') {
            let stored: StoredCertificate = serde_json::from_str(value).map_err(|_| {
                invalid(
                    cluster,
                    format!(
                        "the parameter {parameter} contains JSON without clientCertificate and clientKey"
                    ),
                )
            })?;
            return Ok(ClusterCredentials::ClientCertificate {
                certificate: as_base64(&stored.client_certificate),
                key: SecretString::from(as_base64(&stored.client_key)),
            });
        }
        if value.is_empty() {
            return Err(invalid(
                cluster,
                format!("the parameter {parameter} is empty: expected a bearer token"),
            ));
        }
        Ok(ClusterCredentials::BearerToken(SecretString::from(value)))
    }

    /// A token for EKS: a presigned STS request for our own identity, which EKS sends to STS to authenticate us.
    async fn eks_token(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<SecretString, CloudError> {
        let failed = |message: String| CloudError::Unknown {
            action: format!("signing a token for cluster {cluster}"),
            message,
        };
        let provider = self
            .credentials
            .as_ref()
            .ok_or_else(|| failed("there are no AWS credentials".to_owned()))?;
        let credentials = provider.provide_credentials().await;
        let identity = credentials
            .map_err(|error| failed(error.to_string()))?
            .into();
        presigned(&self.region, cluster, &identity, now.into()).map_err(failed)
    }
}

fn presigned(
    region: &str,
    cluster: &ClusterName,
    identity: &aws_smithy_runtime_api::client::identity::Identity,
    now: SystemTime,
) -> Result<SecretString, String> {
    let domain = signed::domain(region);
    let url = format!("https://sts.{region}.{domain}/?Action=GetCallerIdentity&Version=2011-06-15");
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(SIGNATURE_LIFETIME);
    let parameters = v4::SigningParams::builder()
        .identity(identity)
        .region(region)
        .name("sts")
        .time(now)
        .settings(settings)
        .build()
        .map_err(|error| error.to_string())?
        .into();
    let header = [(CLUSTER_HEADER, cluster.as_str())];
    let request = SignableRequest::new(
        "GET",
        url.as_str(),
        header.into_iter(),
        SignableBody::Bytes(&[]),
    )
    .map_err(|error| error.to_string())?;
    let signed = sign(request, &parameters).map_err(|error| error.to_string())?;
    let (instructions, _) = signed.into_parts();
    let mut request = http::Request::builder()
        .uri(url)
        .body(())
        .map_err(|error| error.to_string())?;
    instructions.apply_to_request_http1x(&mut request);
    let url = BASE64_URL_SAFE_NO_PAD.encode(request.uri().to_string());
    Ok(SecretString::from(format!("k8s-aws-v1.{url}")))
}

/// Whether a parameter has the cluster's name, or is below it.
fn is_own(prefix: Option<&str>, cluster: &ClusterName, parameter: &str) -> bool {
    match prefix {
        Some(prefix) => {
            let below = parameter.strip_prefix(prefix.trim_end_matches('/'));
            let below = below.and_then(|below| below.strip_prefix('/'));
            below.and_then(|below| below.split('/').next()) == Some(cluster.as_str())
        }
        None => parameter.split('/').any(|part| part == cluster.as_str()),
    }
}

/// Encodes PEM in base64, as in kubeconfigs; base64 is returned as it is.
fn as_base64(text: &str) -> String {
    if text.contains("-----BEGIN") {
        BASE64_STANDARD.encode(text)
    } else {
        text.trim().to_owned()
    }
}

fn invalid(cluster: &ClusterName, message: String) -> CloudError {
    CloudError::Invalid {
        action: format!("connecting to cluster {cluster}"),
        code: "InvalidEntry".to_owned(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use aws_credential_types::Credentials;
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn credentials_belong_to_the_cluster_of_their_name() {
        let is_own = |prefix, parameter| super::is_own(prefix, &"a".into(), parameter);
        let prefix = Some("/whittle/credentials");
        for own in ["/whittle/credentials/a", "/whittle/credentials/a/token"] {
            assert!(is_own(prefix, own), "{own}");
            assert!(is_own(None, own), "{own}");
        }
        for other in [
            "/whittle/credentials/b",
            "/whittle/credentials/ab",
            "/whittle/credentials/b/a",
            "/whittle/credentials",
            "/elsewhere/a",
        ] {
            assert!(!is_own(prefix, other), "{other}");
        }
        assert!(!is_own(None, "/whittle/credentials/b"));
    }

    #[test]
    fn token_is_a_signed_request_for_our_identity_bound_to_the_cluster() {
        let identity = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test").into();
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let token = presigned("eu-west-1", &"demo".into(), &identity, now.into()).unwrap();
        let token = token.expose_secret();
        let url = token.strip_prefix("k8s-aws-v1.").unwrap();
        let url = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(url).unwrap()).unwrap();
        assert!(url.starts_with("https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity"));
        for part in [
            "X-Amz-Date=20260101T000000Z",
            "X-Amz-Expires=60",
            "X-Amz-SignedHeaders=host%3Bx-k8s-aws-id",
            "X-Amz-Credential=AKIDEXAMPLE%2F20260101%2Feu-west-1%2Fsts%2Faws4_request",
        ] {
            assert!(url.contains(part), "{part} is not in {url}");
        }
    }
}
