//! Identities of the functions in a demo's cluster.

use std::{collections::BTreeMap, sync::Arc};

use k8s::{ConnectError, KubeCluster};
use model::Lane;
use ports::Clusters;
use sandbox::Credential;
use serde_json::Value;

use super::{names::LEASE_NAMESPACE, ports::Connected};

/// Identities of functions in the cluster, and objects that exist besides Karpenter's CRDs.
#[derive(Default)]
pub(super) struct Identities {
    /// Credentials by lane; other lanes are the cluster's administrator.
    pub(super) of_lanes: BTreeMap<Lane, Credential>,
    pub(super) manifests: Vec<Value>,
    /// Number of objects of a kind above which these identities cache and watch it; `None` means a page.
    pub(super) cached_above: Option<usize>,
    /// Settings of the registry entry.
    pub(super) settings: serde_json::Map<String, Value>,
}

impl Identities {
    /// Connections of the lanes that have an identity; `client_of` returns the client of a token.
    pub(super) fn clusters(
        &self,
        client_of: impl Fn(&str) -> Result<k8s::Client, ConnectError>,
    ) -> Result<BTreeMap<Lane, Arc<dyn Clusters>>, ConnectError> {
        let mut clusters: BTreeMap<Lane, Arc<dyn Clusters>> = BTreeMap::new();
        for (lane, credential) in &self.of_lanes {
            let mut cluster = KubeCluster::new(client_of(&credential.token)?, LEASE_NAMESPACE);
            if let Some(objects) = self.cached_above {
                cluster = cluster.caching_above(objects);
            }
            clusters.insert(*lane, Arc::new(Connected(Arc::new(cluster))));
        }
        Ok(clusters)
    }
}
