//! Types that NodePools and NodeClaims share: requirements, taints and the NodeClass reference.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::rules;
use crate::wire::{null_as_default, string_enum};

/// A requirement on one label of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Key of the label.
    #[schemars(length(max = 316), regex(pattern = rules::QUALIFIED_NAME))]
    pub key: String,
    /// Relation of the label's value to `values`.
    pub operator: Operator,
    /// Values of the operator: at least one for In and NotIn, none for Exists and DoesNotExist, and exactly one non-negative
    /// integer for Gt, Lt, Gte and Lte.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    // Upstream bounds the list where its items were meant, so the API server enforces nothing here
    // (docs/spec/scheduling.md#node-pool); runtime validation does.
    #[schemars(
        with = "Option<Vec<String>>",
        extend("x-kubernetes-list-type" = "atomic", "maxLength" = 63, "pattern" = rules::LABEL_VALUE)
    )]
    pub values: Vec<String>,
    /// Minimum number of distinct values of the label that the instance types of a launch must have. Alpha.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 50), transform = rules::without_format)]
    pub min_values: Option<i32>,
}

string_enum! {
    /// Relation of a label to the values of a requirement.
    Operator { Gte, Lte, In, NotIn, Exists, DoesNotExist, Gt, Lt }
}

/// A taint of a node, which keeps away pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint.
    #[schemars(length(min = 1), regex(pattern = rules::QUALIFIED_NAME))]
    pub key: String,
    /// Value that tolerations may compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = rules::QUALIFIED_NAME))]
    pub value: Option<String>,
    /// Effect on pods that do not tolerate the taint: kept away (NoSchedule), kept away if possible (PreferNoSchedule), or also
    /// evicted (NoExecute).
    pub effect: TaintEffect,
    /// Time at which the taint was added to the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

string_enum! {
    /// Effect of a taint on pods that do not tolerate it.
    TaintEffect { NoSchedule, PreferNoSchedule, NoExecute }
}

/// The NodeClass that configures nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClassReference {
    /// API group of the NodeClass, without version: `karpenter.k8s.aws`.
    #[schemars(
        regex(pattern = "^[^/]*$"),
        extend("x-kubernetes-validations" = rules::cel(&[("group may not be empty", "self != ''")]))
    )]
    pub group: String,
    /// Kind of the NodeClass: `EC2NodeClass`.
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[("kind may not be empty", "self != ''")])))]
    pub kind: String,
    /// Name of the NodeClass.
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[("name may not be empty", "self != ''")])))]
    pub name: String,
}

impl NodeClassReference {
    /// Whether the reference names an EC2NodeClass: only objects of which this is true are ours to manage.
    pub fn is_ec2(&self) -> bool {
        self.group == crate::names::group::KARPENTER_AWS && self.kind == "EC2NodeClass"
    }
}
