use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Requirement;
use crate::conditions::Condition;
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::schema::rules;

/// Overrides of the prices and capacities of instance types that scheduling uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeOverlay {
    pub metadata: ObjectMeta,
    pub spec: NodeOverlaySpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeOverlayStatus>,
}

resource!(
    NodeOverlay,
    "karpenter.sh/v1alpha1",
    "nodeoverlays",
    Cluster
);

/// Instance types to override, and their prices and capacities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[
    ("cannot set both 'price' and 'priceAdjustment'", "!has(self.price) || !has(self.priceAdjustment)"),
])))]
pub struct NodeOverlaySpec {
    /// Instance types and offerings that the overlay applies to: requirements on their labels, on the NodePool's name and on the
    /// labels of its template. `minValues` has no effect.
    #[schemars(length(max = 100), transform = rules::node_overlay_requirements)]
    pub requirements: Vec<Requirement>,
    /// Change of the price: an amount in dollars per hour such as -0.5 or +1.2, or a percentage such as -15% or +10%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"
    ))]
    pub price_adjustment: Option<String>,
    /// Price in dollars per hour, instead of the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^\d+(\.\d+)?$"))]
    pub price: Option<String>,
    /// Extended resources of the nodes, in addition to those of the instance type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[(
        "invalid resource restricted",
        "self.all(x, !(x in ['cpu', 'memory', 'ephemeral-storage', 'pods']))",
    )])))]
    pub capacity: Option<ResourceList>,
    /// Precedence of overlays of the same value: the highest weight applies, a missing weight counts as 0, and equal weights are
    /// ordered by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub weight: Option<i32>,
}

/// Whether the overlay is applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeOverlayStatus {
    /// Conditions of the overlay: ValidationSucceeded, which Ready summarizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::keyed_by_type)]
    pub conditions: Option<Vec<Condition>>,
}
