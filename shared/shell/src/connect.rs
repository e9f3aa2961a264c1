//! Opening a cluster's API server from its registry entry.

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

/// Credentials that are rotated are picked up within this time; EKS tokens live a little longer.
const KEPT: SignedDuration = SignedDuration::from_mins(5);
/// Objects that a warm function remembers of all its clusters: a few hundred megabytes.
const REMEMBERED_MAX: usize = 150_000;
/// Where Karpenter is installed, unless the entry's `leaseNamespace` says otherwise.
const LEASE_NAMESPACE: &str = "kube-system";

/// Says how a cluster is reached.
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

/// Connections to clusters, kept while a function is warm. The lock is never held across an await: a cluster that cannot be
/// reached, or is being listed, keeps no other one waiting.
pub(crate) struct Connections {
    directory: Arc<dyn Directory>,
    clock: Arc<dyn Clock>,
    /// The name by which API servers know this function.
    agent: String,
    open: Mutex<BTreeMap<ClusterName, Open>>,
}

#[derive(Clone)]
struct Open {
    /// A changed entry is a new connection.
    entry: Value,
    until: Timestamp,
    /// Which cluster answers there.
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

    /// The last connection by this very entry.
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
            // Its credentials were renewed.
            Some(last) => last.cluster.through(client),
            // A cluster that was made anew under its name has nothing in common with what is remembered of the former one.
            None => new,
        });
        let opened = Open {
            entry: entry.clone(),
            until: now.saturating_add(KEPT).unwrap_or(now),
            uid,
            cluster: connected.clone(),
        };
        let mut open = self.open();
        make_room(&open);
        open.insert(cluster.clone(), opened);
        Ok(connected)
    }
}

/// Clusters are forgotten together: which one is asked for next is anybody's guess. Those that are being read just now are left
/// out, and are counted the next time.
fn make_room(open: &BTreeMap<ClusterName, Open>) {
    let remembered = open.values().filter_map(|open| {
        let remembered = open.cluster.remembered();
        remembered.now_or_never()
    });
    if remembered.sum::<usize>() > REMEMBERED_MAX {
        for open in open.values() {
            // `None` where it is being read.
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

#[cfg(test)]
mod tests;
