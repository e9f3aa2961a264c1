//! Opening a cluster's API server from its registry entry.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use ec2::{Account, ClusterAccess, ClusterCredentials};
use jiff::{SignedDuration, Timestamp};
use k8s::{Access, Credentials, KubeCluster};
use model::ClusterName;
use ports::{Clock, CloudError, Cluster, ClusterError, Clusters};
use serde_json::Value;
use tokio::sync::Mutex;

/// Credentials that are rotated are picked up within this time; EKS tokens live a little longer.
const KEPT: SignedDuration = SignedDuration::from_mins(5);
/// Objects that a warm function remembers of all its clusters: a few hundred megabytes.
const REMEMBERED_MAX: usize = 150_000;
/// Where Karpenter is installed, unless the entry's `leaseNamespace` says otherwise.
const LEASE_NAMESPACE: &str = "kube-system";

/// Connections to clusters, kept while a function is warm.
pub(crate) struct Connections {
    account: Arc<Account>,
    clock: Arc<dyn Clock>,
    /// The name by which API servers know this function.
    agent: String,
    open: Mutex<BTreeMap<ClusterName, Open>>,
}

struct Open {
    /// A changed entry is a new connection.
    entry: Value,
    until: Timestamp,
    cluster: Arc<KubeCluster>,
}

impl Connections {
    pub(crate) fn new(account: Arc<Account>, clock: Arc<dyn Clock>, agent: String) -> Self {
        Self {
            account,
            clock,
            agent,
            open: Mutex::default(),
        }
    }
}

#[async_trait]
impl Clusters for Connections {
    async fn connect(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<Arc<dyn Cluster>, ClusterError> {
        let now = self.clock.now();
        let mut open = self.open.lock().await;
        if let Some(known) = open
            .get(cluster)
            .filter(|known| known.until > now && known.entry == *entry)
        {
            return Ok(known.cluster.clone());
        }
        let access = self
            .account
            .cluster_access(cluster, entry)
            .await
            .map_err(|error| refused(cluster, entry, error))?;
        let client = client_access(access)
            .client_as(&self.agent)
            .map_err(|error| ClusterError::Invalid {
                what: entry_of(cluster),
                message: crate::serve::chain(&error),
            })?;
        let lease_namespace = entry
            .get("leaseNamespace")
            .and_then(Value::as_str)
            .unwrap_or(LEASE_NAMESPACE);
        let connected = Arc::new(match open.get(cluster) {
            // Its credentials were renewed.
            Some(known) if known.entry == *entry => known.cluster.through(client),
            Some(_) | None => KubeCluster::new(client, lease_namespace),
        });
        make_room(&open).await;
        let until = now.saturating_add(KEPT).unwrap_or(now);
        open.insert(
            cluster.clone(),
            Open {
                entry: entry.clone(),
                until,
                cluster: connected.clone(),
            },
        );
        Ok(connected)
    }
}

/// Clusters are forgotten together: which one is asked for next is anybody's guess.
async fn make_room(open: &BTreeMap<ClusterName, Open>) {
    let mut remembered = 0;
    for known in open.values() {
        remembered += known.cluster.remembered().await;
    }
    if remembered > REMEMBERED_MAX {
        for known in open.values() {
            known.cluster.forget().await;
        }
    }
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

fn entry_of(cluster: &ClusterName) -> String {
    format!("the registry entry of cluster {cluster}")
}

fn refused(cluster: &ClusterName, entry: &Value, error: CloudError) -> ClusterError {
    let message = error.to_string();
    match error {
        // On the way to a cluster of EKS, only DescribeCluster can answer so.
        CloudError::NotFound { .. } if entry.get("type") == Some(&Value::from("eks")) => {
            ClusterError::NoCluster {
                cluster: cluster.clone(),
            }
        }
        CloudError::Invalid { .. }
        | CloudError::NotFound { .. }
        | CloudError::NoCapacity { .. } => ClusterError::Invalid {
            what: entry_of(cluster),
            message,
        },
        CloudError::Denied { action, .. } => ClusterError::Denied { action, message },
        CloudError::Throttled { action, .. } | CloudError::Postponed { action, .. } => {
            ClusterError::Throttled {
                action,
                after_seconds: None,
            }
        }
        CloudError::Unknown { action, .. } | CloudError::NotSent { action, .. } => {
            ClusterError::Unavailable { action, message }
        }
    }
}
