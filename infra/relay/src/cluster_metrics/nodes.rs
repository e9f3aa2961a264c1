use std::collections::BTreeMap;

use jiff::Timestamp;
use model::Resources;
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE};
use model::resources::CPU;

use super::exposition::Exposition;
use super::{OBJECTS_MAX, age, number};
use crate::kind::Kind;
use crate::objects::Key;
use crate::objects::metric_data::{MetricData, NodeData, PodData};
use crate::state::State;

/// Labels by which nodes are grouped, with the names of the metrics' labels.
pub(super) const GROUP: [(&str, &str); 5] = [
    ("nodepool", NODE_POOL),
    ("capacity_type", CAPACITY_TYPE),
    ("zone", ZONE),
    ("arch", ARCH),
    ("instance_type", INSTANCE_TYPE),
];

type Labels = Vec<(String, String)>;

/// Amounts of one node, or of a group of nodes.
#[derive(Default)]
struct Amounts {
    capacity: Resources,
    allocatable: Resources,
    requests: Resources,
    limits: Resources,
    daemon_requests: Resources,
    daemon_limits: Resources,
}

/// A family of gauges by resource: name, help, amounts, and whether the functions report it for groups of nodes.
type Family = (&'static str, &'static str, fn(&Amounts) -> Resources, bool);

const FAMILIES: [Family; 6] = [
    (
        "karpenter_nodes_allocatable",
        "Allocatable resources of the node",
        |amounts| amounts.allocatable.clone(),
        true,
    ),
    (
        "karpenter_nodes_total_pod_requests",
        "Requests of all pods of the node",
        |amounts| amounts.requests.clone(),
        true,
    ),
    (
        "karpenter_nodes_total_pod_limits",
        "Limits of all pods of nodes",
        |amounts| amounts.limits.clone(),
        false,
    ),
    (
        "karpenter_nodes_total_daemon_requests",
        "Requests of DaemonSet pods on nodes",
        |amounts| amounts.daemon_requests.clone(),
        false,
    ),
    (
        "karpenter_nodes_total_daemon_limits",
        "Limits of DaemonSet pods on nodes",
        |amounts| amounts.daemon_limits.clone(),
        false,
    ),
    (
        "karpenter_nodes_system_overhead",
        "Resources of nodes that pods cannot request",
        |amounts| {
            let mut overhead = amounts.capacity.clone();
            overhead.subtract(&amounts.allocatable);
            overhead
        },
        false,
    ),
];

pub(super) fn write(state: &State, per_object: bool, now: Timestamp, page: &mut Exposition<'_>) {
    let labels: fn(&NodeData) -> Labels = if per_object { own_labels } else { group };
    let most = if per_object { OBJECTS_MAX } else { usize::MAX };
    let by_labels = amounts(state, labels, most);
    for (name, help, of, is_reported) in FAMILIES {
        if is_reported && !per_object {
            continue;
        }
        page.gauge(name, help);
        for (labels, amounts) in &by_labels {
            for (resource, amount) in of(amounts).iter() {
                let resource_type = resource.replace('-', "_");
                let mut labels = borrowed(labels);
                labels.push(("resource_type", &resource_type));
                page.sample(&labels, scaled(resource, amount));
            }
        }
    }
    page.gauge("whittle_nodes", "Number of similar nodes");
    let mut counts: BTreeMap<Labels, usize> = BTreeMap::new();
    for (_, node) in nodes(state) {
        *counts.entry(group(node)).or_default() += 1;
    }
    for (labels, count) in &counts {
        page.sample(&borrowed(labels), number(*count));
    }
    if per_object {
        page.gauge(
            "karpenter_nodes_current_lifetime_seconds",
            "Age of the node",
        );
        for (_, node) in nodes(state).take(OBJECTS_MAX) {
            if let Some(age) = age(node.created_at, now) {
                page.sample(&borrowed(&own_labels(node)), age);
            }
        }
    }
}

pub(super) fn nodes(state: &State) -> impl Iterator<Item = (Key, &NodeData)> {
    state
        .metric_data(Kind::Node)
        .filter_map(|(key, metric_data)| match metric_data {
            MetricData::Node(node) => Some((key, &**node)),
            MetricData::Pod(_) | MetricData::Other(_) => None,
        })
}

fn amounts(
    state: &State,
    labels: fn(&NodeData) -> Labels,
    most: usize,
) -> BTreeMap<Labels, Amounts> {
    let mut of_pods: BTreeMap<Key, Vec<&PodData>> = BTreeMap::new();
    for pod in super::pods::pods(state).filter(|pod| !pod.is_over()) {
        if let Some(node) = pod.node {
            of_pods.entry(node).or_default().push(pod);
        }
    }
    let mut by_labels: BTreeMap<Labels, Amounts> = BTreeMap::new();
    for (key, node) in nodes(state).take(most) {
        let sum = by_labels.entry(labels(node)).or_default();
        sum.capacity.add(&node.capacity);
        sum.allocatable.add(&node.allocatable);
        for pod in of_pods.get(&key).into_iter().flatten() {
            sum.requests.add(&pod.amounts.requests);
            sum.limits.add(&pod.amounts.limits);
            if pod.daemon {
                sum.daemon_requests.add(&pod.amounts.requests);
                sum.daemon_limits.add(&pod.amounts.limits);
            }
        }
    }
    by_labels
}

fn group(node: &NodeData) -> Labels {
    let shared = GROUP.iter().filter_map(|(name, key)| {
        let value = node.labels.get(*key)?;
        Some(((*name).to_owned(), value.clone()))
    });
    let managed = ("managed".to_owned(), node.managed.to_string());
    shared.chain([managed]).collect()
}

/// Karpenter's well-known labels, named by the part after their group, and the node's name.
fn own_labels(node: &NodeData) -> Labels {
    let known = node.labels.iter().map(|(key, value)| {
        let (_, name) = key.rsplit_once('/').unwrap_or(("", key));
        (name.replace(['-', '.'], "_"), value.clone())
    });
    let own = [
        ("node_name".to_owned(), node.object.name.to_string()),
        ("managed".to_owned(), node.managed.to_string()),
    ];
    known.chain(own).collect()
}

fn borrowed(labels: &Labels) -> Vec<(&str, &str)> {
    let labels = labels.iter();
    labels
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

/// Converts to cores, bytes and counts; cpu is stored in millicores.
#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a cluster have fewer digits"
)]
fn scaled(resource: &str, amount: i64) -> f64 {
    let scale = if resource == CPU { 1e3 } else { 1.0 };
    amount as f64 / scale
}
