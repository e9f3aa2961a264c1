//! Connections to a cluster's API server, opened by its registry entry.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use ec2::{Account, ClusterAccess, ClusterCredentials};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use k8s::{Access, Credentials, KubeCluster};
use model::{ClusterName, Uid};
use ports::{Clock, CloudError, Cluster, ClusterError, Clusters};
use serde_json::Value;

/// Lifetime of a connection's credentials: rotated credentials take effect within this time; EKS tokens live a little longer.
const CREDENTIALS_LIFETIME: SignedDuration = SignedDuration::from_mins(5);
/// Upper bound on the objects that a warm function caches over all clusters: a few hundred megabytes.
const CACHED_OBJECTS_MAX: usize = 150_000;
/// Namespace of Karpenter's Lease, unless the entry's `leaseNamespace` names another.
const LEASE_NAMESPACE: &str = "kube-system";

/// Looks up the access to a cluster.
#[async_trait]
pub(crate) trait Directory: Send + Sync {
    async fn access(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<ClusterAccess, CloudError>;
}

#[async_trait]
impl Directory for Account {
    async fn access(
        &self,
        cluster: &ClusterName,
        entry: &Value,
    ) -> Result<ClusterAccess, CloudError> {
        self.cluster_access(cluster, entry).await
    }
}

/// Connections to clusters, cached while a function is warm. The lock is never held across an await: a cluster that cannot be reached, or
/// is being listed, does not block another one.
pub(crate) struct Connections {
    directory: Arc<dyn Directory>,
    clock: Arc<dyn Clock>,
    /// User agent of this function's requests to API servers.
    agent: String,
    open: Mutex<BTreeMap<ClusterName, Open>>,
}

#[derive(Clone)]
struct Open {
    /// The registry entry; a changed entry needs a new connection.
    entry: Value,
    until: Timestamp,
    /// UID of the cluster that answers.
    uid: Uid,
    cluster: Arc<KubeCluster>,
}

impl Connections {
    pub(crate) fn new(directory: Arc<dyn Directory>, clock: Arc<dyn Clock>, agent: String) -> Self {
        Self {
            directory,
            clock,
            agent,
            open: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last connection that was opened by exactly this entry.
    fn last(&self, cluster: &ClusterName, entry: &Value) -> Option<Open> {
        let open = self.open();
        let last = open.get(cluster).filter(|last| last.entry == *entry);
        last.cloned()
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
        let last = self.last(cluster, entry);
        if let Some(last) = last.as_ref().filter(|last| last.until > now) {
            return Ok(last.cluster.clone());
        }
        let access = self
            .directory
            .access(cluster, entry)
            .await
            .map_err(|error| refused(cluster, entry, error))?;
        let client = client_access(access)
            .client_as(&self.agent)
            .map_err(|error| ClusterError::Invalid {
                what: entry_of(cluster),
                message: ports::with_causes(&error),
            })?;
        let lease_namespace = entry
            .get("leaseNamespace")
            .and_then(Value::as_str)
            .unwrap_or(LEASE_NAMESPACE);
        let new = KubeCluster::new(client.clone(), lease_namespace);
        let uid = new.identity().await?;
        let connected = Arc::new(match last.filter(|last| last.uid == uid) {
            // The cluster is unchanged, its credentials are renewed.
            Some(last) => last.cluster.through(client),
            // A cluster that was created again under the same name shares nothing with the cache of the former one.
            None => new,
        });
        let opened = Open {
            entry: entry.clone(),
            until: now.saturating_add(CREDENTIALS_LIFETIME).unwrap_or(now),
            uid,
            cluster: connected.clone(),
        };
        let mut open = self.open();
        make_room(&open);
        open.insert(cluster.clone(), opened);
        Ok(connected)
    }
}

/// Clears the caches of all clusters at once: which cluster comes next is unpredictable. Caches that are being read are skipped, and
/// counted the next time.
fn make_room(open: &BTreeMap<ClusterName, Open>) {
    let remembered = open.values().filter_map(|open| {
        let remembered = open.cluster.remembered();
        remembered.now_or_never()
    });
    if remembered.sum::<usize>() > CACHED_OBJECTS_MAX {
        for open in open.values() {
            // `None` while the cache is being read.
            let _: Option<()> = open.cluster.forget().now_or_never();
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
        // For a cluster of type `eks`, only DescribeCluster can return this error.
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

#[cfg(test)]
mod tests;
