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

/// A kind of nodes that may be launched for pods that do not fit anywhere, with its limits and the rules by which its nodes
/// are removed again.
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
    /// The nodes to launch. What is launched in the end may be narrower, because pods narrow it further.
    pub template: NodeClaimTemplate,
    /// Conditions and pace of the removal of nodes.
    #[serde(default)]
    #[schemars(extend("default" = serde_json::json!({ "consolidateAfter": "0s" })))]
    pub disruption: Disruption,
    /// Bounds on what the nodes of this pool amount to together, by resource; `nodes` counts them. A pool with replicas may
    /// only limit `nodes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// Order of preference among pools that fit a pod: heavier first, none counts as 0. Not for pools with replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<i32>,
    /// Keeps this many nodes, whatever the pods ask for; the pool is then static. Consolidation settings do not apply, limits
    /// may name only `nodes`, and weight may not be set. Cannot be added or removed later. Alpha.
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
    /// The node's shape.
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
    /// Put on the NodeClaim and its Node. Pods may select on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::node_pool_labels)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Put on the NodeClaim and its Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "granular"))]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// The shape of a pool's nodes: a NodeClaim's spec without the resources, which come from the pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    /// Taints that pods must tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that something else (often a DaemonSet) removes once the node is prepared. Pods need not tolerate them to have a
    /// node launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Conditions on the node's labels, such as instance types, zones or capacity types. All must hold.
    #[schemars(length(max = 100), transform = rules::node_pool_requirements)]
    pub requirements: Vec<Requirement>,
    /// The NodeClass that says how the node is made.
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[
        ("nodeClassRef.group is immutable", "self.group == oldSelf.group"),
        ("nodeClassRef.kind is immutable", "self.kind == oldSelf.kind"),
    ])))]
    pub node_class_ref: NodeClassReference,
    /// The longest time that draining may take, counted from the deletion of the NodeClaim. When it is over, pods are deleted
    /// whatever their disruption budgets, do-not-disrupt annotations or own grace periods say; pods are deleted early enough to
    /// have their own grace period before. Without it draining may wait for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<GoDuration>,
    /// Maximum lifetime of a node, counted from its creation, or Never.
    #[serde(default = "default_expire_after")]
    pub expire_after: NillableDuration,
}

/// Conditions and pace of the removal of a pool's nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Time without changes to its pods after which a node may be consolidated, or Never. Not for pools with replicas.
    #[serde(default = "default_consolidate_after")]
    pub consolidate_after: NillableDuration,
    /// Nodes that may be consolidated: only empty ones (WhenEmpty), all (WhenEmptyOrUnderutilized), or those whose removal
    /// saves enough for the disruption it causes (Balanced). Not for pools with replicas.
    #[serde(default)]
    pub consolidation_policy: ConsolidationPolicy,
    /// Upper bounds on the nodes that may be disrupted at once. Of several budgets in force the strictest counts.
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
    /// Removals the budget is about. Without this list it is about all of them; an empty list matches none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
    /// Number of nodes, or a share of the pool's nodes such as 10%.
    #[serde(default = "default_budget_nodes")]
    #[schemars(regex(pattern = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// Schedule by which the budget comes into force: five cron fields, or one of @hourly, @daily, @midnight, @weekly, @monthly,
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

/// Totals of the pool's nodes, and whether new ones can be launched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    /// Number of nodes of this pool.
    #[serde(default)]
    pub nodes: i64,
    /// Summed capacity of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceList>,
    /// Generation of the NodeClass that NodeRegistrationHealthy is about; a newer one resets that condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    /// ValidationSucceeded and NodeClassReady, which make up Ready, and NodeRegistrationHealthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = rules::keyed_by_type)]
    pub conditions: Option<Vec<Condition>>,
}
