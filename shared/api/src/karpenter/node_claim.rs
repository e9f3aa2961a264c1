use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeClassReference, Requirement, Taint, default_expire_after};
use crate::conditions::Condition;
use crate::duration::{GoDuration, NillableDuration};
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::schema::rules;

/// One node, from the request to launch it until its removal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeClaim {
    pub metadata: ObjectMeta,
    pub spec: NodeClaimSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodeClaimStatus>,
}

resource!(NodeClaim, "karpenter.sh/v1", "nodeclaims", Cluster);

/// Requirements on the node. Immutable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[("spec is immutable", "self == oldSelf")])))]
pub struct NodeClaimSpec {
    /// Taints of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that the node starts with and that another component removes; until then the node is not initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Requirements on the node's labels. All must be met.
    #[schemars(length(max = 100), transform = rules::node_claim_requirements)]
    pub requirements: Vec<Requirement>,
    /// Resources that the node must provide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequests>,
    /// The NodeClass that configures the node.
    pub node_class_ref: NodeClassReference,
    /// Upper bound on the duration of draining, counted from the deletion of the NodeClaim; see the field of this name in NodePool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// Maximum lifetime of the node, counted from its creation, or Never.
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

/// Resources that a node must provide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// Minimum amounts, by resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
}

/// Instance and Node of the NodeClaim, and its conditions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node, once it has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Provider id of the instance, as in the Node: `aws:///<zone>/<instance>`.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// The image the instance runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// Expected capacity of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<ResourceList>,
    /// Expected allocatable resources of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocatable: Option<ResourceList>,
    /// Conditions of the NodeClaim: Launched, Registered and Initialized, which Ready summarizes, and those about disruption and
    /// termination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::keyed_by_type, transform = rules::reason_may_be_empty)]
    pub conditions: Option<Vec<Condition>>,
    /// Time at which a pod was last bound to the node or left it; a pod that ends or is being deleted counts as leaving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Timestamp>,
}
