//! Waits for volumes to be detached, so that other nodes can attach them (docs/spec/lifecycle.md#volume-detachment).

use std::collections::BTreeSet;

use api::conditions::{ConditionSet, types::VOLUMES_DETACHED};
use jiff::Timestamp;
use model::{
    Snapshot,
    node::Node,
    pod::{Pod, PodVolume},
};

use crate::{decision::Note, pods::is_drainable};

/// Most VolumeAttachments that an event names.
const NAMED_MAX: usize = 5;

/// Whether a drain waits for volumes.
pub(super) enum Volumes {
    Detached,
    Awaited(Vec<String>),
    GivenUp,
}

impl Volumes {
    pub(super) fn are_awaited(&self) -> bool {
        matches!(self, Self::Awaited(_))
    }

    /// Event that names the first VolumeAttachments waited for.
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

/// Volumes of pods that stay until the instance ends, and are not detached before.
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

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use model::{
        pod::Owner,
        volume::{Attachment, VolumeClaim},
    };

    use super::*;
    use crate::fixtures::{self, now};

    /// Judges a node with two volumes, the second of which belongs to a pod that stays.
    fn awaited(volume: PodVolume, claim: &str, deadline: Option<i64>) -> Volumes {
        let mut snapshot = fixtures::snapshot();
        let node = fixtures::node("n", &fixtures::claim("a", &[]));
        for name in ["one", "two"] {
            snapshot.storage.attachments.push(Attachment {
                name: format!("attached-{name}"),
                node: "n".into(),
                volume: Some(format!("pv-{name}")),
                ..Attachment::default()
            });
        }
        snapshot.storage.claims = vec![VolumeClaim {
            namespace: "default".into(),
            name: claim.to_owned(),
            volume: Some("pv-two".into()),
            ..VolumeClaim::default()
        }];
        let mut staying = fixtures::pod("staying", "n");
        staying.volumes = vec![volume];
        staying.owner = Some(Owner {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: "n".into(),
            uid: "n".into(),
        });
        let deadline = deadline.map(|seconds| now() + SignedDuration::from_secs(seconds));
        judge(&snapshot, &node, &[&staying], deadline)
    }

    fn names(volumes: &Volumes) -> String {
        match volumes {
            Volumes::Detached => "detached".to_owned(),
            Volumes::Awaited(names) => names.join(", "),
            Volumes::GivenUp => "given up".to_owned(),
        }
    }

    #[test]
    fn volumes_of_staying_pods_are_not_waited_for() {
        let claimed = || PodVolume::Claim {
            claim: "data".into(),
        };
        assert_eq!(names(&awaited(claimed(), "data", None)), "attached-one");
        let both = "attached-one, attached-two";
        assert_eq!(names(&awaited(claimed(), "other", None)), both);
        let ephemeral = PodVolume::Ephemeral {
            volume: "scratch".into(),
            storage_class: None,
        };
        let of_pod = awaited(ephemeral, "staying-scratch", None);
        assert_eq!(names(&of_pod), "attached-one");
    }

    #[test]
    fn volumes_are_not_waited_for_after_the_deadline() {
        let claimed = || PodVolume::Claim {
            claim: "data".into(),
        };
        let of = |deadline| names(&awaited(claimed(), "data", Some(deadline)));
        assert_eq!(
            (of(1).as_str(), of(0).as_str()),
            ("attached-one", "attached-one")
        );
        assert_eq!(of(-1), "given up");
    }

    #[test]
    fn event_names_the_first_volume_attachments() {
        let node = fixtures::node("n", &fixtures::claim("a", &[]));
        let many = (0..NAMED_MAX + 2).map(|at| format!("v{at}"));
        let note = Volumes::Awaited(many.collect()).note(&node).unwrap();
        assert!(note.message.ends_with(" and 2 more)"), "{}", note.message);
        let note = Volumes::Awaited(vec!["v".into()]).note(&node).unwrap();
        assert!(note.message.ends_with("(v)"), "{}", note.message);
        assert_eq!(Volumes::GivenUp.note(&node), None);
    }
}
