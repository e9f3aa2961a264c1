//! What the API server adds to pods that are made in a namespace, or of a runtime class.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pod::Toleration;
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::wire::null_as_default;

/// Defaults and bounds of what containers and pods of a namespace ask for.
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
    /// How many times its request the limit of a resource may be.
    #[serde(deserialize_with = "null_as_default")]
    pub max_limit_request_ratio: ResourceList,
}

/// What runs containers, with what that needs besides them.
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

/// The nodes that have the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub tolerations: Vec<Toleration>,
}
