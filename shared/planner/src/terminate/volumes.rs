//! Waiting for volumes to be detached, so that they can be attached elsewhere (spec/lifecycle §8.3).

use std::collections::BTreeSet;

use api::conditions::{ConditionSet, types::VOLUMES_DETACHED};
use jiff::Timestamp;
use model::{
    Snapshot,
    node::Node,
    pod::{Pod, PodVolume},
};

use crate::{decision::Note, pods::is_drainable};

/// So many attachments are named in an event.
const NAMED_MAX: usize = 5;

pub(super) enum Volumes {
    Detached,
    Awaited(Vec<String>),
    GivenUp,
}

impl Volumes {
    pub(super) fn are_awaited(&self) -> bool {
        matches!(self, Self::Awaited(_))
    }

    /// Names the first of what is waited for.
    pub(super) fn note(&self, node: &Node) -> Option<Note> {
        let Self::Awaited(names) = self else {
            return None;
        };
        let shown: Vec<&str> = names.iter().map(String::as_str).take(NAMED_MAX).collect();
        let more = match names.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "Awaiting deletion of bound volumeattachments ({}{more})",
            shown.join(", ")
        );
        Some(Note::normal(node, "AwaitingVolumeDetachment", message))
    }

    pub(super) fn write(&self, conditions: &mut ConditionSet<'_>) {
        match self {
            Self::Detached => conditions.set_true(VOLUMES_DETACHED),
            Self::Awaited(names) => {
                conditions.set_unknown(
                    VOLUMES_DETACHED,
                    "AwaitingVolumeDetachment",
                    &names.join(", "),
                );
            }
            Self::GivenUp => {
                conditions.set_false(
                    VOLUMES_DETACHED,
                    "TerminationGracePeriodElapsed",
                    "TerminationGracePeriodElapsed",
                );
            }
        }
    }
}

pub(super) fn judge(
    snapshot: &Snapshot,
    node: &Node,
    pods: &[&Pod],
    deadline: Option<Timestamp>,
) -> Volumes {
    let kept = volumes_of_staying_pods(snapshot, pods);
    let pending: Vec<String> = snapshot
        .storage
        .attachments
        .iter()
        .filter(|attachment| attachment.node == node.name)
        .filter(|attachment| {
            attachment
                .volume
                .as_deref()
                .is_some_and(|volume| !kept.contains(volume))
        })
        .map(|attachment| attachment.name.clone())
        .collect();
    if pending.is_empty() {
        Volumes::Detached
    } else if deadline.is_some_and(|deadline| snapshot.now > deadline) {
        Volumes::GivenUp
    } else {
        Volumes::Awaited(pending)
    }
}

/// Volumes of pods that stay until the end are never detached before it.
fn volumes_of_staying_pods<'a>(snapshot: &'a Snapshot, pods: &[&Pod]) -> BTreeSet<&'a str> {
    let staying = pods.iter().filter(|pod| !is_drainable(pod, snapshot.now));
    let claims: BTreeSet<(&str, String)> = staying
        .flat_map(|pod| {
            pod.volumes
                .iter()
                .map(|volume| (pod.key.namespace.as_str(), claim_name(pod, volume)))
        })
        .collect();
    if claims.is_empty() {
        return BTreeSet::new();
    }
    snapshot
        .storage
        .claims
        .iter()
        .filter(|claim| claims.contains(&(claim.namespace.as_str(), claim.name.clone())))
        .filter_map(|claim| claim.volume.as_deref())
        .collect()
}

fn claim_name(pod: &Pod, volume: &PodVolume) -> String {
    match volume {
        PodVolume::Claim { claim } => claim.clone(),
        PodVolume::Ephemeral { volume, .. } => format!("{}-{volume}", pod.key.name),
    }
}
