use model::{InstanceId, node_claim::NodeClaim};
use ports::cluster::EventTarget;

/// Instance id of a NodeClaim, from a provider id such as `aws:///zone/i-…`.
pub(crate) fn instance_of(claim: &NodeClaim) -> Option<InstanceId> {
    let (_, id) = claim.status.provider_id.rsplit_once('/')?;
    id.starts_with("i-").then(|| id.into())
}

/// The NodeClaim as the subject of events.
pub(crate) fn target_of(claim: &NodeClaim) -> EventTarget {
    EventTarget::NodeClaim(claim.name.clone(), claim.uid.clone())
}
