//! Conversion of namespaces, PodDisruptionBudgets and workloads.

use model::{
    PodKey,
    snapshot::{DaemonSet, Namespace, PodDisruptionBudget, Service, Workload},
};

use super::DEFAULT_NAMESPACE;
use super::pod::from_template;
use super::selector::label_selector;
use crate::kubernetes;
use crate::meta::{ObjectMeta, Resource};

impl From<kubernetes::DaemonSet> for DaemonSet {
    fn from(daemon_set: kubernetes::DaemonSet) -> Self {
        let key = key(daemon_set.metadata);
        Self {
            pod: from_template(daemon_set.spec.template, &key.namespace),
            key,
        }
    }
}

impl From<kubernetes::Namespace> for Namespace {
    fn from(namespace: kubernetes::Namespace) -> Self {
        Self {
            name: namespace.metadata.name,
            labels: namespace.metadata.labels,
        }
    }
}

impl From<kubernetes::PodDisruptionBudget> for PodDisruptionBudget {
    fn from(budget: kubernetes::PodDisruptionBudget) -> Self {
        let kubernetes::PodDisruptionBudget {
            metadata,
            spec,
            status,
        } = budget;
        // A status of an older generation does not reflect the present spec: no disruption is allowed until it is
        // updated.
        let is_current = status
            .observed_generation
            .is_none_or(|seen| metadata.generation.is_none_or(|own| seen >= own));
        Self {
            key: key(metadata),
            selector: spec.selector.and_then(label_selector),
            disruptions_allowed: if is_current {
                status.disruptions_allowed.into()
            } else {
                0
            },
            max_unavailable: spec.max_unavailable.map(text),
            min_available: spec.min_available.map(text),
            always_allow_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref()
                == Some("AlwaysAllow"),
            is_met: is_current
                && status.desired_healthy > 0
                && status.current_healthy >= status.desired_healthy,
        }
    }
}

fn text(value: kubernetes::IntOrString) -> String {
    match value {
        kubernetes::IntOrString::Int(number) => number.to_string(),
        kubernetes::IntOrString::String(text) => text,
    }
}

impl From<kubernetes::Service> for Service {
    fn from(service: kubernetes::Service) -> Self {
        Self {
            key: key(service.metadata),
            selector: service.spec.selector,
        }
    }
}

impl From<kubernetes::ReplicaSet> for Workload {
    fn from(set: kubernetes::ReplicaSet) -> Self {
        workload::<kubernetes::ReplicaSet>(
            set.metadata,
            set.spec.replicas,
            set.spec.selector,
            set.spec.template,
        )
    }
}

impl From<kubernetes::Deployment> for Workload {
    fn from(deployment: kubernetes::Deployment) -> Self {
        let kubernetes::Deployment { metadata, spec } = deployment;
        workload::<kubernetes::Deployment>(metadata, spec.replicas, spec.selector, spec.template)
    }
}

impl From<kubernetes::StatefulSet> for Workload {
    fn from(set: kubernetes::StatefulSet) -> Self {
        workload::<kubernetes::StatefulSet>(
            set.metadata,
            set.spec.replicas,
            set.spec.selector,
            set.spec.template,
        )
    }
}

impl From<kubernetes::ReplicationController> for Workload {
    fn from(controller: kubernetes::ReplicationController) -> Self {
        let kubernetes::ReplicationControllerSpec {
            replicas,
            selector,
            template,
        } = controller.spec;
        let match_labels = match selector.is_empty() {
            true => template.metadata.labels.clone(),
            false => selector,
        };
        let selector = kubernetes::LabelSelector {
            match_labels,
            ..kubernetes::LabelSelector::default()
        };
        workload::<kubernetes::ReplicationController>(
            controller.metadata,
            replicas,
            selector,
            template,
        )
    }
}

/// Replicas are the pods that run in parallel. The selector is empty, because a Job owns its pods directly.
impl From<kubernetes::Job> for Workload {
    fn from(job: kubernetes::Job) -> Self {
        let pods = job.pods();
        let kubernetes::Job { metadata, spec, .. } = job;
        let selector = kubernetes::LabelSelector::default();
        Self {
            selector: None,
            ..workload::<kubernetes::Job>(metadata, Some(pods), selector, spec.template)
        }
    }
}

/// Replicas are the pods of one run.
impl From<kubernetes::CronJob> for Workload {
    fn from(cron_job: kubernetes::CronJob) -> Self {
        let kubernetes::CronJob { metadata, spec } = cron_job;
        let job = kubernetes::Job {
            metadata,
            spec: spec.job_template.spec,
            status: kubernetes::JobStatus::default(),
        };
        let mut workload = Self::from(job);
        if spec.suspend {
            workload.replicas = Some(0);
        }
        workload.kind = kubernetes::CronJob::KIND.to_owned();
        workload
    }
}

impl From<kubernetes::Rollout> for Workload {
    fn from(rollout: kubernetes::Rollout) -> Self {
        let kubernetes::Rollout { metadata, spec } = rollout;
        workload::<kubernetes::Rollout>(
            metadata,
            spec.replicas,
            spec.selector.unwrap_or_default(),
            spec.template.unwrap_or_default(),
        )
    }
}

fn workload<T: Resource>(
    metadata: ObjectMeta,
    replicas: Option<i32>,
    selector: kubernetes::LabelSelector,
    template: kubernetes::PodTemplateSpec,
) -> Workload {
    let uid = metadata.uid.clone().into();
    let key = key(metadata);
    Workload {
        kind: T::KIND.to_owned(),
        uid,
        selector: label_selector(selector),
        replicas: Some(replicas.unwrap_or(1).into()),
        pod: Some(Box::new(from_template(template, &key.namespace))),
        key,
    }
}

pub(super) fn key(metadata: ObjectMeta) -> PodKey {
    PodKey {
        namespace: metadata
            .namespace
            .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        name: metadata.name,
    }
}
