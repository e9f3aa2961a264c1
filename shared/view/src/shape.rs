//! A pod in two parts: the shape that it shares with others of its owner, and its own fields.

use jiff::Timestamp;
use model::{
    PodKey, SharedShape, Uid,
    pod::{Deletion, Pod, PodPhase},
};
use serde::{Deserialize, Serialize};

/// Fields of a pod's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    #[serde(rename = "u")]
    uid: Box<str>,
    #[serde(rename = "v")]
    resource_version: Box<str>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    node: Option<Box<str>>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    nominated: Option<Box<str>>,
    #[serde(rename = "p")]
    phase: PodPhase,
    #[serde(rename = "r", default, skip_serializing_if = "is_false")]
    ready: bool,
    #[serde(rename = "w", default, skip_serializing_if = "is_false")]
    unschedulable: bool,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    started_at: Option<Timestamp>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    deletion: Option<Deletion>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !value
}

/// Whether an annotation influences decisions; others, such as a network plugin's, differ for each pod and influence none.
fn influences_decisions(annotation: &str) -> bool {
    const GROUPS: [&str; 3] = ["karpenter.sh/", "karpenter.k8s.aws/", "whittle.sh/"];
    annotation == POD_DELETION_COST || GROUPS.iter().any(|group| annotation.starts_with(group))
}

const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Splits a pod into its key, shape and own fields.
pub fn split(mut pod: Pod) -> (PodKey, SharedShape, Own) {
    if !pod.annotations.keys().all(|key| influences_decisions(key)) {
        pod.annotations.retain(|key, _| influences_decisions(key));
    }
    let own = Own {
        uid: pod.uid.0.into(),
        resource_version: pod.resource_version.into(),
        node: pod.node_name.map(|name| name.0.into()),
        nominated: pod.nominated_node.map(|name| name.0.into()),
        phase: pod.phase,
        ready: pod.ready,
        unschedulable: pod.unschedulable,
        created_at: pod.created_at,
        started_at: pod.started_at,
        deletion: pod.deletion,
    };
    (pod.key, pod.shape, own)
}

/// Joins the parts of a pod.
pub fn join(key: PodKey, shape: SharedShape, own: &Own) -> Pod {
    Pod {
        key,
        uid: Uid(own.uid.to_string()),
        resource_version: own.resource_version.to_string(),
        created_at: own.created_at,
        deletion: own.deletion.clone(),
        node_name: own.node.as_deref().map(Into::into),
        nominated_node: own.nominated.as_deref().map(Into::into),
        phase: own.phase,
        ready: own.ready,
        unschedulable: own.unschedulable,
        started_at: own.started_at,
        shape,
    }
}
