//! Decisions as API objects: the NodeClaim of a launch, and patches for what changes on NodeClaims and Nodes.

use model::{
    node::ConditionStatus as ModelStatus,
    node_claim::{Condition as ModelCondition, NodeClaimSpec},
    plan::{Launch, NodeClaimUpdate, NodeUpdate},
};
use serde_json::{Map, Value, json};

use super::amounts::resource_list;
use super::selector::{requirement_entry, taint_entry};
use crate::conditions::{Condition, ConditionStatus};
use crate::duration::{GoDuration, NillableDuration};
use crate::karpenter::{self, NodeClaim, ResourceRequests};
use crate::meta::{ObjectMeta, OwnerReference, Resource};
use crate::names::finalizer;

impl From<&Launch> for NodeClaim {
    /// The object to create (spec/scheduling §23.3), with our finalizer, so that no instance can outlive its NodeClaim.
    fn from(launch: &Launch) -> Self {
        Self {
            metadata: ObjectMeta {
                name: launch.name.0.clone(),
                labels: launch.labels.clone(),
                annotations: launch.annotations.clone(),
                finalizers: vec![finalizer::TERMINATION.to_owned()],
                owner_references: vec![OwnerReference {
                    api_version: karpenter::NodePool::API_VERSION.to_owned(),
                    kind: karpenter::NodePool::KIND.to_owned(),
                    name: launch.node_pool.0.clone(),
                    uid: launch.node_pool_uid.0.clone(),
                    controller: None,
                    block_owner_deletion: Some(true),
                }],
                ..ObjectMeta::default()
            },
            spec: (&launch.spec).into(),
            status: None,
        }
    }
}

impl From<&NodeClaimSpec> for karpenter::NodeClaimSpec {
    fn from(spec: &NodeClaimSpec) -> Self {
        let taints = |taints: &[model::taint::Taint]| {
            (!taints.is_empty()).then(|| taints.iter().map(taint_entry).collect())
        };
        Self {
            taints: taints(&spec.taints),
            startup_taints: taints(&spec.startup_taints),
            requirements: spec.requirements.iter().map(requirement_entry).collect(),
            resources: (!spec.requests.0.is_empty()).then(|| ResourceRequests {
                requests: Some(resource_list(&spec.requests)),
            }),
            node_class_ref: (&spec.node_class).into(),
            // Both texts come from a NodePool that was read with these types.
            termination_grace_period: spec
                .termination_grace_period
                .as_deref()
                .and_then(|text| text.parse::<GoDuration>().ok()),
            expire_after: spec
                .expire_after
                .as_deref()
                .and_then(|text| text.parse().ok())
                .unwrap_or(NillableDuration::Never),
        }
    }
}

impl From<&ModelCondition> for Condition {
    fn from(condition: &ModelCondition) -> Self {
        Self {
            r#type: condition.kind.clone(),
            status: match condition.status {
                ModelStatus::True => ConditionStatus::True,
                ModelStatus::False => ConditionStatus::False,
                ModelStatus::Unknown => ConditionStatus::Unknown,
            },
            observed_generation: condition.observed_generation,
            last_transition_time: condition.last_transition,
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }
    }
}

/// JSON merge patches (RFC 7386) for one NodeClaim; `None` where nothing of that part changes. Both carry uid and
/// resourceVersion, so that they apply to the object that was judged or not at all. Finalizers and conditions are lists,
/// which a merge patch replaces: they are worked out from the object as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClaimPatch {
    pub metadata: Option<Value>,
    /// For the `status` subresource. Its resourceVersion must be replaced by that of the answer where both are sent.
    pub status: Option<Value>,
}

impl NodeClaimPatch {
    pub fn new(update: &NodeClaimUpdate, current: &model::node_claim::NodeClaim) -> Self {
        let preconditions = preconditions(&update.uid.0, &update.resource_version);
        let mut metadata = preconditions.clone();
        set(&mut metadata, "labels", &update.set_labels);
        set(&mut metadata, "annotations", &update.set_annotations);
        set_finalizers(
            &mut metadata,
            &current.finalizers,
            &update.add_finalizers,
            &update.remove_finalizers,
        );
        let metadata = (metadata != preconditions).then(|| json!({ "metadata": metadata }));

        let mut status = Map::new();
        let mut put = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                status.insert(field.to_owned(), value);
            }
        };
        put(
            "nodeName",
            update.node_name.as_ref().map(|name| json!(name)),
        );
        put(
            "providerID",
            update.provider_id.as_ref().map(|id| json!(id)),
        );
        put("imageID", update.image_id.as_ref().map(|id| json!(id)));
        put(
            "capacity",
            update
                .capacity
                .as_ref()
                .map(|amounts| json!(resource_list(amounts))),
        );
        put(
            "allocatable",
            update
                .allocatable
                .as_ref()
                .map(|amounts| json!(resource_list(amounts))),
        );
        put(
            "conditions",
            (!update.conditions.is_empty()).then(|| json!(conditions(update, current))),
        );
        let status =
            (!status.is_empty()).then(|| json!({ "metadata": preconditions, "status": status }));
        Self { metadata, status }
    }
}

/// The conditions as they will be: those of the update in place of, or after, those there are.
fn conditions(update: &NodeClaimUpdate, current: &model::node_claim::NodeClaim) -> Vec<Condition> {
    let kept = current.status.conditions.iter().filter(|condition| {
        update
            .conditions
            .iter()
            .all(|changed| changed.kind != condition.kind)
    });
    let mut conditions: Vec<Condition> = kept
        .chain(&update.conditions)
        .map(Condition::from)
        .collect();
    conditions.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    conditions
}

/// A JSON merge patch for one Node, with uid and resourceVersion; `None` where nothing changes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePatch(pub Option<Value>);

impl NodePatch {
    pub fn new(update: &NodeUpdate, current: &model::node::Node) -> Self {
        let preconditions = preconditions(&update.uid.0, &update.resource_version);
        let mut metadata = preconditions.clone();
        set(&mut metadata, "labels", &update.set_labels);
        set(&mut metadata, "annotations", &update.set_annotations);
        set_finalizers(
            &mut metadata,
            &current.finalizers,
            &update.add_finalizers,
            &update.remove_finalizers,
        );
        if let Some((claim, uid)) = &update.owner {
            let owner = OwnerReference {
                api_version: NodeClaim::API_VERSION.to_owned(),
                kind: NodeClaim::KIND.to_owned(),
                name: claim.0.clone(),
                uid: uid.0.clone(),
                controller: None,
                block_owner_deletion: Some(true),
            };
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        let mut patch = Map::new();
        if let Some(taints) = &update.taints {
            let taints: Vec<_> = taints.iter().map(taint_entry).collect();
            patch.insert("spec".to_owned(), json!({ "taints": taints }));
        }
        if metadata == preconditions && patch.is_empty() {
            return Self(None);
        }
        patch.insert("metadata".to_owned(), Value::Object(metadata));
        Self(Some(Value::Object(patch)))
    }
}

fn preconditions(uid: &str, resource_version: &str) -> Map<String, Value> {
    let pairs = [("uid", uid), ("resourceVersion", resource_version)];
    pairs
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(field, value)| (field.to_owned(), value.into()))
        .collect()
}

fn set(
    metadata: &mut Map<String, Value>,
    field: &str,
    entries: &std::collections::BTreeMap<String, String>,
) {
    if !entries.is_empty() {
        metadata.insert(field.to_owned(), json!(entries));
    }
}

fn set_finalizers(
    metadata: &mut Map<String, Value>,
    current: &[String],
    add: &[String],
    remove: &[String],
) {
    let added = add.iter().filter(|name| !current.contains(name));
    let finalizers: Vec<&String> = current
        .iter()
        .chain(added)
        .filter(|name| !remove.contains(name))
        .collect();
    if !finalizers.iter().copied().eq(current) {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
}
