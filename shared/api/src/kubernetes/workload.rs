use std::collections::BTreeMap;

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

/// A pod template that other objects refer to by name.
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

/// Spec of a workload with a number of pods from one template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicatedSpec {
    /// 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default)]
    pub selector: LabelSelector,
    /// Optional in a ReplicaSet.
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
    /// 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default)]
    pub selector: LabelSelector,
    pub template: PodTemplateSpec,
    /// Each pod gets one claim per template, named `<template>-<pod>`.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub volume_claim_templates: Vec<PersistentVolumeClaim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinals: Option<StatefulSetOrdinals>,
}

/// Numbering of a StatefulSet's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatefulSetOrdinals {
    /// Number of the first pod.
    pub start: i32,
}

/// A Service, with the selector that default spread constraints use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ServiceSpec,
}

resource!(Service, "v1", "services", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// Empty for a Service whose endpoints are managed externally.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub selector: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicationController {
    pub metadata: ObjectMeta,
    pub spec: ReplicationControllerSpec,
}

resource!(
    ReplicationController,
    "v1",
    "replicationcontrollers",
    Namespaced
);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicationControllerSpec {
    /// 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The labels of the template if absent.
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub selector: BTreeMap<String, String>,
    pub template: PodTemplateSpec,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub metadata: ObjectMeta,
    pub spec: JobSpec,
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: JobStatus,
}

resource!(Job, "batch/v1", "jobs", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobSpec {
    /// Pods that run in parallel: 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Pods that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completions: Option<i32>,
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub suspend: bool,
    pub template: PodTemplateSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobStatus {
    /// Pods that have succeeded.
    pub succeeded: i32,
}

impl Job {
    /// Pods that run in parallel from now on.
    pub fn pods(&self) -> i32 {
        if self.spec.suspend {
            return 0;
        }
        let left = self
            .spec
            .completions
            .map(|completions| completions.saturating_sub(self.status.succeeded));
        let parallel = self.spec.parallelism.unwrap_or(1);
        left.map_or(parallel, |left| left.min(parallel)).max(0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CronJob {
    pub metadata: ObjectMeta,
    pub spec: CronJobSpec,
}

resource!(CronJob, "batch/v1", "cronjobs", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    #[serde(
        deserialize_with = "null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub suspend: bool,
    pub job_template: JobTemplateSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTemplateSpec {
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: ObjectMeta,
    pub spec: JobSpec,
}

/// An Argo Rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    pub metadata: ObjectMeta,
    pub spec: RolloutSpec,
}

resource!(Rollout, "argoproj.io/v1alpha1", "rollouts", Namespaced);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutSpec {
    /// 1 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// If absent, the template of the Deployment that `workloadRef` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplateSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadRef {
    pub kind: String,
    pub name: String,
}
