use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodeClassReference, Requirement, Taint, default_expire_after, hours};
use crate::conditions::Condition;
use crate::duration::{GoDuration, NillableDuration};
use crate::meta::{ObjectMeta, resource};
use crate::quantity::ResourceList;
use crate::schema::rules;
use crate::wire::string_enum;

/// Template of nodes that are launched for pods that fit on no existing node, with limits and rules for the removal of the nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodePool {
    pub metadata: ObjectMeta,
    pub spec: NodePoolSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<NodePoolStatus>,
}

resource!(NodePool, "karpenter.sh/v1", "nodepools", Cluster);

/// Nodes that may be launched, their limits, and the rules of their removal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::cel(&[
    (
        "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes",
        "has(self.replicas) == has(oldSelf.replicas)",
    ),
    (
        "only 'limits.nodes' is supported on static NodePools",
        "!has(self.replicas) || (!has(self.limits) || size(self.limits) == 0 || (size(self.limits) == 1 && 'nodes' in self.limits))",
    ),
    ("'weight' is not supported on static NodePools", "!has(self.replicas) || !has(self.weight)"),
])))]
pub struct NodePoolSpec {
    /// Template of the nodes to launch. Requirements of pods can restrict it further.
    pub template: NodeClaimTemplate,
    /// Rules and rate limits for the removal of nodes.
    #[serde(default)]
    #[schemars(extend("default" = serde_json::json!({ "consolidateAfter": "0s" })))]
    pub disruption: Disruption,
    /// Upper bounds on the total capacity of the pool's nodes, by resource; `nodes` bounds their number. A pool with replicas may
    /// only limit `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Order of preference among pools that fit a pod: a higher weight is tried first, and a missing weight counts as 0. Not
    /// allowed with replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Number of nodes that the pool keeps, regardless of pods; the pool is then static. Consolidation settings do not apply,
    /// limits may name only `nodes`, and weight may not be set. Cannot be added or removed later. Alpha.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i64>,
}

/// Template of the NodeClaims of the pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeClaimTemplate {
    /// Labels and annotations for the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// Properties of the nodes.
    pub spec: NodeClaimTemplateSpec,
}

impl NodeClaimTemplate {
    pub fn labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.metadata
            .iter()
            .flat_map(|metadata| metadata.labels.iter().flatten())
    }

    pub fn annotations(&self) -> impl Iterator<Item = (&String, &String)> {
        self.metadata
            .iter()
            .flat_map(|metadata| metadata.annotations.iter().flatten())
    }
}

/// Labels and annotations for the nodes of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels of the NodeClaims and their Nodes. Pods may select nodes by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::node_pool_labels)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the NodeClaims and their Nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Properties of a pool's nodes: a NodeClaim's spec without the resources, which depend on the pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints of the nodes, which pods must tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that another component, often a DaemonSet, removes once the node is prepared. Nodes are also launched for pods that
    /// do not tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Requirements on the node's labels, such as instance types, zones or capacity types. All must be met.
    #[schemars(length(max = 100), transform = rules::node_pool_requirements)]
    pub requirements: Vec<Requirement>,
    /// The NodeClass that configures the node.
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[
        ("nodeClassRef.group is immutable", "self.group == oldSelf.group"),
        ("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
    ])))]
    pub node_class_ref: NodeClassReference,
    /// Upper bound on the duration of draining, counted from the deletion of the NodeClaim. After it, pods are deleted regardless
    /// of PodDisruptionBudgets, do-not-disrupt annotations and their grace periods; a pod is deleted early enough that its grace
    /// period ends by then. Without it, draining can wait forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// Maximum lifetime of a node, counted from its creation, or Never.
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

/// Rules and rate limits for the removal of a pool's nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Time without changes to its pods after which a node may be consolidated, or Never. Not allowed with replicas.
    #[serde(default = "default_consolidate_after")]
    pub consolidate_after: NillableDuration,
    /// Nodes that may be consolidated: only empty ones (WhenEmpty), all (WhenEmptyOrUnderutilized), or those whose removal
    /// saves enough to justify its disruption (Balanced). Not allowed with replicas.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// Upper bounds on the nodes that may be disrupted at once. If several budgets are in force, the strictest applies.
    #[serde(default = "default_budgets")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = rules::cel(&[
            ("'schedule' must be set with 'duration'", "self.all(x, has(x.schedule) == has(x.duration))"),
        ]))
    )]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: default_consolidate_after(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: default_budgets(),
        }
    }
}

string_enum! {
    /// Nodes that may be consolidated.
    #[derive(Default)]
    ConsolidationPolicy { WhenEmpty, #[default] WhenEmptyOrUnderutilized, Balanced }
}

/// Upper bound on the nodes that may be disrupted at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["nodes"]))]
pub struct Budget {
    /// Reasons for removal that the budget applies to. Without this list it applies to all reasons; an empty list matches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Number of nodes, or a percentage of the pool's nodes such as 10%.
    #[serde(default = "default_budget_nodes")]
    #[schemars(regex(pattern = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// Schedule on which the budget comes into force: five cron fields, or one of @hourly, @daily, @midnight, @weekly, @monthly,
    /// @yearly and @annually, in UTC. Needs a duration. A budget without schedule is always in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(
        pattern = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
    ))]
    pub schedule: Option<String>,
    /// Time for which the budget stays in force, in hours and minutes. Needs a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<GoDuration>,
}

string_enum! {
    /// Reason for removing a node.
    DisruptionReason { Underutilized, Empty, Drifted, Unhealthy }
}

fn default_consolidate_after() -> NillableDuration {
    hours(0, "0s")
}

fn default_budgets() -> Vec<Budget> {
    vec![Budget {
        reasons: None,
        nodes: default_budget_nodes(),
        schedule: None,
        duration: None,
    }]
}

fn default_budget_nodes() -> String {
    "10%".to_owned()
}

/// Totals of the pool's nodes, and whether new nodes can be launched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Number of nodes of this pool.
    #[serde(default)]
    pub nodes: i64,
    /// Total capacity of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceList>,
    /// Generation of the NodeClass that NodeRegistrationHealthy refers to; a newer one resets that condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// Conditions of the pool: ValidationSucceeded and NodeClassReady, which Ready summarizes, and NodeRegistrationHealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::keyed_by_type)]
    pub conditions: Option<Vec<Condition>>,
}
