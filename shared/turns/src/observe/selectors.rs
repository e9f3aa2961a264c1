//! Objects whose selectors default spread constraints use: read only if a cluster's settings have such constraints
//! (docs/spec/v1.15.md#default-spread-selector).

use model::{Lane, snapshot::Settings};
use ports::{Cluster, ClusterError, cluster::PodSelectors};

use crate::context::Turn;

/// The selectors, or the reason why they cannot be read.
pub type ReadSelectors = (PodSelectors, Option<String>);

/// Reads the selectors that a turn needs.
pub(crate) async fn observe(turn: &Turn<'_>) -> Result<ReadSelectors, ClusterError> {
    match turn.lane {
        Lane::Provisioner | Lane::Disruption => read(&*turn.api, &turn.entry.settings).await,
        // These lanes schedule no pods.
        Lane::Lifecycle | Lane::Terminator | Lane::Interruption | Lane::Housekeeper => {
            Ok(ReadSelectors::default())
        }
    }
}

/// Reads Services and the owners of pods, if the settings have default spread constraints. Objects that may not be read count
/// as absent, as in Karpenter: pods are planned without defaults, and the reason is returned.
///
/// # Errors
///
/// Errors of the API server other than refusals.
pub async fn read(api: &dyn Cluster, settings: &Settings) -> Result<ReadSelectors, ClusterError> {
    if settings.default_topology_spread.is_empty() {
        return Ok(ReadSelectors::default());
    }
    match api.pod_selectors().await {
        Ok(selectors) => Ok((selectors, None)),
        Err(error @ (ClusterError::Denied { .. } | ClusterError::KindMissing { .. })) => {
            let warning = format!("default spread constraints are not applied: {error}");
            Ok((PodSelectors::default(), Some(warning)))
        }
        Err(error) => Err(error),
    }
}
