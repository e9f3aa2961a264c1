//! Conversion of decisions to API objects: the NodeClaim of a launch, and patches for NodeClaims and Nodes.

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
    /// The object to create (docs/spec/scheduling.md#node-claim-object), with Whittle's finalizer, so that no instance
    /// can outlive its NodeClaim.
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
            // Both texts come from a NodePool that was parsed with these types.
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

/// JSON merge patches (RFC 7386) for one NodeClaim; `None` for a part without changes. Both contain uid and
/// resourceVersion, so that they apply to the object as it was read or not at all. Finalizers and conditions are lists,
/// which a merge patch replaces, so they are computed from the object as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeClaimPatch {
    pub metadata: Option<Value>,
    /// Patch of the `status` subresource. If both patches are sent, the second one needs the resourceVersion from the
    /// first one's response.
    pub status: Option<Value>,
}

impl NodeClaimPatch {
    pub fn new(update: &NodeClaimUpdate, current: &model::node_claim::NodeClaim) -> Self {
        let preconditions = preconditions(&update.uid.0, &update.resource_version);
        let mut metadata = preconditions.clone();
        set(&mut metadata, "labels", &update.set_labels);
        set(&mut metadata, "annotations", &update.set_annotations);
        remove(&mut metadata, "annotations", &update.remove_annotations);
        set_finalizers(
            &mut metadata,
            &current.finalizers,
            &update.add_finalizers,
            &update.remove_finalizers,
        );
        guard_lists(&mut metadata, &current.resource_version);
        let metadata = (metadata != preconditions).then(|| json!({ "metadata": metadata }));

        let conditions_change =
            !update.conditions.is_empty() || !update.clear_conditions.is_empty();
        let status = karpenter::NodeClaimStatus {
            node_name: update.node_name.as_ref().map(|name| name.0.clone()),
            provider_id: update.provider_id.clone(),
            image_id: update.image_id.clone(),
            capacity: update.capacity.as_ref().map(resource_list),
            allocatable: update.allocatable.as_ref().map(resource_list),
            conditions: conditions_change.then(|| conditions(update, current)),
            last_pod_event_time: update.last_pod_event,
        };
        let status = (status != karpenter::NodeClaimStatus::default())
            .then(|| json!({ "metadata": preconditions, "status": status }));
        Self { metadata, status }
    }
}

/// The complete new conditions: the current ones without the cleared ones, overridden by those of the update.
fn conditions(update: &NodeClaimUpdate, current: &model::node_claim::NodeClaim) -> Vec<Condition> {
    let kept = current.status.conditions.iter().filter(|condition| {
        let kind = &condition.kind;
        !update.clear_conditions.contains(kind)
            && update
                .conditions
                .iter()
                .all(|changed| changed.kind != *kind)
    });
    let mut conditions: Vec<Condition> = kept
        .chain(&update.conditions)
        .map(Condition::from)
        .collect();
    conditions.sort_by(|a, b| a.r#type.cmp(&b.r#type));
    conditions
}

/// JSON merge patch for one Node, with uid and resourceVersion; `None` without changes.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePatch(pub Option<Value>);

impl NodePatch {
    /// Builds the patch for a node as it was read. `owners` are its owner references, of which those to other kinds
    /// than NodeClaims are kept.
    pub fn new(
        update: &NodeUpdate,
        current: &model::node::Node,
        owners: &[OwnerReference],
    ) -> Self {
        let preconditions = preconditions(&update.uid.0, &update.resource_version);
        let mut metadata = preconditions.clone();
        set(&mut metadata, "labels", &update.set_labels);
        set(&mut metadata, "annotations", &update.set_annotations);
        remove(&mut metadata, "labels", &update.remove_labels);
        remove(&mut metadata, "annotations", &update.remove_annotations);
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
            let others = owners.iter().filter(|other| {
                (other.api_version.as_str(), other.kind.as_str())
                    != (NodeClaim::API_VERSION, NodeClaim::KIND)
            });
            let owners: Vec<_> = others.chain([&owner]).collect();
            metadata.insert("ownerReferences".to_owned(), json!(owners));
        }
        let mut patch = Map::new();
        let mut spec = Map::new();
        if let Some(taints) = &update.taints {
            let taints: Vec<_> = taints.iter().map(taint_entry).collect();
            spec.insert("taints".to_owned(), json!(taints));
        }
        if update.cordon && !current.unschedulable {
            spec.insert("unschedulable".to_owned(), true.into());
        }
        if update.uncordon && current.unschedulable {
            spec.insert("unschedulable".to_owned(), false.into());
        }
        let replaces_list = spec.contains_key("taints");
        if !spec.is_empty() {
            patch.insert("spec".to_owned(), Value::Object(spec));
        }
        if metadata == preconditions && patch.is_empty() {
            return Self(None);
        }
        if replaces_list {
            guard(&mut metadata, &current.resource_version);
        }
        guard_lists(&mut metadata, &current.resource_version);
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

/// Adds the resourceVersion if a list is replaced, so that no concurrent addition to it is lost.
fn guard_lists(metadata: &mut Map<String, Value>, read_version: &str) {
    if metadata.contains_key("finalizers") || metadata.contains_key("ownerReferences") {
        guard(metadata, read_version);
    }
}

/// Restricts a patch to this resourceVersion, unless it already has one.
fn guard(metadata: &mut Map<String, Value>, read_version: &str) {
    if !read_version.is_empty() {
        let version = metadata.entry("resourceVersion");
        version.or_insert_with(|| read_version.into());
    }
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

/// Removes entries: a merge patch deletes the fields that it sets to null.
fn remove(metadata: &mut Map<String, Value>, field: &str, keys: &[String]) {
    if keys.is_empty() {
        return;
    }
    let entries = metadata.entry(field).or_insert_with(|| json!({}));
    if let Some(entries) = entries.as_object_mut() {
        entries.extend(keys.iter().map(|key| (key.clone(), Value::Null)));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;
    use model::{Resources, node::Node, node_claim};

    use super::*;

    fn pretty(value: &impl serde::Serialize) -> String {
        serde_json::to_string_pretty(value).unwrap()
    }

    #[test]
    fn launch_converts_to_node_claim() {
        let launch: Launch = serde_json::from_value(json!({
            "name": "default-x7f2p", "node_pool": "default", "node_pool_uid": "pool-uid",
            "labels": { "karpenter.sh/nodepool": "default" }, "annotations": { "karpenter.sh/nodepool-hash": "1" },
            "spec": {
                "node_class": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                "requirements": [{ "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"], "min_values": 1 }],
                "requests": { "cpu": 1500, "memory": 1073741824, "pods": 3 },
                "taints": [{ "key": "dedicated", "value": "", "effect": "NoSchedule" }],
                "startup_taints": [], "expire_after": "720h", "termination_grace_period": null,
            },
            "pods": [], "instance_types": ["m5.large"],
            "cheapest": { "instance_type": "m5.large", "capacity_type": "spot", "zone": "a", "price": 1, "capacity": {} },
        }))
        .unwrap();
        expect![[r#"
            {
              "apiVersion": "karpenter.sh/v1",
              "kind": "NodeClaim",
              "metadata": {
                "annotations": {
                  "karpenter.sh/nodepool-hash": "1"
                },
                "finalizers": [
                  "karpenter.sh/termination"
                ],
                "labels": {
                  "karpenter.sh/nodepool": "default"
                },
                "name": "default-x7f2p",
                "ownerReferences": [
                  {
                    "apiVersion": "karpenter.sh/v1",
                    "blockOwnerDeletion": true,
                    "kind": "NodePool",
                    "name": "default",
                    "uid": "pool-uid"
                  }
                ]
              },
              "spec": {
                "expireAfter": "720h",
                "nodeClassRef": {
                  "group": "karpenter.k8s.aws",
                  "kind": "EC2NodeClass",
                  "name": "default"
                },
                "requirements": [
                  {
                    "key": "node.kubernetes.io/instance-type",
                    "minValues": 1,
                    "operator": "In",
                    "values": [
                      "m5.large"
                    ]
                  }
                ],
                "resources": {
                  "requests": {
                    "cpu": "1500m",
                    "memory": "1Gi",
                    "pods": "3"
                  }
                },
                "taints": [
                  {
                    "effect": "NoSchedule",
                    "key": "dedicated"
                  }
                ]
              }
            }"#]]
        .assert_eq(&pretty(&NodeClaim::from(&launch).to_manifest().unwrap()));
    }

    fn condition(kind: &str, status: ModelStatus) -> ModelCondition {
        ModelCondition {
            kind: kind.into(),
            status,
            reason: kind.into(),
            message: String::new(),
            last_transition: jiff::Timestamp::UNIX_EPOCH,
            observed_generation: Some(1),
        }
    }

    #[test]
    fn node_claim_patch_keeps_unchanged_conditions() {
        let mut claim = node_claim::NodeClaim::default();
        claim.status.conditions = ["Launched", "Drifted", "Consolidatable"]
            .map(|kind| condition(kind, ModelStatus::Unknown))
            .into();
        let update = NodeClaimUpdate {
            uid: "u".into(),
            resource_version: "7".into(),
            conditions: vec![condition("Launched", ModelStatus::True)],
            clear_conditions: vec!["Drifted".into()],
            provider_id: Some("aws:///a/i-1".into()),
            allocatable: Some(Resources::from([("cpu", 1_930)])),
            ..NodeClaimUpdate::default()
        };
        let patch = NodeClaimPatch::new(&update, &claim);
        assert_eq!(patch.metadata, None);
        let patch = patch.status.unwrap();
        assert_eq!(
            patch["metadata"],
            json!({ "uid": "u", "resourceVersion": "7" })
        );
        assert_eq!(patch["status"]["providerID"], "aws:///a/i-1");
        assert_eq!(patch["status"]["allocatable"], json!({ "cpu": "1930m" }));
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        let conditions: Vec<_> = conditions
            .iter()
            .map(|condition| (&condition["type"], &condition["status"]))
            .collect();
        assert_eq!(
            conditions,
            [
                (&json!("Consolidatable"), &json!("Unknown")),
                (&json!("Launched"), &json!("True"))
            ]
        );
    }

    #[test]
    fn uncordoned_node_loses_labels_and_annotations() {
        let update = NodeUpdate {
            uid: "u".into(),
            uncordon: true,
            remove_labels: vec!["a".into()],
            remove_annotations: vec!["b".into()],
            ..NodeUpdate::default()
        };
        let cordoned = Node {
            unschedulable: true,
            ..Node::default()
        };
        let expected = json!({
            "metadata": {"uid": "u", "labels": {"a": null}, "annotations": {"b": null}},
            "spec": {"unschedulable": false},
        });
        assert_eq!(NodePatch::new(&update, &cordoned, &[]).0, Some(expected));
    }

    #[test]
    fn node_patch_contains_only_changes() {
        let node = Node {
            finalizers: vec!["a".into()],
            ..Node::default()
        };
        let update = NodeUpdate {
            uid: "u".into(),
            ..NodeUpdate::default()
        };
        assert_eq!(NodePatch::new(&update, &node, &[]), NodePatch(None));

        let add_what_is_there = NodeUpdate {
            add_finalizers: vec!["a".into()],
            ..update.clone()
        };
        assert_eq!(
            NodePatch::new(&add_what_is_there, &node, &[]),
            NodePatch(None)
        );

        let update = NodeUpdate {
            set_labels: BTreeMap::from([("karpenter.sh/registered".into(), "true".into())]),
            add_finalizers: vec!["b".into()],
            taints: Some(Vec::new()),
            owner: Some(("default-x7f2p".into(), "claim-uid".into())),
            ..update
        };
        expect![[r#"
            {
              "metadata": {
                "finalizers": [
                  "a",
                  "b"
                ],
                "labels": {
                  "karpenter.sh/registered": "true"
                },
                "ownerReferences": [
                  {
                    "apiVersion": "karpenter.sh/v1",
                    "blockOwnerDeletion": true,
                    "kind": "NodeClaim",
                    "name": "default-x7f2p",
                    "uid": "claim-uid"
                  }
                ],
                "uid": "u"
              },
              "spec": {
                "taints": []
              }
            }"#]]
        .assert_eq(&pretty(&NodePatch::new(&update, &node, &[]).0.unwrap()));

        let remove = NodeUpdate {
            remove_finalizers: vec!["a".into()],
            uid: "u".into(),
            ..NodeUpdate::default()
        };
        let patch = NodePatch::new(&remove, &node, &[]).0.unwrap();
        assert_eq!(
            patch,
            json!({ "metadata": { "uid": "u", "finalizers": [] } })
        );
    }

    #[test]
    fn replaced_lists_require_the_read_resource_version() {
        let node = Node {
            resource_version: "7".into(),
            finalizers: vec!["others/finalizer".into()],
            ..Node::default()
        };
        let others = OwnerReference {
            api_version: "v1".into(),
            kind: "Machine".into(),
            name: "machine-1".into(),
            ..OwnerReference::default()
        };
        let earlier = OwnerReference {
            api_version: NodeClaim::API_VERSION.into(),
            kind: NodeClaim::KIND.into(),
            ..others.clone()
        };
        let owned = NodeUpdate {
            owner: Some(("default-x7f2p".into(), "claim-uid".into())),
            ..NodeUpdate::default()
        };
        let patch = NodePatch::new(&owned, &node, &[others, earlier]).0.unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let owners = patch["metadata"]["ownerReferences"].as_array().unwrap();
        let names: Vec<_> = owners.iter().map(|owner| &owner["name"]).collect();
        assert_eq!(names, ["machine-1", "default-x7f2p"]);

        let finalized = NodeUpdate {
            add_finalizers: vec!["karpenter.sh/termination".into()],
            ..NodeUpdate::default()
        };
        let tainted = NodeUpdate {
            taints: Some(Vec::new()),
            ..NodeUpdate::default()
        };
        for update in [&finalized, &tainted] {
            let patch = NodePatch::new(update, &node, &[]).0.unwrap();
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
        }
        let judged = NodeUpdate {
            resource_version: "5".into(),
            ..finalized
        };
        let patch = NodePatch::new(&judged, &node, &[]).0.unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "5");

        let labelled = NodeUpdate {
            set_labels: BTreeMap::from([("a".into(), "b".into())]),
            ..NodeUpdate::default()
        };
        let patch = NodePatch::new(&labelled, &node, &[]).0.unwrap();
        assert_eq!(patch["metadata"].get("resourceVersion"), None);
    }
}
