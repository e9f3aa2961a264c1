//! When patience ends: the termination timestamp (spec/lifecycle §8.1, §9.6), or the instance itself, if AWS announced that
//! (spec/aws §20).

use api::{duration::parse_go_duration, names::annotation::TERMINATION_TIMESTAMP};
use jiff::{SignedDuration, Timestamp};
use model::{InstanceId, Snapshot, node_claim::NodeClaim, plan::NodeClaimUpdate};

use crate::{
    by_instance::instance_of,
    decision::{About, Note},
};

/// Until when a node may be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    /// After this everything on the node may be removed by force.
    pub(super) at: Timestamp,
    /// Since when it is known, where AWS announced it; nothing survives it then.
    pub(super) announced: Option<Timestamp>,
}

/// The kubelet's last words take a moment, and EC2 is punctual.
const LAST_WORDS: SignedDuration = SignedDuration::from_secs(5);
/// An instance that is still there so long after it was to go does not go: what was announced says nothing any more.
const OVERDUE: SignedDuration = SignedDuration::from_mins(2);

impl Deadline {
    /// The earlier one of what the NodeClaim allows and what AWS announced; `None` means never.
    pub(super) fn of(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Self> {
        let allowed = allowed(claim).map(|at| Self {
            at,
            announced: None,
        });
        allowed
            .into_iter()
            .chain(of_instance(claim, snapshot))
            .min_by_key(|deadline| deadline.at)
    }
}

fn of_instance(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Deadline> {
    let instance = instance_of(&claim.status.provider_id)?;
    Deadline::announced(&instance, claim.deleted_at, snapshot)
}

impl Deadline {
    /// What AWS announced of an instance, to be heeded since then where the notice does not say since when.
    pub(super) fn announced(
        instance: &InstanceId,
        since: Option<Timestamp>,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let notices = snapshot.notices.iter();
        let own = notices.filter(|notice| !notice.done && notice.instance == *instance);
        let deadlines = own.filter_map(|notice| {
            let deadline = notice.deadline?;
            let overdue = snapshot.now.duration_since(deadline) > OVERDUE;
            (!overdue).then_some(Self {
                at: deadline.checked_sub(LAST_WORDS).ok()?,
                announced: Some(notice.at.or(since)?),
            })
        });
        deadlines.min_by_key(|deadline| deadline.at)
    }
}

fn allowed(claim: &NodeClaim) -> Option<Timestamp> {
    match claim.annotations.get(TERMINATION_TIMESTAMP) {
        // A value that cannot be read forces nothing.
        Some(text) => text.parse().ok(),
        None => computed(claim),
    }
}

/// The annotation, where the NodeClaim asks for one and has none yet; an existing one is never changed, also where it was written
/// since the NodeClaim was read.
pub(super) fn stamp(claim: &NodeClaim) -> Option<(NodeClaimUpdate, Note)> {
    if claim.annotations.contains_key(TERMINATION_TIMESTAMP) {
        return None;
    }
    let at = computed(claim)?;
    let mut update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
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
