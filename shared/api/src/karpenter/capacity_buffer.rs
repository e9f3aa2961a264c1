use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::schema::rules;

/// Spare capacity for future pods: a number of pods with one template are scheduled as if they existed.
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

/// Template and number of the pods that capacity is kept for.
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
    /// How capacity is kept. `buffer.x-k8s.io/active-capacity`: nodes are launched for it.
    #[serde(default = "default_strategy")]
    pub provisioning_strategy: String,
    /// PodTemplate of the pods, in the same namespace. Either this or scalableRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectReference>,
    /// Deployment, StatefulSet or ReplicaSet with the template of the pods, in the same namespace. Either this or podTemplateRef.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableReference>,
    /// Number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// Number of pods as a share of the replicas of scalableRef, rounded up, at least one. If `replicas` is set as well, the larger
    /// number applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// Upper bounds on the total requests of the pods. Without `replicas` and `percentage`, the buffer has as many pods as fit
    /// within them.
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
    /// API group of the object; empty means `apps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the object.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
}

fn default_strategy() -> String {
    "buffer.x-k8s.io/active-capacity".to_owned()
}

/// Pods that capacity is kept for, and whether the capacity is available.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The PodTemplate in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectReference>,
    /// Generation of that PodTemplate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Number of pods that capacity is kept for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The strategy in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Conditions of the buffer: ReadyForProvisioning and Provisioning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::keyed_by_type)]
    pub conditions: Option<Vec<Condition>>,
}
