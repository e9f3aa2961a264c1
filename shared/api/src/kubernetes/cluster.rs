use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::conditions::ConditionStatus;
use crate::karpenter::Taint;
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::wire::null_as_default;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: NodeSpec,
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: NodeStatus,
}

resource!(Node, "v1", "nodes", Cluster);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Provider id of the instance, `aws:///<zone>/<instance>`, by which a Node and its NodeClaim are matched.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub taints: Vec<Taint>,
    /// Whether the node is cordoned.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "ResourceList::is_empty"
    )]
    pub capacity: ResourceList,
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "ResourceList::is_empty"
    )]
    pub allocatable: ResourceList,
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub conditions: Vec<NodeCondition>,
    #[serde(rename = "nodeInfo", deserialize_with = "null_as_default")]
    pub node_info: NodeSystemInfo,
}

/// System information that the kubelet reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSystemInfo {
    /// Changes with each boot.
    #[serde(rename = "bootID", skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    pub r#type: String,
    pub status: ConditionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
}

/// A namespace; its labels matter for affinity terms with a namespace selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    pub metadata: ObjectMeta,
}

resource!(Namespace, "v1", "namespaces", Cluster);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PriorityClass {
    pub metadata: ObjectMeta,
    pub value: i32,
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub global_default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption_policy: Option<String>,
}

resource!(
    PriorityClass,
    "scheduling.k8s.io/v1",
    "priorityclasses",
    Cluster
);
