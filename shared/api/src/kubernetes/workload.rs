use serde::{Deserialize, Serialize};

use super::affinity::LabelSelector;
use super::pod::PodTemplateSpec;
use super::storage::PersistentVolumeClaim;
use crate::meta::{ObjectMeta, resource};
use crate::wire::null_as_default;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonSet {
    pub metadata: ObjectMeta,
    pub spec: DaemonSetSpec,
}

resource!(DaemonSet, "apps/v1", "daemonsets", Namespaced);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonSetSpec {
    #[serde(default)]
    pub selector: LabelSelector,
    pub template: PodTemplateSpec,
}

/// A template that other objects refer to by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTemplate {
    pub metadata: ObjectMeta,
    pub template: PodTemplateSpec,
}

resource!(PodTemplate, "v1", "podtemplates", Namespaced);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    pub metadata: ObjectMeta,
    pub spec: ReplicatedSpec,
}

resource!(Deployment, "apps/v1", "deployments", Namespaced);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaSet {
    pub metadata: ObjectMeta,
    pub spec: ReplicatedSpec,
}

resource!(ReplicaSet, "apps/v1", "replicasets", Namespaced);

/// A number of pods from one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicatedSpec {
    /// 1 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default)]
    pub selector: LabelSelector,
    /// A ReplicaSet may leave it out.
    #[serde(default)]
    pub template: PodTemplateSpec,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatefulSet {
    pub metadata: ObjectMeta,
    pub spec: StatefulSetSpec,
}

resource!(StatefulSet, "apps/v1", "statefulsets", Namespaced);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// 1 where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default)]
    pub selector: LabelSelector,
    pub template: PodTemplateSpec,
    /// Each pod gets a claim of each, named `<template>-<pod>`.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
}
