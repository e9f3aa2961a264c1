use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::schema::rules;

/// Capacity kept free for future pods: a number of pods of one shape are planned for as if they existed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityBuffer {
    pub metadata: ObjectMeta,
    pub spec: CapacityBufferSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CapacityBufferStatus>,
}

resource!(
    CapacityBuffer,
    "autoscaling.x-k8s.io/v1beta1",
    "capacitybuffers",
    Namespaced
);

/// The shape and number of the pods that room is kept for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[
    (
        "If podTemplateRef is set, replicas or limits must also be set",
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
    ),
    (
        "You must define either PodTemplateRef or ScalableRef, but not both",
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
    ),
])))]
pub struct CapacityBufferSpec {
    /// Use of the capacity. `buffer.x-k8s.io/active-capacity`: nodes are launched for it.
    #[serde(default = "default_strategy")]
    pub provisioning_strategy: String,
    /// A PodTemplate of the same namespace that gives the shape of one pod. Either this or scalableRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectReference>,
    /// A Deployment, StatefulSet or ReplicaSet of the same namespace whose pods give the shape. Either this or podTemplateRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableReference>,
    /// Number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Number of pods as a share of the replicas of scalableRef, rounded up, at least one. Of `replicas` and `percentage` the
    /// larger counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// Bounds on what the pods ask for together. Without `replicas` and `percentage`, as many pods as fit into them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalObjectReference {
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// An object of the same namespace that has replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableReference {
    /// API group; empty means `apps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name.
    #[schemars(length(min = 1))]
    pub name: String,
}

fn default_strategy() -> String {
    "buffer.x-k8s.io/active-capacity".to_owned()
}

/// Pods that capacity is kept for, and whether it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectReference>,
    /// Generation of that PodTemplate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Number of pods that room is kept for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The strategy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// ReadyForProvisioning and Provisioning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::keyed_by_type)]
    pub conditions: Option<Vec<Condition>>,
}
