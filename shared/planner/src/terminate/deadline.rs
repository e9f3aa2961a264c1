//! Deadline of a drain: the termination timestamp (docs/spec/lifecycle.md#node-claim-finalization,
//! docs/spec/lifecycle.md#termination-grace-period), the drain bound of a repair, or the announced end of the instance
//! (docs/spec/aws.md#interruptions).

use api::{duration::parse_go_duration, names::annotation::TERMINATION_TIMESTAMP};
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceId, Snapshot, ledger::CommandState, node_claim::NodeClaim, plan::NodeClaimUpdate,
};

use super::reboot;
use crate::{
    by_instance::instance_of,
    decision::{About, Note},
};

/// Time until which a node may be drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    /// Time after which everything on the node may be deleted by force.
    pub(super) at: Timestamp,
    /// Time of the announcement, if AWS announced the end of the instance: nothing on it outlives the deadline.
    pub(super) announced: Option<Timestamp>,
}

/// Margin before the announced end, in which the kubelet still reports terminated pods. EC2 is punctual.
const KUBELET_MARGIN: SignedDuration = SignedDuration::from_secs(5);
/// Time after an announced end at which the notice is ignored, because the instance evidently continues.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(2);

impl Deadline {
    /// Earlier of the NodeClaim's deadline and the announced one; `None` without any deadline.
    pub(super) fn for_claim(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Self> {
        let allowed = claim_deadline(claim, snapshot).map(|at| Self {
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
    /// Announced end of an instance; `since` is the time of the announcement if the notice has none.
    pub(super) fn announced(
        instance: &InstanceId,
        since: Option<Timestamp>,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let notices = snapshot.notices.iter();
        let own = notices.filter(|notice| !notice.done && notice.instance == *instance);
        let deadlines = own.filter_map(|notice| {
            let deadline = notice.deadline?;
            let overdue = snapshot.now.duration_since(deadline) > OVERDUE_AFTER;
            (!overdue).then_some(Self {
                at: deadline.checked_sub(KUBELET_MARGIN).ok()?,
                announced: Some(notice.at.or(since)?),
            })
        });
        deadlines.min_by_key(|deadline| deadline.at)
    }
}

fn claim_deadline(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Timestamp> {
    let written = claim.annotations.get(TERMINATION_TIMESTAMP);
    // An annotation that does not parse sets no deadline.
    let written = written.map(|text| text.parse::<Timestamp>().ok());
    let bound = bound_of_repair(claim, snapshot);
    match (written, bound) {
        (Some(Some(at)), Some(bound)) => Some(at.min(bound)),
        (Some(at), bound) => at.or(bound),
        (None, bound) => [computed(claim), bound].into_iter().flatten().min(),
    }
}

/// Update that writes the termination timestamp, if the NodeClaim or the repair of its node has a deadline. An existing
/// timestamp is only moved forward, and the update requires the resource version that was read.
pub(super) fn timestamp_update(
    claim: &NodeClaim,
    snapshot: &Snapshot,
) -> Option<(NodeClaimUpdate, Note)> {
    if claim.annotations.contains_key(TERMINATION_TIMESTAMP)
        && bound_of_repair(claim, snapshot).is_none()
    {
        return None;
    }
    let at = claim_deadline(claim, snapshot)?;
    let text = format!("{at:.0}");
    if claim.annotations.get(TERMINATION_TIMESTAMP) == Some(&text) {
        return None;
    }
    let mut update = NodeClaimUpdate {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
        ..NodeClaimUpdate::default()
    };
    update
        .set_annotations
        .insert(TERMINATION_TIMESTAMP.to_owned(), text);
    Some((update, expiring_note(claim, at)))
}

/// Event about the time at which remaining pods are deleted.
pub(super) fn expiring_note<'a, T>(object: &'a T, at: Timestamp) -> Note
where
    About: From<&'a T>,
{
    Note::warning(
        object,
        "TerminationGracePeriodExpiring",
        format!("All pods will be deleted by {at:.0}"),
    )
}

/// Time after which pods of a node under repair may be deleted by force, from the command in the ledger or from the failed
/// reboot. Both outlive the deletion of the NodeClaim.
fn bound_of_repair(claim: &NodeClaim, snapshot: &Snapshot) -> Option<Timestamp> {
    let commands = snapshot.commands.iter();
    let mut own = commands.filter(|command| {
        matches!(command.state, CommandState::Deleting | CommandState::Done)
            && command.delete.iter().any(|target| target.uid == claim.uid)
    });
    let repair = own.find_map(|command| command.choice.as_ref()?.repair.as_ref());
    let of_repair = repair.and_then(|repair| repair.drain_bound);
    let of_repair = of_repair.and_then(|bound| claim.deleted_at?.checked_add(bound).ok());
    of_repair.into_iter().chain(reboot::deadline(claim)).min()
}

fn computed(claim: &NodeClaim) -> Option<Timestamp> {
    let period = parse_go_duration(claim.spec.termination_grace_period.as_deref()?)?;
    claim.deleted_at?.checked_add(period).ok()
}
