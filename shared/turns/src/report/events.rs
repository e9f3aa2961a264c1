//! Events on users' objects.

mod post;

use api::EC2NodeClass;
use jiff::Timestamp;
use model::{Plan, Warning, node_claim::NodeClaim, node_pool::NodePool, plan::Expected};
use planner::{About, Note};
use ports::cluster::{Event, EventKind, EventTarget, Unreadable};

pub(crate) use self::post::{post, post_once};
use super::transitions::Transition;
use crate::settings::{interruption_annotations, shadow_mode};

pub(crate) const PRICES_NOT_CURRENT: &str = "PricesNotCurrent";
pub(crate) const OLD_VERSION: &str = "OldVersion";
const UNREADABLE: &str = "Unreadable";
const NO_TYPES: &str = "NoCompatibleInstanceTypes";
const INVALID_ANNOTATION: &str = "InvalidAnnotation";
/// Event reason: a plan is above a limit and waits for a person.
pub(crate) const APPROVAL_REQUIRED: &str = "ApprovalRequired";
/// Reason of events about an instance that EC2 refuses to terminate.
pub(crate) const TERMINATION_REFUSED: &str = "TerminationRefused";
/// Event reason: nodes exceed a cap of their NodePool, cluster or account.
pub(crate) const CAP_EXCEEDED: &str = "CapExceeded";

/// Events about where pods are expected, and why others have no place.
pub(crate) fn of_plan(plan: &Plan, pools: &[NodePool], now: Timestamp) -> Vec<Event> {
    let pools_without_types = plan.pools_without_types.iter().filter_map(|(name, why)| {
        let pool = pools.iter().find(|pool| pool.name == *name)?;
        Some(Event {
            about: EventTarget::NodePool(name.clone(), pool.uid.clone()),
            kind: EventKind::Warning,
            reason: NO_TYPES.into(),
            message: why.clone(),
            at: now,
        })
    });
    let nominated = plan.nominations.iter().map(|nomination| Event {
        about: EventTarget::Pod(nomination.pod.key.clone(), nomination.pod.uid.clone()),
        kind: EventKind::Normal,
        reason: "Nominated".into(),
        message: match &nomination.node {
            Expected::Node(name) => format!("Pod should schedule on: node/{name}"),
            Expected::NodeClaim(name) => format!("Pod should schedule on: nodeclaim/{name}"),
        },
        at: now,
    });
    let unplaced = plan.unplaced.iter().map(|unplaced| Event {
        about: EventTarget::Pod(unplaced.pod.key.clone(), unplaced.pod.uid.clone()),
        kind: EventKind::Warning,
        reason: "FailedScheduling".into(),
        message: format!("Failed to schedule pod, {}", reasons(unplaced)),
        at: now,
    });
    pools_without_types
        .chain(unplaced)
        .chain(nominated)
        .collect()
}

/// Events for the notes of a decision.
pub(crate) fn of_notes(notes: &[Note], now: Timestamp) -> Vec<Event> {
    let event = |note: &Note| Event {
        about: match &note.about {
            About::Node(name, uid) => EventTarget::Node(name.clone(), uid.clone()),
            About::NodeClaim(name, uid) => EventTarget::NodeClaim(name.clone(), uid.clone()),
            About::Pod(key, uid) => EventTarget::Pod(key.clone(), uid.clone()),
            About::NodePool(name, uid) => EventTarget::NodePool(name.clone(), uid.clone()),
        },
        kind: if note.warning {
            EventKind::Warning
        } else {
            EventKind::Normal
        },
        reason: note.reason.to_owned(),
        message: note.message.clone(),
        at: now,
    };
    notes.iter().map(event).collect()
}

/// Event on an EC2NodeClass for a warning that no condition shows.
pub(crate) fn of_node_class(class: &EC2NodeClass, warning: Warning, now: Timestamp) -> Event {
    let metadata = &class.metadata;
    Event {
        about: EventTarget::NodeClass(metadata.name.clone(), metadata.uid.as_str().into()),
        kind: EventKind::Warning,
        reason: warning.reason.to_owned(),
        message: warning.message,
        at: now,
    }
}

/// Events about invalid values of a NodePool's annotations, in place of which the defaults hold.
pub(crate) fn of_annotations(pool: &api::NodePool, now: Timestamp) -> Vec<Event> {
    let mut warnings = interruption_annotations::annotation_warnings(pool);
    warnings.extend(shadow_mode::mode_warning(pool));
    if warnings.is_empty() {
        return Vec::new();
    }
    let name = pool.metadata.name.as_str().into();
    vec![Event {
        about: EventTarget::NodePool(name, pool.metadata.uid.as_str().into()),
        kind: EventKind::Warning,
        reason: INVALID_ANNOTATION.into(),
        message: warnings.join("; "),
        at: now,
    }]
}

/// Warning about an object that was applied in an API version from before v1, if it was (docs/spec/migrate.md#v1beta1).
pub(crate) fn of_old_version(
    about: EventTarget,
    metadata: &api::ObjectMeta,
    now: Timestamp,
) -> Option<Event> {
    let version = api::old_version::applied_as(metadata)?;
    Some(Event {
        about,
        kind: EventKind::Warning,
        reason: OLD_VERSION.into(),
        message: format!(
            "it was applied as {version}, and fields of that version have another meaning or none in v1: run `whittle convert -f <manifest>` and apply its output"
        ),
        at: now,
    })
}

/// Warning about a NodePool that is stored in a form that v1 does not have, such as one from before v1 whose CRD was replaced:
/// it is ignored.
pub(crate) fn of_unreadable_pool(pool: &Unreadable, now: Timestamp) -> Event {
    Event {
        about: EventTarget::NodePool(pool.name.as_str().into(), pool.uid.clone()),
        kind: EventKind::Warning,
        reason: UNREADABLE.into(),
        message: format!(
            "it is ignored, because it cannot be read as karpenter.sh/v1: {}: if it was written for an earlier version, run `whittle convert -f <manifest>` and apply its output",
            pool.message
        ),
        at: now,
    }
}

/// Events about the changed conditions of a NodeClaim.
pub(crate) fn of_transitions(
    claim: &NodeClaim,
    transitions: &[Transition<'_>],
    now: Timestamp,
) -> Vec<Event> {
    let about = EventTarget::NodeClaim(claim.name.clone(), claim.uid.clone());
    let events = transitions.iter().map(|Transition { before, after }| {
        let statuses = (format!("{before:?}"), format!("{:?}", after.status));
        let why = (after.reason.as_str(), after.message.as_str());
        transitioned(about.clone(), &after.kind, statuses, why, now)
    });
    events.collect()
}

/// Events about the conditions that differ between two statuses of an object.
pub(crate) fn of_conditions(
    about: &EventTarget,
    before: &[api::Condition],
    after: &[api::Condition],
    now: Timestamp,
) -> Vec<Event> {
    let changed = after.iter().filter_map(|after| {
        let mut known = before
            .iter()
            .filter(|condition| condition.r#type == after.r#type);
        let before = known
            .next()
            .map_or(&api::ConditionStatus::Unknown, |condition| {
                &condition.status
            });
        if *before == after.status {
            return None;
        }
        let statuses = (before.to_string(), after.status.to_string());
        let why = (after.reason.as_str(), after.message.as_str());
        let about = about.clone();
        Some(transitioned(about, &after.r#type, statuses, why, now))
    });
    changed.collect()
}

fn transitioned(
    about: EventTarget,
    kind: &str,
    (before, after): (String, String),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Event {
    let mut text = format!(
        "Status condition transitioned, Type: {kind}, Status: {before} -> {after}, Reason: {reason}"
    );
    if !message.is_empty() {
        text.push_str(", Message: ");
        text.push_str(message);
    }
    Event {
        about,
        kind: EventKind::Normal,
        reason: kind.to_owned(),
        message: text,
        at: now,
    }
}

/// Event about an object whose finalizer was removed.
pub(crate) fn of_end(about: EventTarget, name: &str, now: Timestamp) -> Event {
    Event {
        about,
        kind: EventKind::Normal,
        reason: "Finalized".into(),
        message: format!("Finalized {name}"),
        at: now,
    }
}

/// Reasons why a pod has no place, as one text.
pub(crate) fn reasons(unplaced: &model::plan::Unplaced) -> String {
    let reasons: Vec<String> = unplaced
        .reasons
        .iter()
        .map(|refusal| match &refusal.node_pool {
            Some(pool) => format!("NodePool \"{pool}\": {}", refusal.text),
            None => refusal.text.clone(),
        })
        .collect();
    reasons.join("; ")
}
