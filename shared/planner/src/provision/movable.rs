//! Pods on machines that go away: which of them need another place (spec/scheduling §11.3).

use jiff::{SignedDuration, Timestamp};
use model::pod::{Pod, PodPhase};

use crate::{guards::Guards, pods::is_reschedulable};

/// Whether the pod needs another place when its node goes now (spec/lifecycle §9.2, currently reschedulable).
pub(crate) fn is_movable<'a>(pod: &'a Pod, guards: &Guards<'a>, now: Timestamp) -> bool {
    is_reschedulable(pod) && !must_not_be_disrupted(pod, now) && !guards.never_allow(pod)
}

pub(crate) fn is_static(pod: &Pod) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "Node" && owner.api_version == "v1")
}

/// `true` always holds, a duration holds for that long after the pod's start; anything else says nothing.
pub(crate) fn must_not_be_disrupted(pod: &Pod, now: Timestamp) -> bool {
    let active = !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed);
    let annotation = pod.annotations.get(api::names::annotation::DO_NOT_DISRUPT);
    let Some(text) = annotation.filter(|_| active && pod.deletion.is_none()) else {
        return false;
    };
    if text == "true" {
        return true;
    }
    api::duration::parse_go_duration(text)
        .filter(|duration| *duration > SignedDuration::ZERO)
        .is_some_and(|duration| {
            pod.started_at
                .is_none_or(|start| now.duration_since(start) < duration)
        })
}
