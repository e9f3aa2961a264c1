//! Whether a registry entry names the cluster that answers: names may be given twice, and change.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use api::names::tag;
use ec2::Account;
use k8s::KubeCluster;
use model::{InstanceId, Uid};
use ports::{Cloud, Cluster};
use serde_json::Value;

use super::client_access;
use crate::{
    finding::Finding,
    objects::{Objects, short_name},
};

/// Number of instances that are described at a time.
const INSTANCES_PER_CALL: usize = 200;

/// NodeClaims whose instances are tagged with the name of another cluster: the functions may not terminate them.
pub(super) async fn misnamed(
    account: &Account,
    cluster: &str,
    objects: &Objects,
) -> Result<Finding> {
    let claims: BTreeMap<InstanceId, String> = objects
        .of_kind("NodeClaim")
        .filter_map(|claim| {
            let provider_id = claim.pointer("/status/providerID")?.as_str()?;
            let instance = provider_id.rsplit('/').next()?;
            Some((InstanceId::from(instance), short_name(claim)))
        })
        .collect();
    let ids: Vec<InstanceId> = claims.keys().cloned().collect();
    let mut misnamed = Vec::new();
    for some in ids.chunks(INSTANCES_PER_CALL) {
        let shown = account.describe_instances(some).await;
        let shown = shown.context("cannot describe the instances of NodeClaims")?;
        misnamed.extend(shown.iter().filter_map(|instance| {
            let name = other_name(&instance.tags, cluster)?;
            let claim = claims.get(&instance.id)?;
            Some(format!(
                "{claim}: {} carries the name of {name}",
                instance.id
            ))
        }));
    }
    Ok(Finding::new(
        "instances of NodeClaims carry the name of another cluster, so that nothing may end them",
        misnamed,
        "register the cluster under the name that they carry, or change their tag eks:eks-cluster-name: aws ec2 create-tags",
    ))
}

fn other_name<'a>(tags: &'a BTreeMap<String, String>, cluster: &str) -> Option<&'a str> {
    let name = tags.get(tag::EKS_CLUSTER)?;
    (name != cluster).then_some(name)
}

/// UID of the cluster that answers at a registry entry's endpoint, if one does.
pub(in crate::aws) async fn uid(account: &Account, cluster: &str, entry: &Value) -> Option<Uid> {
    let access = account.cluster_access(&cluster.into(), entry).await.ok()?;
    let client = client_access(access).client().ok()?;
    KubeCluster::new(client, "").identity().await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_tagged_with_another_cluster_is_distinguished_from_untagged() {
        assert_eq!(other_name(&BTreeMap::new(), "demo-eu"), None);
        for (name, expected) in [("demo", Some("demo")), ("demo-eu", None)] {
            let tags = [(tag::EKS_CLUSTER.to_owned(), name.to_owned())].into();
            assert_eq!(other_name(&tags, "demo-eu"), expected);
        }
    }
}
