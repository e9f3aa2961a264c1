//! Admission of manifests, as the API server performs it before anything is planned: defaults of pods, the effects of RuntimeClasses,
//! LimitRanges and PriorityClasses, and the default StorageClass.

mod limit_range;

use std::collections::BTreeMap;

use api::{
    kubernetes::{
        LimitRange, LimitRangeItem, Pod, PodSpec, PodTemplateSpec, PriorityClass, RuntimeClass,
        StorageClass,
    },
    manifests::Object,
    meta::ObjectMeta,
    names::annotation,
};

/// Applies admission to every object, and removes objects whose pods would be refused. Returns warnings for the user.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all other kinds are admitted as they stand"
)]
pub(crate) fn admit(objects: &mut Vec<Object>) -> Vec<String> {
    let cluster = Cluster::of(objects);
    let mut notes = Vec::new();
    objects.retain_mut(|object| {
        let mut is_admitted = true;
        let mut admit = |kind: &str, metadata: &ObjectMeta, spec: &mut PodSpec| {
            let namespace = metadata.namespace.as_deref().unwrap_or("default");
            let name = format!("{kind} {namespace}/{}", metadata.name);
            let outcome = cluster.admit(spec, namespace);
            notes.extend(outcome.unknown.map(|note| format!("{name}: {note}")));
            is_admitted = outcome.refusals.is_empty();
            if !is_admitted {
                let refusals = outcome.refusals.join("; ");
                notes.push(format!(
                    "{name}: it would be refused: {refusals}; nothing is planned for it"
                ));
            }
        };
        match object {
            // A pod that is bound to a node has been admitted.
            Object::Pod(pod) if pod.spec.node_name.is_none() => {
                let Pod { metadata, spec, .. } = &mut **pod;
                admit("Pod", metadata, spec);
            }
            Object::DaemonSet(set) => {
                admit("DaemonSet", &set.metadata, &mut set.spec.template.spec)
            }
            Object::Deployment(workload) => admit(
                "Deployment",
                &workload.metadata,
                &mut workload.spec.template.spec,
            ),
            Object::ReplicaSet(workload) => admit(
                "ReplicaSet",
                &workload.metadata,
                &mut workload.spec.template.spec,
            ),
            Object::ReplicationController(workload) => {
                admit(
                    "ReplicationController",
                    &workload.metadata,
                    &mut workload.spec.template.spec,
                );
            }
            Object::StatefulSet(set) => {
                admit("StatefulSet", &set.metadata, &mut set.spec.template.spec);
                for claim in &mut set.spec.volume_claim_templates {
                    cluster.admit_claim(&mut claim.spec.storage_class_name);
                }
            }
            Object::Job(job) => admit("Job", &job.metadata, &mut job.spec.template.spec),
            Object::CronJob(workload) => {
                let spec = &mut workload.spec.job_template.spec.template.spec;
                admit("CronJob", &workload.metadata, spec);
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
        is_admitted
    });
    notes
}

/// Facts that admission of a pod could not determine, and its reasons to refuse the pod.
struct Outcome {
    /// Unknown facts about the pod.
    unknown: Option<String>,
    /// Reasons to refuse the pod.
    refusals: Vec<String>,
}

/// Objects that decide admission.
#[derive(Default)]
struct Cluster {
    limit_ranges: BTreeMap<String, Vec<LimitRangeItem>>,
    runtime_classes: BTreeMap<String, RuntimeClass>,
    priority_classes: BTreeMap<String, PriorityClass>,
    default_storage_class: Option<String>,
}

/// PriorityClasses that every cluster has.
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

    fn admit(&self, spec: &mut PodSpec, namespace: &str) -> Outcome {
        let mut pod = Pod {
            spec: std::mem::take(spec),
            ..Pod::default()
        };
        pod.set_defaults();
        *spec = pod.spec;
        let (unknown, refusal) = match self.runtime(spec) {
            Ok(unknown) => (unknown, None),
            Err(refusal) => (None, Some(refusal)),
        };
        self.set_priority(spec);
        for volume in &mut spec.volumes {
            let template = volume.ephemeral.as_mut();
            if let Some(template) =
                template.and_then(|ephemeral| ephemeral.volume_claim_template.as_mut())
            {
                self.admit_claim(&mut template.spec.storage_class_name);
            }
        }
        let items = self.limit_ranges.get(namespace).map(Vec::as_slice);
        let mut refusals = limit_range::apply(spec, items.unwrap_or_default());
        refusals.extend(refusal);
        Outcome { unknown, refusals }
    }

    /// Applies the pod's RuntimeClass. Returns an unknown fact about the RuntimeClass, or the reason why the pod is refused.
    fn runtime(&self, spec: &mut PodSpec) -> Result<Option<String>, String> {
        let Some(name) = spec.runtime_class_name.as_deref() else {
            return Ok(None);
        };
        let Some(class) = self.runtime_classes.get(name) else {
            return Ok(Some(format!(
                "RuntimeClass {name} is not among the manifests: its overhead and its nodes are not known"
            )));
        };
        if let Some(overhead) = &class.overhead
            && spec.overhead.is_empty()
        {
            spec.overhead.clone_from(&overhead.pod_fixed);
        }
        let Some(scheduling) = &class.scheduling else {
            return Ok(None);
        };
        for (key, value) in &scheduling.node_selector {
            let there = spec
                .node_selector
                .entry(key.clone())
                .or_insert_with(|| value.clone());
            if there != value {
                return Err(format!(
                    "its nodeSelector asks {key}={there}, its RuntimeClass {name} {key}={value}"
                ));
            }
        }
        for toleration in &scheduling.tolerations {
            if !spec.tolerations.contains(toleration) {
                spec.tolerations.push(toleration.clone());
            }
        }
        Ok(None)
    }

    fn set_priority(&self, spec: &mut PodSpec) {
        if spec.priority.is_some() {
            return;
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
            return;
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
    }
}

fn is_default(class: &StorageClass) -> bool {
    let annotations = &class.metadata.annotations;
    let default = annotations.get(annotation::IS_DEFAULT_STORAGE_CLASS);
    default.is_some_and(|value| value == "true")
}
