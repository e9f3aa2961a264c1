//! Admission, as the API server does it before anything is planned for manifests: defaults of pods, what RuntimeClasses,
//! LimitRanges and PriorityClasses add, and the default StorageClass.

use std::collections::BTreeMap;

use api::{
    kubernetes::{
        Container, LimitRange, LimitRangeItem, Pod, PodSpec, PodTemplateSpec, PriorityClass,
        RuntimeClass, StorageClass,
    },
    manifests::Object,
    meta::ObjectMeta,
    names::annotation,
    quantity::ResourceList,
};
use model::quantity::Quantity;

/// Applies it to every object. Returns what users should know of that.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds are admitted as they stand"
)]
pub(crate) fn admit(objects: &mut [Object]) -> Vec<String> {
    let cluster = Cluster::of(objects);
    let mut notes = Vec::new();
    for object in objects {
        let mut admit = |kind: &str, metadata: &ObjectMeta, spec: &mut PodSpec| {
            let namespace = metadata.namespace.as_deref().unwrap_or("default");
            for note in cluster.admit(spec, namespace) {
                notes.push(format!("{kind} {namespace}/{}: {note}", metadata.name));
            }
        };
        match object {
            // A pod that is on its node was admitted.
            Object::Pod(pod) if pod.spec.node_name.is_none() => {
                let Pod { metadata, spec, .. } = &mut **pod;
                admit("Pod", metadata, spec);
            }
            Object::DaemonSet(set) => {
                admit("DaemonSet", &set.metadata, &mut set.spec.template.spec)
            }
            Object::Deployment(one) => {
                admit("Deployment", &one.metadata, &mut one.spec.template.spec)
            }
            Object::ReplicaSet(one) => {
                admit("ReplicaSet", &one.metadata, &mut one.spec.template.spec)
            }
            Object::ReplicationController(one) => {
                admit(
                    "ReplicationController",
                    &one.metadata,
                    &mut one.spec.template.spec,
                );
            }
            Object::StatefulSet(set) => {
                admit("StatefulSet", &set.metadata, &mut set.spec.template.spec);
                for claim in &mut set.spec.volume_claim_templates {
                    cluster.admit_claim(&mut claim.spec.storage_class_name);
                }
            }
            Object::Job(job) => admit("Job", &job.metadata, &mut job.spec.template.spec),
            Object::CronJob(one) => {
                let spec = &mut one.spec.job_template.spec.template.spec;
                admit("CronJob", &one.metadata, spec);
            }
            Object::Rollout(rollout) => {
                if let Some(PodTemplateSpec { spec, .. }) = &mut rollout.spec.template {
                    admit("Rollout", &rollout.metadata, spec);
                }
            }
            Object::PersistentVolumeClaim(claim) => {
                cluster.admit_claim(&mut claim.spec.storage_class_name);
            }
            _ => {}
        }
    }
    notes
}

/// The objects that admission goes by.
#[derive(Default)]
struct Cluster {
    limit_ranges: BTreeMap<String, Vec<LimitRangeItem>>,
    runtime_classes: BTreeMap<String, RuntimeClass>,
    priority_classes: BTreeMap<String, PriorityClass>,
    default_storage_class: Option<String>,
}

/// Classes that every cluster has.
const SYSTEM_PRIORITIES: [(&str, i32); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

impl Cluster {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "admission goes by these kinds alone"
    )]
    fn of(objects: &[Object]) -> Self {
        let mut cluster = Self::default();
        for object in objects {
            match object {
                Object::LimitRange(range) => {
                    let LimitRange { metadata, spec } = &**range;
                    let namespace = metadata.namespace.as_deref().unwrap_or("default");
                    let items = cluster
                        .limit_ranges
                        .entry(namespace.to_owned())
                        .or_default();
                    items.extend(spec.limits.iter().cloned());
                }
                Object::RuntimeClass(class) => {
                    let name = class.metadata.name.clone();
                    cluster.runtime_classes.insert(name, (**class).clone());
                }
                Object::PriorityClass(class) => {
                    let name = class.metadata.name.clone();
                    cluster.priority_classes.insert(name, (**class).clone());
                }
                Object::StorageClass(class) if is_default(class) => {
                    cluster.default_storage_class = Some(class.metadata.name.clone());
                }
                _ => {}
            }
        }
        cluster
    }

    fn admit_claim(&self, storage_class: &mut Option<String>) {
        if storage_class.is_none() {
            storage_class.clone_from(&self.default_storage_class);
        }
    }

    /// Returns what keeps the pod from being admitted, or may.
    fn admit(&self, spec: &mut PodSpec, namespace: &str) -> Vec<String> {
        let mut notes = Vec::new();
        let mut pod = Pod {
            spec: std::mem::take(spec),
            ..Pod::default()
        };
        pod.set_defaults();
        *spec = pod.spec;
        notes.extend(self.runtime(spec));
        notes.extend(self.priority(spec));
        for volume in &mut spec.volumes {
            let template = volume.ephemeral.as_mut();
            if let Some(template) =
                template.and_then(|ephemeral| ephemeral.volume_claim_template.as_mut())
            {
                self.admit_claim(&mut template.spec.storage_class_name);
            }
        }
        for item in self.limit_ranges.get(namespace).into_iter().flatten() {
            if item.r#type == "Container" {
                let containers = spec.init_containers.iter_mut().chain(&mut spec.containers);
                for container in containers {
                    fill(container, item);
                    notes.extend(out_of_bounds(container, item));
                }
            }
        }
        notes
    }

    fn runtime(&self, spec: &mut PodSpec) -> Option<String> {
        let name = spec.runtime_class_name.as_deref()?;
        let Some(class) = self.runtime_classes.get(name) else {
            return Some(format!(
                "RuntimeClass {name} is not among the manifests: its overhead and its nodes are not known"
            ));
        };
        if let Some(overhead) = &class.overhead
            && spec.overhead.is_empty()
        {
            spec.overhead.clone_from(&overhead.pod_fixed);
        }
        let scheduling = class.scheduling.as_ref()?;
        for (key, value) in &scheduling.node_selector {
            let there = spec
                .node_selector
                .entry(key.clone())
                .or_insert_with(|| value.clone());
            if there != value {
                return Some(format!(
                    "it would be refused: its nodeSelector asks {key}={there}, its RuntimeClass {name} {key}={value}"
                ));
            }
        }
        for toleration in &scheduling.tolerations {
            if !spec.tolerations.contains(toleration) {
                spec.tolerations.push(toleration.clone());
            }
        }
        None
    }

    fn priority(&self, spec: &mut PodSpec) -> Option<String> {
        if spec.priority.is_some() {
            return None;
        }
        let Some(name) = spec
            .priority_class_name
            .as_deref()
            .filter(|name| !name.is_empty())
        else {
            let default = self
                .priority_classes
                .values()
                .find(|class| class.global_default);
            if let Some(class) = default {
                spec.priority = Some(class.value);
                spec.preemption_policy.clone_from(&class.preemption_policy);
            }
            return None;
        };
        if let Some(class) = self.priority_classes.get(name) {
            spec.priority = Some(class.value);
            if spec.preemption_policy.is_none() {
                spec.preemption_policy.clone_from(&class.preemption_policy);
            }
        } else if let Some((_, value)) =
            SYSTEM_PRIORITIES.iter().find(|(system, _)| *system == name)
        {
            spec.priority = Some(*value);
        }
        None
    }
}

fn is_default(class: &StorageClass) -> bool {
    let annotations = &class.metadata.annotations;
    let default = annotations.get(annotation::IS_DEFAULT_STORAGE_CLASS);
    default.is_some_and(|value| value == "true")
}

/// As the admission plugin LimitRanger does. A bound stands in for a default limit, and a default limit for a default request.
fn fill(container: &mut Container, item: &LimitRangeItem) {
    let resources = &mut container.resources;
    let mut limits = item.default.clone();
    for (name, most) in &item.max {
        limits.entry(name.clone()).or_insert_with(|| most.clone());
    }
    let mut requests = item.default_request.clone();
    for (name, limit) in &limits {
        requests
            .entry(name.clone())
            .or_insert_with(|| limit.clone());
    }
    for (name, least) in &item.min {
        requests
            .entry(name.clone())
            .or_insert_with(|| least.clone());
    }
    for (to, from) in [
        (&mut resources.requests, requests),
        (&mut resources.limits, limits),
    ] {
        for (name, amount) in from {
            to.entry(name).or_insert(amount);
        }
    }
}

fn out_of_bounds(container: &Container, item: &LimitRangeItem) -> Vec<String> {
    let read = |list: &ResourceList, name: &str| -> Option<(String, Quantity)> {
        let text = list.get(name)?.as_str();
        Some((text.to_owned(), text.parse().ok()?))
    };
    let mut notes = Vec::new();
    for name in item.min.keys() {
        let asked = read(&container.resources.requests, name);
        if let (Some((text, asked)), Some((least, bound))) = (asked, read(&item.min, name))
            && asked < bound
        {
            notes.push(format!(
                "it would be refused: container {} asks {text} {name}, and a LimitRange wants {least} at least",
                container.name
            ));
        }
    }
    for name in item.max.keys() {
        let limit = read(&container.resources.limits, name);
        if let (Some((text, limit)), Some((most, bound))) = (limit, read(&item.max, name))
            && limit > bound
        {
            notes.push(format!(
                "it would be refused: container {} is limited to {text} {name}, and a LimitRange allows {most} at most",
                container.name
            ));
        }
    }
    notes
}
