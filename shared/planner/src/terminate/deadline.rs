//! When patience ends: the termination timestamp (spec/lifecycle §8.1, §9.6).

use api::{duration::parse_go_duration, names::annotation::TERMINATION_TIMESTAMP};
use jiff::Timestamp;
use model::{node_claim::NodeClaim, plan::NodeClaimUpdate};

use crate::decision::{About, Note};

/// After this everything on the node may be removed by force; `None` means never.
pub(super) fn deadline(claim: Option<&NodeClaim>) -> Option<Timestamp> {
    let claim = claim?;
    match claim.annotations.get(TERMINATION_TIMESTAMP) {
        // A value that cannot be read forces nothing.
        Some(text) => text.parse().ok(),
        None => computed(claim),
    }
}

/// The annotation, where the NodeClaim asks for one and has none yet; an existing one is never changed.
pub(super) fn stamp(claim: &NodeClaim) -> Option<(NodeClaimUpdate, Note)> {
    if claim.annotations.contains_key(TERMINATION_TIMESTAMP) {
        return None;
    }
    let at = computed(claim)?;
    let mut update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        ..NodeClaimUpdate::default()
    };
    update
        .set_annotations
        .insert(TERMINATION_TIMESTAMP.to_owned(), format!("{at:.0}"));
    Some((update, expiring(claim, at)))
}

/// Tells whoever looks at the object until when its pods may take their time.
pub(super) fn expiring<'a, T>(object: &'a T, at: Timestamp) -> Note
where
    About: From<&'a T>,
{
    Note::warning(
        object,
        "TerminationGracePeriodExpiring",
        format!("All pods will be deleted by {at:.0}"),
    )
}

fn computed(claim: &NodeClaim) -> Option<Timestamp> {
    let period = parse_go_duration(claim.spec.termination_grace_period.as_deref()?)?;
    claim.deleted_at?.checked_add(period).ok()
}
