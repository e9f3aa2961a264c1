//! Each test compares two versions of an object and names the changes.

use serde_json::{Value, json};

use super::capacity::{CsiNode, DaemonSet};
use super::node::Node;
use super::node_claim::NodeClaim;
use super::node_class::NodeClass;
use super::node_pool::NodePool;
use super::pod::Pod;
use super::pod_disruption_budget::PodDisruptionBudget;
use super::volume_attachment::VolumeAttachment;
use super::*;

fn digest<T: WatchedObject>(object: Value) -> Digest {
    serde_json::from_value::<T>(object).unwrap().digest()
}

fn changes<T: WatchedObject>(
    old: impl Into<Option<Value>>,
    new: impl Into<Option<Value>>,
) -> Vec<ChangeKind> {
    differences(
        old.into().map(digest::<T>).as_ref(),
        new.into().map(digest::<T>).as_ref(),
    )
}

/// Replaces or adds the value at a JSON pointer of `object`.
fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[key] = value;
    object
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "web-0", "namespace": "default", "uid": "u1", "labels": {"app": "web"}, "annotations": {}},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
        "status": {"phase": "Pending"},
    })
}

fn unschedulable(pod: Value) -> Value {
    let condition = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]);
    with(pod, "/status/conditions", condition)
}

fn bound() -> Value {
    with(pod(), "/spec/nodeName", json!("ip-10-0-0-1"))
}

fn ready() -> Value {
    with(
        bound(),
        "/status/conditions",
        json!([{"type": "Ready", "status": "True"}]),
    )
}

fn owned(pod: Value, api_version: &str, kind: &str) -> Value {
    with(
        pod,
        "/metadata/ownerReferences",
        json!([{"apiVersion": api_version, "kind": kind, "name": "owner"}]),
    )
}

#[test]
fn pod_is_reported_when_it_becomes_unschedulable() {
    assert_eq!(changes::<Pod>(None, pod()), []);
    assert_eq!(
        changes::<Pod>(None, unschedulable(pod())),
        [ChangeKind::PodUnschedulable]
    );
    assert_eq!(
        changes::<Pod>(pod(), unschedulable(pod())),
        [ChangeKind::PodUnschedulable]
    );
}

#[test]
fn new_scheduler_message_is_no_change() {
    let again = with(
        unschedulable(pod()),
        "/status/conditions/0/message",
        json!("0/4 nodes"),
    );
    assert_eq!(changes::<Pod>(unschedulable(pod()), again), []);
}

#[test]
fn changed_or_replaced_unschedulable_pod_is_a_change() {
    let relabeled = with(unschedulable(pod()), "/metadata/labels/zone", json!("b"));
    assert_eq!(
        changes::<Pod>(unschedulable(pod()), relabeled),
        [ChangeKind::PodUnschedulable]
    );
    let replaced = with(unschedulable(pod()), "/metadata/uid", json!("u2"));
    assert_eq!(
        changes::<Pod>(unschedulable(pod()), replaced),
        [ChangeKind::PodUnschedulable]
    );
}

#[test]
fn pods_that_no_node_can_help_are_not_unschedulable() {
    let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
    for pod in [
        with(pod(), "/status/conditions", gated),
        owned(unschedulable(pod()), "apps/v1", "DaemonSet"),
        owned(unschedulable(pod()), "v1", "Node"),
        with(
            unschedulable(pod()),
            "/status/nominatedNodeName",
            json!("ip-10-0-0-1"),
        ),
    ] {
        assert_eq!(changes::<Pod>(None, pod), []);
    }
}

#[test]
fn pod_moves_when_bound_ended_or_deleted() {
    let moved = [ChangeKind::PodMoved { daemon: false }];
    let terminating = with(
        bound(),
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    assert_eq!(changes::<Pod>(unschedulable(pod()), bound()), moved);
    assert_eq!(changes::<Pod>(bound(), terminating.clone()), moved);
    assert_eq!(
        changes::<Pod>(bound(), with(bound(), "/status/phase", json!("Succeeded"))),
        moved
    );
    assert_eq!(changes::<Pod>(terminating, None), moved);
    assert_eq!(changes::<Pod>(pod(), None), [], "it was on no node");
    assert_eq!(
        changes::<Pod>(owned(bound(), "apps/v1", "DaemonSet"), None),
        [ChangeKind::PodMoved { daemon: true }]
    );
}

#[test]
fn phase_and_restarts_of_running_pod_are_no_change() {
    assert_eq!(
        changes::<Pod>(bound(), with(bound(), "/status/phase", json!("Running"))),
        []
    );
}

#[test]
fn readiness_and_do_not_disrupt_of_bound_pod_are_changes() {
    assert_eq!(changes::<Pod>(bound(), ready()), [ChangeKind::PodReady]);
    assert_eq!(changes::<Pod>(ready(), bound()), [ChangeKind::PodUnready]);
    let mut protected = ready();
    protected["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    assert_eq!(
        changes::<Pod>(protected.clone(), ready()),
        [ChangeKind::PodProtectionChanged]
    );
    assert_eq!(
        changes::<Pod>(ready(), protected),
        [ChangeKind::PodProtectionChanged]
    );
}

fn node() -> Value {
    json!({
        "metadata": {"name": "ip-10-0-0-1", "labels": {"karpenter.sh/nodepool": "default"}, "annotations": {}},
        "spec": {"providerID": "aws:///us-east-1a/i-1", "taints": null},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
            "capacity": {"cpu": "4"}, "allocatable": {"cpu": "3920m"}, "images": [{"names": ["a"]}],
        },
    })
}

fn disrupted(node: Value) -> Value {
    with(
        node,
        "/spec/taints",
        json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
    )
}

fn deleting(object: Value) -> Value {
    with(
        object,
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    )
}

fn unmanaged(node: Value) -> Value {
    with(
        node,
        "/metadata/labels",
        json!({"eks.amazonaws.com/nodegroup": "system"}),
    )
}

#[test]
fn heartbeats_images_and_other_annotations_of_node_are_no_change() {
    let mut later = with(
        node(),
        "/status/conditions/0/lastHeartbeatTime",
        json!("2026-01-01T00:05:00Z"),
    );
    later["status"]["images"] = json!([]);
    later["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"] = json!("x");
    assert_eq!(changes::<Node>(node(), later), []);
}

#[test]
fn fields_that_lanes_read_of_node_are_changes() {
    for (pointer, value) in [
        ("/status/conditions/0/status", json!("Unknown")),
        ("/status/allocatable/cpu", json!("3900m")),
        ("/metadata/labels/zone", json!("b")),
        ("/metadata/finalizers", json!(["karpenter.sh/termination"])),
        ("/spec/unschedulable", json!(true)),
        ("/spec/taints", json!([{"key": "a", "effect": "NoExecute"}])),
    ] {
        assert_eq!(
            changes::<Node>(node(), with(node(), pointer, value)),
            [ChangeKind::NodeChanged],
            "{pointer}"
        );
    }
    let mut protected = node();
    protected["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("true");
    assert_eq!(
        changes::<Node>(node(), protected),
        [ChangeKind::NodeChanged]
    );
}

#[test]
fn node_appears_when_created_and_when_provider_id_is_set() {
    assert_eq!(changes::<Node>(None, node()), [ChangeKind::NodeAppeared]);
    assert_eq!(
        changes::<Node>(with(node(), "/spec/providerID", json!("")), node()),
        [ChangeKind::NodeAppeared]
    );
}

#[test]
fn node_is_disrupted_once_by_taint_or_deletion() {
    assert_eq!(
        changes::<Node>(node(), disrupted(node())),
        [ChangeKind::NodeChanged, ChangeKind::NodeDisrupted]
    );
    assert_eq!(
        changes::<Node>(disrupted(node()), deleting(disrupted(node()))),
        [ChangeKind::NodeDraining]
    );
    assert_eq!(
        changes::<Node>(node(), deleting(node())),
        [ChangeKind::NodeDisrupted, ChangeKind::NodeDraining]
    );
}

#[test]
fn unmanaged_nodes_are_neither_disrupted_nor_drained() {
    assert_eq!(
        changes::<Node>(unmanaged(node()), deleting(unmanaged(node()))),
        []
    );
    let auto_mode =
        json!({"karpenter.sh/nodepool": "general", "eks.amazonaws.com/nodeclass": "default"});
    let auto_mode = with(node(), "/metadata/labels", auto_mode);
    assert_eq!(
        changes::<Node>(auto_mode.clone(), deleting(auto_mode.clone())),
        []
    );
    assert_eq!(
        changes::<Node>(auto_mode, None),
        [ChangeKind::NodeGone { managed: false }]
    );
    assert_eq!(
        changes::<Node>(node(), None),
        [ChangeKind::NodeGone { managed: true }]
    );
}

#[test]
fn node_changes_with_condition_reason_only_if_repair_uses_it() {
    let with_reason = |name: &str, reason: &str| {
        let condition = json!([{"type": name, "status": "False", "reason": reason}]);
        with(node(), "/status/conditions", condition)
    };
    let changed = |name: &str| {
        changes::<Node>(
            with_reason(name, "NvidiaXID13Error"),
            with_reason(name, "NvidiaXID79Error"),
        )
    };
    assert_eq!(
        changed("AcceleratedHardwareReady"),
        [ChangeKind::NodeChanged]
    );
    assert_eq!(changed("Ready"), []);
}

fn node_claim() -> Value {
    json!({
        "metadata": {"name": "default-abc", "generation": 1, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {"conditions": []},
    })
}

fn condition(object: Value, name: &str, status: &str) -> Value {
    let time = "2026-01-01T00:00:00Z";
    let condition = json!([{"type": name, "status": status, "reason": name, "message": "", "lastTransitionTime": time}]);
    with(object, "/status/conditions", condition)
}

#[test]
fn node_claim_creation_change_and_deletion_are_changes() {
    assert_eq!(
        changes::<NodeClaim>(None, node_claim()),
        [ChangeKind::NodeClaimAppeared]
    );
    let launched = condition(node_claim(), "Launched", "True");
    assert_eq!(
        changes::<NodeClaim>(node_claim(), launched),
        [ChangeKind::NodeClaimChanged { deleting: false }]
    );
    let provided = with(
        node_claim(),
        "/status/providerID",
        json!("aws:///us-east-1a/i-1"),
    );
    assert_eq!(
        changes::<NodeClaim>(node_claim(), provided),
        [ChangeKind::NodeClaimChanged { deleting: false }]
    );
    assert_eq!(
        changes::<NodeClaim>(node_claim(), deleting(node_claim())),
        [ChangeKind::NodeClaimDeleting]
    );
    let finalized = with(
        deleting(node_claim()),
        "/metadata/finalizers",
        json!(["karpenter.sh/termination"]),
    );
    assert_eq!(
        changes::<NodeClaim>(finalized, deleting(node_claim())),
        [ChangeKind::NodeClaimChanged { deleting: true }]
    );
    assert_eq!(
        changes::<NodeClaim>(deleting(node_claim()), None),
        [ChangeKind::NodeClaimGone]
    );
}

#[test]
fn conditions_set_by_lifecycle_lane_do_not_wake_it() {
    assert_eq!(
        changes::<NodeClaim>(node_claim(), condition(node_claim(), "Registered", "True")),
        []
    );
    assert_eq!(
        changes::<NodeClaim>(node_claim(), condition(node_claim(), "Initialized", "True")),
        [ChangeKind::NodeClaimInitialized]
    );
    for name in ["Consolidatable", "Drifted", "DisruptionReason"] {
        assert_eq!(
            changes::<NodeClaim>(node_claim(), condition(node_claim(), name, "True")),
            [ChangeKind::NodeClaimEligibilityChanged],
            "{name}"
        );
    }
    let stamped = with(
        node_claim(),
        "/status/lastPodEventTime",
        json!("2026-01-01T00:00:00Z"),
    );
    assert_eq!(changes::<NodeClaim>(node_claim(), stamped), []);
}

#[test]
fn node_claims_and_node_pools_of_auto_mode_are_unmanaged() {
    let foreign = json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
    let claim = with(node_claim(), "/spec/nodeClassRef", foreign.clone());
    assert_eq!(changes::<NodeClaim>(None, claim.clone()), []);
    assert_eq!(
        changes::<NodeClaim>(claim.clone(), deleting(claim.clone())),
        []
    );
    assert_eq!(changes::<NodeClaim>(claim, None), []);
    let pool = with(node_pool(), "/spec/template/spec/nodeClassRef", foreign);
    assert_eq!(changes::<NodePool>(None, pool), []);
}

fn node_pool() -> Value {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    json!({
        "metadata": {"name": "default", "generation": 1, "annotations": {}},
        "spec": {"template": {"spec": {"nodeClassRef": class}}},
        "status": {"conditions": [], "resources": {"cpu": "4"}},
    })
}

#[test]
fn a_nodepools_spec_and_readiness_count_and_its_usage_does_not() {
    assert_eq!(
        changes::<NodePool>(None, node_pool()),
        [ChangeKind::NodePoolChanged]
    );
    assert_eq!(
        changes::<NodePool>(
            node_pool(),
            with(node_pool(), "/metadata/generation", json!(2))
        ),
        [ChangeKind::NodePoolChanged]
    );
    assert_eq!(
        changes::<NodePool>(node_pool(), condition(node_pool(), "Ready", "True")),
        [ChangeKind::NodePoolReadyChanged]
    );
    assert_eq!(
        changes::<NodePool>(
            node_pool(),
            with(node_pool(), "/status/resources/cpu", json!("8"))
        ),
        []
    );
    assert_eq!(
        changes::<NodePool>(node_pool(), None),
        [ChangeKind::NodePoolChanged]
    );
    for (key, changed) in [
        ("whittle.sh/mode", true),
        ("whittle.sh/max-dollars-per-hour", true),
        // Turns write these annotations.
        ("whittle.sh/registrations", false),
        ("karpenter.sh/nodepool-hash", false),
    ] {
        let annotated = with(node_pool(), "/metadata/annotations", json!({key: "1"}));
        let expected: &[ChangeKind] = if changed {
            &[ChangeKind::NodePoolChanged]
        } else {
            &[]
        };
        assert_eq!(
            changes::<NodePool>(node_pool(), annotated),
            expected,
            "{key}"
        );
    }
}

#[test]
fn node_class_changes_by_spec_and_resolves_by_status() {
    let class = json!({"metadata": {"name": "default", "generation": 1}, "spec": {"role": "node"}});
    let resolved = json!({"metadata": {"name": "default", "generation": 1}, "status": {"amis": [{"id": "ami-1"}]}});
    assert_eq!(
        changes::<NodeClass>(None, class.clone()),
        [ChangeKind::NodeClassChanged]
    );
    assert_eq!(
        changes::<NodeClass>(class.clone(), resolved.clone()),
        [ChangeKind::NodeClassResolved]
    );
    assert_eq!(
        changes::<NodeClass>(
            resolved.clone(),
            with(resolved.clone(), "/status/amis/0/id", json!("ami-2"))
        ),
        [ChangeKind::NodeClassResolved]
    );
    assert_eq!(
        changes::<NodeClass>(
            class.clone(),
            with(class.clone(), "/metadata/generation", json!(2))
        ),
        [ChangeKind::NodeClassChanged]
    );
    assert_eq!(
        changes::<NodeClass>(class.clone(), deleting(class)),
        [ChangeKind::NodeClassChanged]
    );
}

#[test]
fn pdb_that_allows_evictions_again_is_a_change() {
    let budget = |generation: i64, allowed: i64| {
        json!({"metadata": {"name": "web", "namespace": "default", "generation": generation},
               "status": {"disruptionsAllowed": allowed}})
    };
    assert_eq!(
        changes::<PodDisruptionBudget>(budget(1, 0), budget(1, 1)),
        [ChangeKind::BudgetAllows]
    );
    assert_eq!(
        changes::<PodDisruptionBudget>(budget(1, 1), budget(1, 0)),
        []
    );
    assert_eq!(
        changes::<PodDisruptionBudget>(budget(1, 1), budget(1, 2)),
        [],
        "it did not refuse"
    );
    assert_eq!(
        changes::<PodDisruptionBudget>(budget(1, 0), budget(2, 0)),
        [ChangeKind::BudgetChanged]
    );
    assert_eq!(
        changes::<PodDisruptionBudget>(budget(1, 0), None),
        [ChangeKind::BudgetChanged]
    );
}

#[test]
fn deleted_attachment_is_a_detached_volume() {
    let attachment = json!({"metadata": {"name": "csi-1"}, "spec": {"nodeName": "ip-10-0-0-1"}, "status": {"attached": true}});
    let detaching = with(attachment.clone(), "/status/attached", json!(false));
    assert_eq!(changes::<VolumeAttachment>(None, attachment.clone()), []);
    assert_eq!(
        changes::<VolumeAttachment>(attachment.clone(), detaching),
        []
    );
    assert_eq!(
        changes::<VolumeAttachment>(attachment, None),
        [ChangeKind::VolumeDetached]
    );
}

#[test]
fn changes_of_usable_node_capacity_are_changes() {
    let daemon_set = |generation: i64, ready: i64| {
        json!({"metadata": {"name": "agent", "namespace": "kube-system", "generation": generation},
               "status": {"numberReady": ready}})
    };
    assert_eq!(changes::<DaemonSet>(daemon_set(1, 3), daemon_set(1, 4)), []);
    assert_eq!(
        changes::<DaemonSet>(daemon_set(1, 3), daemon_set(2, 3)),
        [ChangeKind::DaemonSetChanged]
    );

    let csi_node = |count: i64, topology: &str| {
        json!({"metadata": {"name": "ip-10-0-0-1"},
               "spec": {"drivers": [{"name": "ebs.csi.aws.com", "allocatable": {"count": count}, "topologyKeys": [topology]}]}})
    };
    assert_eq!(changes::<CsiNode>(csi_node(25, "a"), csi_node(25, "b")), []);
    assert_eq!(
        changes::<CsiNode>(csi_node(25, "a"), csi_node(26, "a")),
        [ChangeKind::VolumeLimitsChanged]
    );
    let no_drivers = json!({"metadata": {"name": "ip-10-0-0-1"}, "spec": {"drivers": null}});
    assert_eq!(changes::<CsiNode>(no_drivers.clone(), no_drivers), []);
}

#[test]
fn digest_is_small() {
    assert!(std::mem::size_of::<(Key, Digest)>() <= 64);
}

#[test]
fn rebooting_node_drains_and_reports_next_boot() {
    let node = json!({
        "metadata": {"name": "n", "labels": {"karpenter.k8s.aws/ec2nodeclass": "default"}},
        "spec": {"providerID": "aws:///us-east-1a/i-1"},
        "status": {"nodeInfo": {"bootID": "first"}},
    });
    let taints = json!([{"key": "karpenter.sh/rebooting", "effect": "NoSchedule"}]);
    let tainted = with(node.clone(), "/spec/taints", taints);
    let changed = changes::<Node>(node, tainted.clone());
    assert_eq!(changed, [ChangeKind::NodeChanged, ChangeKind::NodeDraining]);
    let again = with(tainted.clone(), "/status/nodeInfo/bootID", json!("second"));
    assert_eq!(changes::<Node>(tainted, again), [ChangeKind::NodeChanged]);
}

#[test]
fn rebooting_node_claim_is_reported_once() {
    let claim = |status: &str| {
        json!({
            "metadata": {"name": "a"},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"conditions": [{"type": "Rebooting", "status": status, "reason": "RebootRequested"}]},
        })
    };
    let reported = changes::<NodeClaim>(claim("Unknown"), claim("True"));
    assert_eq!(reported, [ChangeKind::NodeClaimRebooting]);
    assert_eq!(changes::<NodeClaim>(claim("True"), claim("True")), []);
    assert_eq!(changes::<NodeClaim>(claim("True"), claim("False")), []);
}
