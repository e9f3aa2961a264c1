//! Devices and resource claims, read only if claims count and a waiting object depends on them (docs/spec/v1.15.md#dra).

use api::{conditions::types::INITIALIZED, names::annotation::REQUESTED_DRA_DRIVERS};
use model::{Lane, Snapshot, devices::DeviceObjects, node_claim::NodeClaim, pod::Pod};
use ports::{Cluster, ClusterError};

use crate::context::Turn;

/// Adds the device objects that a turn needs to a snapshot. Returns why claims do not count although the settings enable them.
pub(crate) async fn observe(
    turn: &Turn<'_>,
    snapshot: &mut Snapshot,
) -> Result<Option<String>, ClusterError> {
    if !snapshot.settings.device_claims {
        return Ok(None);
    }
    let has_claims = |pod: &Pod| pod.resource_claims;
    let is_wanted = match turn.lane {
        // Running pods matter where one of them may have to leave.
        Lane::Provisioner => {
            let leaves = planner::any_leaves(snapshot);
            let mut pods = snapshot.pods.iter();
            pods.any(|pod| has_claims(pod) && (leaves || pod.node_name.is_none()))
                || snapshot.capacity_buffers.iter().any(|buffer| {
                    let pod = buffer.pod.as_deref();
                    pod.is_some_and(has_claims)
                })
        }
        Lane::Disruption => snapshot.pods.iter().any(has_claims),
        Lane::Lifecycle => return published(turn, snapshot).await,
        Lane::Terminator | Lane::Interruption | Lane::Housekeeper => false,
    };
    match is_wanted {
        true => read(&*turn.api, snapshot).await,
        false => Ok(None),
    }
}

/// Reads ResourceSlices where a node waits for its drivers to publish them before it counts as initialized. Where they may not
/// be read or are not served, such nodes keep waiting, and the reason is returned.
async fn published(
    turn: &Turn<'_>,
    snapshot: &mut Snapshot,
) -> Result<Option<String>, ClusterError> {
    let waits = |claim: &NodeClaim| {
        claim.annotations.contains_key(REQUESTED_DRA_DRIVERS) && !claim.is_true(INITIALIZED)
    };
    if !snapshot.node_claims.iter().any(waits) {
        return Ok(None);
    }
    match turn.api.resource_slices().await {
        Ok(slices) => {
            snapshot.devices.slices = slices;
            Ok(None)
        }
        Err(error @ (ClusterError::Denied { .. } | ClusterError::KindMissing { .. })) => {
            Ok(Some(format!(
                "nodes whose devices are claimed are not initialized, because ResourceSlices cannot be read: {error}"
            )))
        }
        Err(error) => Err(error),
    }
}

/// Reads all device objects. If they may not be read or are not served, claims do not count, and the reason is returned.
///
/// # Errors
///
/// Errors of the API server other than refusals.
pub async fn read(
    api: &dyn Cluster,
    snapshot: &mut Snapshot,
) -> Result<Option<String>, ClusterError> {
    match api.device_objects().await {
        Ok(objects) => {
            snapshot.devices = objects;
            Ok(None)
        }
        Err(error @ (ClusterError::Denied { .. } | ClusterError::KindMissing { .. })) => {
            snapshot.devices = DeviceObjects::default();
            snapshot.settings.device_claims = false;
            Ok(Some(format!(
                "resource claims of pods are ignored: {error}"
            )))
        }
        Err(error) => Err(error),
    }
}
