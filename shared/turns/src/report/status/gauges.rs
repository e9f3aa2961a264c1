//! Gauges of a cluster's state, under Karpenter's names (docs/spec/lifecycle.md#metrics). Karpenter's series for each node and
//! pod are summed here over nodes with equal labels, as dashboards sum them anyway: a series for each would not fit into a
//! ConfigMap.

use std::collections::BTreeMap;

use api::names::label;
use model::{
    NodeName, Resources, Snapshot,
    labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE},
    node::Node,
    pod::{Pod, PodPhase},
    resources::{CPU, MEMORY, PODS},
    status::Series,
};
use planner::{EffectiveZone, Inventory, PendingPods};

use crate::report::Waiting;

type Labels = BTreeMap<String, String>;

/// Labels by which nodes are grouped, with their names in metrics. The last one is left out if it would make too many
/// groups.
const NODE_LABELS: [(&str, &str); 5] = [
    ("nodepool", NODE_POOL),
    ("capacity_type", CAPACITY_TYPE),
    ("zone", ZONE),
    ("arch", ARCH),
    ("instance_type", INSTANCE_TYPE),
];
/// Upper bound on groups: each has about eight series of two hundred bytes.
const GROUPS_MAX: usize = 80;
/// Resources that have a series even at zero.
const ALWAYS_PUBLISHED: [&str; 3] = [CPU, MEMORY, PODS];

/// Value of the gauge if no budget limits disruptions, as in Karpenter.
const UNLIMITED: usize = i32::MAX as usize;

pub(super) fn cluster_gauges(snapshot: &Snapshot) -> Vec<Series> {
    let mut gauges = Gauges::default();
    of_pools(snapshot, &mut gauges);
    let labels_by_node = labels_by_node(&snapshot.nodes);
    of_nodes(snapshot, &labels_by_node, &mut gauges);
    of_pods(snapshot, &labels_by_node, &mut gauges);
    gauges.0
}

/// Waiting pods: those without a place whatever the provisioner might launch, those that it ignores, and the zones of the
/// others.
pub(super) fn waiting_gauges(waiting: &Waiting) -> Vec<Series> {
    let mut gauges = Gauges::default();
    let labels = Labels::from([("controller".to_owned(), "provisioner".to_owned())]);
    let name = "karpenter_scheduler_unschedulable_pods_count";
    gauges.push(name, labels.clone(), number(waiting.unplaced));
    let PendingPods { ignored, by_zone } = &waiting.pending;
    let name = "karpenter_scheduler_ignored_pods_count";
    gauges.push(name, Labels::new(), number(*ignored));
    for (zone, pods) in by_zone {
        let zone = match zone {
            EffectiveZone::Only(zone) => zone.as_str(),
            EffectiveZone::Flexible => "flexible",
            EffectiveZone::Conflicting => "none",
        };
        let mut labels = labels.clone();
        labels.insert("zone".to_owned(), zone.to_owned());
        let name = "karpenter_scheduler_pending_pods_by_effective_zone_count";
        gauges.push(name, labels, number(*pods));
    }
    gauges.0
}

fn of_pools(snapshot: &Snapshot, gauges: &mut Gauges) {
    let inventory = Inventory::new(snapshot);
    for pool in &snapshot.node_pools {
        let labels = Labels::from([("nodepool".to_owned(), pool.name.to_string())]);
        let usage = with_always_published(inventory.usage(&pool.name));
        gauges.amounts("karpenter_nodepools_usage", &labels, &usage);
        gauges.amounts("karpenter_nodepools_limit", &labels, &pool.limits);
    }
    of_budgets(snapshot, gauges);
    of_deletion_costs(snapshot, gauges);
    for (reason, nodes) in planner::eligible_nodes(snapshot) {
        let labels = Labels::from([("reason".to_owned(), reason.as_str().to_lowercase())]);
        let name = "karpenter_voluntary_disruption_eligible_nodes";
        gauges.push(name, labels, number(nodes));
    }
    for (pool, spending) in planner::pool_spending(snapshot) {
        let labels = Labels::from([("nodepool".to_owned(), pool.to_string())]);
        let dollars = float(spending.price.0) / 1e9;
        gauges.push("karpenter_nodepools_cost_total", labels, dollars);
    }
}

/// Nodes whose pods wait for a later pass, while the gate is on.
fn of_deletion_costs(snapshot: &Snapshot, gauges: &mut Gauges) {
    let gates = &snapshot.settings.feature_gates;
    if gates.get(planner::POD_DELETION_COST_GATE) != Some(&true) {
        return;
    }
    let (_, left) = planner::deletion_costs(snapshot);
    for pool in &snapshot.node_pools {
        let labels = Labels::from([("nodepool".to_owned(), pool.name.to_string())]);
        let own = left.iter().filter(|node| node.node_pool == pool.name);
        let name = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes";
        gauges.push(name, labels, number(own.count()));
    }
}

/// A pair of series for each of Karpenter's four reasons.
fn of_budgets(snapshot: &Snapshot, gauges: &mut Gauges) {
    for budget in planner::pool_budgets(snapshot) {
        let labels = Labels::from([
            ("nodepool".to_owned(), budget.node_pool.to_string()),
            ("reason".to_owned(), budget.reason.as_str().to_lowercase()),
        ]);
        let allowed = number(budget.allowed.min(UNLIMITED));
        let name = "karpenter_nodepools_allowed_disruptions";
        gauges.push(name, labels.clone(), allowed);
        let name = "karpenter_nodepools_nodes_consuming_budgets";
        gauges.push(name, labels, number(budget.disrupting));
    }
}

/// Labels of each node's group.
fn labels_by_node(nodes: &[Node]) -> BTreeMap<&NodeName, Labels> {
    let by = |keys: &[(&str, &str)]| -> BTreeMap<&NodeName, Labels> {
        let labels = |node: &Node| {
            let of_node = keys.iter().filter_map(|(name, key)| {
                let value = node.labels.get(*key)?;
                Some(((*name).to_owned(), value.clone()))
            });
            of_node.chain([managed(is_managed(node))]).collect()
        };
        nodes
            .iter()
            .map(|node| (&node.name, labels(node)))
            .collect()
    };
    let labels_by_node = by(&NODE_LABELS);
    let mut groups: Vec<&Labels> = labels_by_node.values().collect();
    groups.sort();
    groups.dedup();
    if groups.len() <= GROUPS_MAX {
        return labels_by_node;
    }
    let (_, fewer) = NODE_LABELS.split_last().unwrap_or((&("", ""), &[]));
    by(fewer)
}

fn managed(is_managed: bool) -> (String, String) {
    ("managed".to_owned(), is_managed.to_string())
}

/// Whether a Node is managed, by the relay's rule for its own series: Nodes of old releases lack the NodeClass label, and those
/// of EKS Auto Mode carry the NodePool label, too.
fn is_managed(node: &Node) -> bool {
    let has_label = |key| node.labels.contains_key(key);
    has_label(label::EC2_NODE_CLASS)
        || (has_label(NODE_POOL) && !has_label("eks.amazonaws.com/nodeclass"))
}

fn of_nodes(
    snapshot: &Snapshot,
    labels_by_node: &BTreeMap<&NodeName, Labels>,
    gauges: &mut Gauges,
) {
    let mut requested: BTreeMap<&NodeName, Resources> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !is_over(pod)) {
        if let Some(node) = &pod.node_name {
            requested.entry(node).or_default().add(&pod.requests);
        }
    }
    let mut groups: BTreeMap<&Labels, (Resources, Resources)> = BTreeMap::new();
    let (mut allocatable, mut requests) = (Resources::default(), Resources::default());
    for node in &snapshot.nodes {
        let Some(labels) = labels_by_node.get(&node.name) else {
            continue;
        };
        let group = groups.entry(labels).or_default();
        group.0.add(&node.allocatable);
        allocatable.add(&node.allocatable);
        if let Some(of_pods) = requested.get(&node.name) {
            group.1.add(of_pods);
            requests.add(of_pods);
        }
    }
    for (labels, (allocatable, requests)) in groups {
        let (allocatable, requests) = (
            with_always_published(allocatable),
            with_always_published(requests),
        );
        gauges.amounts("karpenter_nodes_allocatable", labels, &allocatable);
        gauges.amounts("karpenter_nodes_total_pod_requests", labels, &requests);
    }
    for (resource, all) in allocatable.iter().filter(|(_, all)| *all > 0) {
        let share = 100.0 * float(requests.get(resource)) / float(all);
        let labels = of_resource(&Labels::new(), resource);
        gauges.push("karpenter_cluster_utilization_percent", labels, share);
    }
    let nodes = snapshot.nodes.len();
    let name = "karpenter_cluster_state_node_count";
    gauges.push(name, Labels::new(), number(nodes));
}

fn of_pods(snapshot: &Snapshot, labels_by_node: &BTreeMap<&NodeName, Labels>, gauges: &mut Gauges) {
    let mut groups: BTreeMap<(Option<&Labels>, PodPhase, bool), usize> = BTreeMap::new();
    for pod in &snapshot.pods {
        let node = pod
            .node_name
            .as_ref()
            .and_then(|node| labels_by_node.get(node));
        let group = (node, pod.phase, pod.node_name.is_some());
        *groups.entry(group).or_default() += 1;
    }
    for ((node, phase, scheduled), count) in groups {
        let mut labels = node.cloned().unwrap_or_else(|| [managed(false)].into());
        labels.insert("phase".to_owned(), format!("{phase:?}"));
        labels.insert("scheduled".to_owned(), scheduled.to_string());
        gauges.push("karpenter_pods_state", labels, number(count));
    }
}

#[derive(Default)]
struct Gauges(Vec<Series>);

impl Gauges {
    fn push(&mut self, name: &str, labels: Labels, value: f64) {
        self.0.push(Series {
            name: name.to_owned(),
            labels,
            value,
        });
    }

    /// A series for each resource, in cores, bytes and pieces.
    fn amounts(&mut self, name: &str, labels: &Labels, amounts: &Resources) {
        for (resource, amount) in amounts.iter() {
            // Resources hold thousandths of a core.
            let scale = if resource == CPU { 1e3 } else { 1.0 };
            let labels = of_resource(labels, resource);
            self.push(name, labels, float(amount) / scale);
        }
    }
}

fn of_resource(labels: &Labels, resource: &str) -> Labels {
    let mut labels = labels.clone();
    labels.insert("resource_type".to_owned(), resource.replace('-', "_"));
    labels
}

fn with_always_published(mut amounts: Resources) -> Resources {
    for resource in ALWAYS_PUBLISHED {
        amounts.set(resource, amounts.get(resource));
    }
    amounts
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a cluster have fewer digits"
)]
fn float(amount: i64) -> f64 {
    amount as f64
}

#[expect(clippy::cast_precision_loss, reason = "no cluster has so many")]
fn number(count: usize) -> f64 {
    count as f64
}

fn is_over(pod: &Pod) -> bool {
    matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed)
}

#[cfg(test)]
mod tests;
