//! Pods of nodes that are being deleted which need another node (docs/spec/scheduling.md#pods-of-deleting-nodes).

use jiff::Timestamp;
use model::pod::Pod;

use crate::{do_not_disrupt::must_not_be_disrupted, pdb_limits::PdbLimits, pods::is_reschedulable};

/// Whether the pod needs another place if its node is deleted now (docs/spec/lifecycle.md#pod-predicates, currently
/// reschedulable).
pub(crate) fn is_movable<'a>(pod: &'a Pod, pdb_limits: &PdbLimits<'a>, now: Timestamp) -> bool {
    is_reschedulable(pod)
        && !must_not_be_disrupted(pod, now)
        && !pdb_limits.never_allows_eviction(pod)
}

pub(crate) fn is_static(pod: &Pod) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "Node" && owner.api_version == "v1")
}

#[cfg(test)]
mod tests {
    use model::pod::Owner;

    use super::*;

    #[test]
    fn pod_owned_by_a_node_is_static() {
        for (api_version, kind, expected) in [
            ("v1", "Node", true),
            ("example.com/v1", "Node", false),
            ("v1", "ReplicationController", false),
        ] {
            let mut pod = Pod::default();
            assert!(!is_static(&pod));
            pod.owner = Some(Owner {
                api_version: api_version.into(),
                kind: kind.into(),
                name: "owner".into(),
                uid: "owner".into(),
            });
            assert_eq!(is_static(&pod), expected, "{api_version} {kind}");
        }
    }
}
