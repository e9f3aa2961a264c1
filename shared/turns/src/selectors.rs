//! What default spread constraints take their selectors from: read only where a cluster's settings have such constraints
//! (docs/spec/v1.15.md#default-spread-selector).

use model::{Lane, snapshot::Settings};
use ports::{Cluster, ClusterError, cluster::PodSelectors};

use crate::lane::Turn;

/// The selectors, and why there are none where they may not be read.
pub type Seen = (PodSelectors, Option<String>);

/// What a turn reads of it.
pub(crate) async fn observe(turn: &Turn<'_>) -> Result<Seen, ClusterError> {
    match turn.lane {
        Lane::Provisioner | Lane::Disruption => read(&*turn.api, &turn.entry.settings).await,
        // Nobody places pods there.
        Lane::Lifecycle | Lane::Terminator | Lane::Interruption | Lane::Housekeeper => {
            Ok(Seen::default())
        }
    }
}

/// Reads Services and what owns pods, if the settings have default spread constraints. What may not be read counts as not there, as
/// upstream: pods are planned without defaults, and that is told.
///
/// # Errors
///
/// The API server's, but for refusals.
pub async fn read(api: &dyn Cluster, settings: &Settings) -> Result<Seen, ClusterError> {
    if settings.default_topology_spread.is_empty() {
        return Ok(Seen::default());
    }
    match api.pod_selectors().await {
        Ok(selectors) => Ok((selectors, None)),
        Err(error @ (ClusterError::Denied { .. } | ClusterError::KindMissing { .. })) => {
            let complaint = format!("default spread constraints are not applied: {error}");
            Ok((PodSelectors::default(), Some(complaint)))
        }
        Err(error) => Err(error),
    }
}
