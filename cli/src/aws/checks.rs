//! All checks of a cluster, which `register` runs before the cluster is served and `doctor` runs at any time. They only read.

mod access;
pub(super) mod capacity;
mod gates;
pub(super) mod identity;
mod settings;

use anyhow::{Context, Result, bail};
use ec2::{Account, ClusterAccess, ClusterCredentials, EksCluster};
use jiff::Timestamp;
use k8s::{Access, Credentials};
use ports::CloudError;
use serde_json::{Value, json};

use crate::{
    doctor,
    finding::{Finding, found},
    objects::Objects,
};

/// Runs the checks. A finding that makes it impossible to serve the cluster is an error. Objects that are not given are read from the
/// cluster itself.
pub(super) async fn all(
    account: &Account,
    cluster: &str,
    entry: &Value,
    objects: Option<Objects>,
    now: Timestamp,
) -> Result<Vec<Finding>> {
    let from_outside = entry
        .get("reach")
        .is_none_or(|reach| *reach == json!("public"));
    let mut findings = vec![settings::unusable(entry), settings::without_effect(entry)];
    let mut described = None;
    if is_eks(entry) {
        let eks = eks(account, cluster).await?;
        findings.extend(of_eks(cluster, &eks, from_outside));
        described = Some(eks);
    } else if let Some(parameter) = entry.get("credentials").and_then(Value::as_str) {
        let held = account.holds_credentials(&cluster.into(), parameter).await;
        held.with_context(|| format!("cannot use the credentials in {parameter}"))?;
    }
    let objects = match (objects, from_outside) {
        (Some(objects), _) => objects,
        (None, true) => {
            let (objects, reached) = read(account, cluster, entry).await?;
            findings.extend(reached);
            objects
        }
        (None, false) => {
            findings.push(unseen("it is reached from its VPC alone".to_owned()));
            Objects::default()
        }
    };
    findings.extend(access::checks(account, cluster, described.as_ref(), &objects).await?);
    findings.extend(capacity::checks(account, cluster, &objects).await?);
    findings.push(identity::misnamed(account, cluster, &objects).await?);
    findings.extend(gates::checks(entry, &objects));
    let mut findings = found(findings);
    findings.extend(doctor::check_objects(&objects, now));
    Ok(findings)
}

pub(super) fn is_eks(entry: &Value) -> bool {
    entry.get("type") == Some(&json!("eks"))
}

/// A finding's list of zero or one objects.
fn optional(what: Option<String>) -> Vec<String> {
    what.into_iter().collect()
}

pub(super) async fn eks(account: &Account, cluster: &str) -> Result<EksCluster> {
    match account.describe_eks_cluster(&cluster.into()).await {
        Err(CloudError::NotFound { .. }) => bail!(
            "EKS has no cluster {cluster} in {}. Name its Region by AWS_REGION: a stack serves the clusters \
             of its own. A cluster that is none of EKS takes --endpoint and --credentials",
            account.region()
        ),
        described => described.with_context(|| format!("cannot describe cluster {cluster}")),
    }
}

fn of_eks(cluster: &str, described: &EksCluster, from_outside: bool) -> Vec<Finding> {
    let EksCluster {
        status,
        public_endpoint,
        public_cidrs,
        authentication_mode,
        ..
    } = described;
    let everyone = public_cidrs.is_empty() || public_cidrs.iter().any(|cidr| cidr == "0.0.0.0/0");
    vec![
        Finding::new(
            "the cluster is not active",
            optional((status != "ACTIVE").then(|| format!("{cluster} is {status}"))),
            "wait until it is: aws eks wait cluster-active --name <cluster>",
        ),
        Finding::new(
            "the API server is not reached from outside its VPC",
            optional(
                (from_outside && !public_endpoint)
                    .then(|| format!("{cluster} has no public endpoint")),
            ),
            "deploy a lane in its VPC (docs/how-to/private-clusters.md) and register the cluster with --reach vpc:<id> --replace, or \
             enable the public endpoint, for the functions' addresses at least",
        ),
        Finding::new(
            "the public endpoint admits some addresses only, and functions outside a VPC have any",
            optional(
                (from_outside && *public_endpoint && !everyone)
                    .then(|| format!("{cluster} admits {}", public_cidrs.join(", "))),
            ),
            "give the stack a lane in its VPC and register it with --reach vpc:<id> --replace, or attach the functions to subnets \
             (SubnetIds) behind NAT gateways whose addresses it admits",
        ),
        Finding::new(
            "roles have access by the ConfigMap aws-auth alone",
            optional(
                (authentication_mode == "CONFIG_MAP")
                    .then(|| format!("{cluster} has authentication mode CONFIG_MAP")),
            ),
            "map the functions' roles in aws-auth, each by its ARN without a path to the group whittle:<function>, or change the mode to \
             API_AND_CONFIG_MAP: aws eks update-cluster-config --access-config authenticationMode=API_AND_CONFIG_MAP",
        ),
    ]
}

/// Reads the cluster's objects through its own endpoint as the user of this command; objects that cannot be read become a finding.
async fn read(
    account: &Account,
    cluster: &str,
    entry: &Value,
) -> Result<(Objects, Option<Finding>)> {
    let access = account.cluster_access(&cluster.into(), entry).await;
    let access = client_access(access.with_context(|| format!("cannot reach cluster {cluster}"))?);
    let endpoint = access.endpoint.clone();
    let unreached = |error: anyhow::Error| {
        let finding = Finding::new(
            "the API server is not reached from here",
            vec![format!("{endpoint}: {error:#}")],
            "check its address, its certificate authority and its allowed CIDRs; register a cluster in a VPC with --reach vpc:<id>",
        );
        Ok((Objects::default(), Some(finding)))
    };
    let client = match access.client() {
        Ok(client) => client,
        Err(error) => return unreached(error.into()),
    };
    let version = http::Request::get("/version").body(Vec::new())?;
    let answer: Result<Value, _> = client.request(version).await;
    if let Some(error) = answer.err().filter(|error| !is_answer(error)) {
        return unreached(error.into());
    }
    match Objects::of_client(&client, doctor::LISTS).await {
        Ok(objects) => Ok((objects, None)),
        Err(error) => Ok((Objects::default(), Some(unseen(format!("{error:#}"))))),
    }
}

/// Whether an error shows that the API server was reached: it refused the request.
fn is_answer(error: &k8s::Error) -> bool {
    matches!(error, k8s::Error::Api(_))
}

fn unseen(why: String) -> Finding {
    Finding::new(
        "the cluster's objects were not checked",
        vec![why],
        "whittle doctor <cluster> --context <a context of your kubeconfig that may read it>",
    )
}

fn client_access(access: ClusterAccess) -> Access {
    Access {
        endpoint: access.endpoint,
        certificate_authority: access.certificate_authority,
        credentials: match access.credentials {
            ClusterCredentials::BearerToken(token) => Credentials::BearerToken(token),
            ClusterCredentials::ClientCertificate { certificate, key } => {
                Credentials::ClientCertificate { certificate, key }
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eks_description_becomes_findings() {
        let of = |status: &str, cidrs: &[&str], mode: &str, from_outside| {
            let described = EksCluster {
                status: status.into(),
                public_endpoint: !cidrs.is_empty(),
                public_cidrs: cidrs.iter().map(|cidr| (*cidr).to_owned()).collect(),
                authentication_mode: mode.into(),
                ..EksCluster::default()
            };
            let findings = found(of_eks("demo", &described, from_outside)).into_iter();
            findings
                .flat_map(|finding| finding.objects)
                .collect::<Vec<_>>()
        };
        const ALL: &[&str] = &["0.0.0.0/0"];
        assert_eq!(of("ACTIVE", ALL, "API", true), Vec::<String>::new());
        assert_eq!(of("CREATING", ALL, "", true), ["demo is CREATING"]);
        assert_eq!(
            of("ACTIVE", &[], "CONFIG_MAP", true),
            [
                "demo has no public endpoint",
                "demo has authentication mode CONFIG_MAP"
            ]
        );
        let office = of("ACTIVE", &["198.51.100.0/24"], "API", true);
        assert_eq!(office, ["demo admits 198.51.100.0/24"]);
        for cidrs in [&[][..], &["198.51.100.0/24"]] {
            let inside = of("ACTIVE", cidrs, "API", false);
            assert_eq!(inside, Vec::<String>::new(), "a lane reaches it");
        }
    }
}
