//! Objects by which admission changes pods: LimitRange and RuntimeClass.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pod::Toleration;
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::wire::null_as_default;

/// Default and allowed resources of containers and pods in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitRange {
    pub metadata: ObjectMeta,
    pub spec: LimitRangeSpec,
}

resource!(LimitRange, "v1", "limitranges", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitRangeSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub limits: Vec<LimitRangeItem>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    pub r#type: String,
    #[serde(deserialize_with = "null_as_default")]
    pub default: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub default_request: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub max: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub min: ResourceList,
    /// Upper bound on the ratio of limit to request, by resource.
    #[serde(deserialize_with = "null_as_default")]
    pub max_limit_request_ratio: ResourceList,
}

/// A container runtime with its overhead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeClass {
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<RuntimeOverhead>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<RuntimeScheduling>,
}

resource!(RuntimeClass, "node.k8s.io/v1", "runtimeclasses", Cluster);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeOverhead {
    #[serde(deserialize_with = "null_as_default")]
    pub pod_fixed: ResourceList,
}

/// Constraints on nodes that have the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
}
