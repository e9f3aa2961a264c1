//! Conversion of CapacityBuffers with the objects they refer to (docs/spec/scheduling.md#capacity-buffer).

use model::{
    PodKey,
    pod::Pod,
    snapshot::{CapacityBuffer, Workload},
};
use thiserror::Error;

use super::amounts::trusted_amounts;
use super::pod::from_template;
use super::workload::key;
use crate::karpenter::{self, CapacityBufferSpec};
use crate::kubernetes::PodTemplate;
use crate::meta::Resource;

/// Reason why a buffer's pods are unknown. The buffer reserves nothing until that changes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unresolved {
    #[error("there is no PodTemplate {0} in its namespace")]
    PodTemplateNotFound(String),
    #[error("there is no {kind} {name} in its namespace")]
    ScalableRefNotFound { kind: String, name: String },
    #[error(
        "scalableRef is to {kind} of {group}: expected Deployment, ReplicaSet or StatefulSet of apps"
    )]
    NotScalable { kind: String, group: String },
    #[error("it needs one of podTemplateRef and scalableRef, which define its pods")]
    NoReference,
    #[error("it has both podTemplateRef and scalableRef: only one can define its pods")]
    TwoReferences,
}

/// Converts the buffer, and returns the reason if it cannot be resolved. The referenced object is looked up among the
/// given ones.
pub fn capacity_buffer(
    buffer: karpenter::CapacityBuffer,
    templates: &[PodTemplate],
    workloads: &[Workload],
) -> (CapacityBuffer, Result<(), Unresolved>) {
    let karpenter::CapacityBuffer { metadata, spec, .. } = buffer;
    let uid = metadata.uid.clone().into();
    let key = key(metadata);
    let resolved = resolve(&key, &spec, templates, workloads);
    let (shape, outcome) = match resolved {
        Ok(shape) => (shape, Ok(())),
        Err(unresolved) => (Shape::default(), Err(unresolved)),
    };
    let buffer = CapacityBuffer {
        key,
        uid,
        replicas: spec.replicas.map(i64::from),
        percentage: spec.percentage.map(i64::from),
        limits: spec
            .limits
            .as_ref()
            .map(trusted_amounts)
            .unwrap_or_default(),
        scalable_replicas: shape.replicas,
        pod: shape.pod,
    };
    (buffer, outcome)
}

#[derive(Default)]
struct Shape {
    pod: Option<Box<Pod>>,
    /// Replicas of the workload.
    replicas: Option<i64>,
}

/// The object that defines a buffer's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferTarget {
    PodTemplate(PodKey),
    Workload(Scalable, PodKey),
}

/// Workloads that a buffer may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalable {
    Deployment,
    ReplicaSet,
    StatefulSet,
}

impl Scalable {
    const ALL: [Self; 3] = [Self::Deployment, Self::ReplicaSet, Self::StatefulSet];

    pub fn kind(self) -> &'static str {
        match self {
            Self::Deployment => crate::kubernetes::Deployment::KIND,
            Self::ReplicaSet => crate::kubernetes::ReplicaSet::KIND,
            Self::StatefulSet => crate::kubernetes::StatefulSet::KIND,
        }
    }
}

/// The object that a buffer refers to, by name.
pub fn buffer_target(buffer: &karpenter::CapacityBuffer) -> Result<BufferTarget, Unresolved> {
    target_of(&key(buffer.metadata.clone()), &buffer.spec)
}

fn target_of(buffer: &PodKey, spec: &CapacityBufferSpec) -> Result<BufferTarget, Unresolved> {
    let beside = |name: &str| PodKey::new(buffer.namespace.clone(), name);
    match (&spec.pod_template_ref, &spec.scalable_ref) {
        (None, None) => Err(Unresolved::NoReference),
        (Some(_), Some(_)) => Err(Unresolved::TwoReferences),
        (Some(reference), None) => Ok(BufferTarget::PodTemplate(beside(&reference.name))),
        (None, Some(reference)) => {
            let group = reference.api_group.as_deref().unwrap_or_default();
            let mut kinds = Scalable::ALL.into_iter();
            kinds
                .find(|known| known.kind() == reference.kind)
                .filter(|_| ["", "apps"].contains(&group))
                .map(|kind| BufferTarget::Workload(kind, beside(&reference.name)))
                .ok_or_else(|| Unresolved::NotScalable {
                    kind: reference.kind.clone(),
                    group: group.to_owned(),
                })
        }
    }
}

fn resolve(
    buffer: &PodKey,
    spec: &CapacityBufferSpec,
    templates: &[PodTemplate],
    workloads: &[Workload],
) -> Result<Shape, Unresolved> {
    match target_of(buffer, spec)? {
        BufferTarget::PodTemplate(wanted) => {
            let found = templates
                .iter()
                .find(|template| key(template.metadata.clone()) == wanted)
                .ok_or(Unresolved::PodTemplateNotFound(wanted.name))?;
            let pod = from_template(found.template.clone(), &buffer.namespace);
            Ok(Shape {
                pod: Some(Box::new(pod)),
                replicas: None,
            })
        }
        BufferTarget::Workload(kind, wanted) => {
            let kind = kind.kind();
            let found = workloads
                .iter()
                .find(|workload| workload.kind == kind && workload.key == wanted)
                .ok_or_else(|| Unresolved::ScalableRefNotFound {
                    kind: kind.to_owned(),
                    name: wanted.name.clone(),
                })?;
            Ok(Shape {
                pod: found.pod.clone(),
                replicas: found.replicas,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn buffer(spec: Value) -> karpenter::CapacityBuffer {
        let manifest = json!({"metadata": {"name": "spare", "namespace": "shop"}, "spec": spec});
        serde_json::from_value(manifest).unwrap()
    }

    fn web() -> Workload {
        let manifest = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "replicas": 4,
                "template": {"spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "2"}}}]}},
            },
        });
        let web: crate::kubernetes::Deployment = serde_json::from_value(manifest).unwrap();
        web.into()
    }

    fn template(namespace: &str) -> PodTemplate {
        let manifest = json!({
            "metadata": {"name": "one-core", "namespace": namespace},
            "template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}]}},
        });
        serde_json::from_value(manifest).unwrap()
    }

    fn converted(spec: Value) -> (CapacityBuffer, Result<(), Unresolved>) {
        capacity_buffer(buffer(spec), &[template("shop")], &[web()])
    }

    #[test]
    fn pod_template_or_workload_defines_the_pods() {
        let (from_template, outcome) = converted(
            json!({"podTemplateRef": {"name": "one-core"}, "replicas": 3, "limits": {"cpu": "2"}}),
        );
        assert_eq!(outcome, Ok(()));
        assert_eq!(from_template.pod.unwrap().requests.get("cpu"), 1_000);
        assert_eq!(from_template.replicas, Some(3));
        assert_eq!(from_template.limits.get("cpu"), 2_000);
        let (from_workload, outcome) = converted(
            json!({"scalableRef": {"kind": "Deployment", "name": "web"}, "percentage": 50}),
        );
        assert_eq!(outcome, Ok(()));
        assert_eq!(from_workload.pod.unwrap().requests.get("cpu"), 2_000);
        assert_eq!(from_workload.scalable_replicas, Some(4));
    }

    #[test]
    fn unresolved_buffer_has_a_reason_and_reserves_nothing() {
        let elsewhere = capacity_buffer(
            buffer(json!({"podTemplateRef": {"name": "one-core"}, "replicas": 1})),
            &[template("elsewhere")],
            &[],
        );
        assert_eq!(
            elsewhere.1,
            Err(Unresolved::PodTemplateNotFound("one-core".to_owned()))
        );
        let cases = [
            (json!({}), "needs one of"),
            (
                json!({"podTemplateRef": {"name": "one-core"}, "scalableRef": {"kind": "Deployment", "name": "web"}}),
                "has both",
            ),
            (
                json!({"scalableRef": {"kind": "StatefulSet", "name": "web"}}),
                "no StatefulSet web",
            ),
            (
                json!({"scalableRef": {"kind": "Job", "name": "web", "apiGroup": "batch"}}),
                "to Job of batch",
            ),
        ];
        for (spec, why) in cases {
            let (buffer, outcome) = converted(spec);
            assert!(outcome.unwrap_err().to_string().contains(why), "{why}");
            assert_eq!(buffer.pod, None);
        }
    }
}
