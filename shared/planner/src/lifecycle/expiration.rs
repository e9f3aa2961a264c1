//! NodeClaims have an age at which they go, whatever runs on them (spec/lifecycle §10).

use api::duration::parse_go_duration;
use jiff::Timestamp;
use model::node_claim::NodeClaim;

/// When the NodeClaim expires, by its own spec: what its NodePool says now concerns new ones only. `Never` does not parse.
pub(crate) fn at(claim: &NodeClaim) -> Option<Timestamp> {
    let age = parse_go_duration(claim.spec.expire_after.as_deref()?)?;
    claim.created_at?.checked_add(age).ok()
}
