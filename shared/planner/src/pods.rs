//! Pod predicates: which pods keep a node, delay its drain, or may be evicted (docs/spec/lifecycle.md#pod-predicates).

use jiff::{SignedDuration, Timestamp};
use model::{
    pod::Pod,
    taint::{Taint, TaintEffect},
};

use crate::{
    inventory::{is_daemon, is_terminal},
    provision::movable::is_static,
};

/// Time after its deletion deadline from which a stuck pod no longer delays a drain.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Whether the pod needs another place if its node is removed.
pub fn is_reschedulable(pod: &Pod) -> bool {
    let stays_by_name = pod
        .owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "StatefulSet");
    let active = !is_terminal(pod) && pod.deletion.is_none();
    (active || stays_by_name && pod.deletion.is_some()) && !is_daemon(pod) && !is_static(pod)
}

/// Whether the pod must be gone before the node's instance is terminated.
pub(crate) fn is_awaited(pod: &Pod, now: Timestamp) -> bool {
    !is_terminal(pod) && is_drainable(pod, now)
}

/// Whether a drain evicts or deletes the pod.
pub(crate) fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let stuck = pod
        .deletion
        .as_ref()
        .is_some_and(|deletion| now.duration_since(deletion.at) > STUCK_AFTER);
    !stuck && !is_static(pod) && !tolerates_disruption(pod)
}

pub(crate) fn tolerates_disruption(pod: &Pod) -> bool {
    pod.tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&disrupted_taint()))
}

pub(crate) fn disrupted_taint() -> Taint {
    Taint {
        key: api::names::taint::DISRUPTED.to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    }
}

#[cfg(test)]
mod tests {
    use model::pod::Deletion;

    use super::*;
    use crate::fixtures::{now, pod};

    #[test]
    fn stuck_pod_delays_its_node_for_a_minute() {
        for (millis, is_awaited) in [(60_000, true), (60_001, false)] {
            let mut leaving = pod("web", "n");
            leaving.deletion = Some(Deletion {
                at: now() - SignedDuration::from_millis(millis),
                grace_seconds: 30,
            });
            assert_eq!(
                super::is_awaited(&leaving, now()),
                is_awaited,
                "{millis} ms"
            );
        }
    }
}
