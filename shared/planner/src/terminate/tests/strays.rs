//! Nodes without a NodeClaim.

use super::*;

/// Decision about a Node that is being deleted, whose instance may be terminated.
fn decide(ready: ConditionStatus, is_gone: bool, pods: Vec<Pod>) -> Decision {
    let (claim, mut node) = draining();
    node.ready.status = ready;
    let mut snapshot = world((claim, node), pods);
    snapshot.node_claims.clear();
    let of_instance = gone("aws:///us-east-1a/i-default-a");
    terminate(&snapshot, if is_gone { &of_instance } else { &EXISTING })
}

static EXISTING: InstanceStatuses = InstanceStatuses {
    instances: std::collections::BTreeSet::new(),
    ending: std::collections::BTreeSet::new(),
    mismatched: std::collections::BTreeSet::new(),
    misnamed: std::collections::BTreeMap::new(),
    refused: std::collections::BTreeMap::new(),
};

#[test]
fn node_without_a_node_claim_is_drained_and_its_instance_kept() {
    let occupied = decide(ConditionStatus::True, false, vec![pod("web")]);
    assert_eq!(evicted(&occupied), ["web"]);
    assert!(!removes_node_finalizer(&occupied), "{occupied:?}");
    let soon = fixtures::now() + SignedDuration::from_secs(5);
    assert_eq!(occupied.due, Some(soon));
    let empty = decide(ConditionStatus::True, false, Vec::new());
    assert!(
        removes_node_finalizer(&empty) && !terminates(&empty),
        "{empty:?}"
    );
}

#[test]
fn unready_node_of_a_terminated_instance_is_released_undrained() {
    use ConditionStatus::{True, Unknown};
    for (ready, is_gone, undrained) in [
        (Unknown, true, true),
        (Unknown, false, false),
        (True, true, false),
    ] {
        let decision = decide(ready, is_gone, vec![pod("web")]);
        let said = (
            removes_node_finalizer(&decision),
            evicted(&decision).is_empty(),
        );
        assert_eq!(said, (undrained, undrained), "{ready:?} {is_gone}");
    }
}
