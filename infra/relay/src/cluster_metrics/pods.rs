use std::collections::BTreeMap;

use jiff::Timestamp;
use model::pod::PodPhase;

use super::exposition::Exposition;
use super::nodes::{GROUP, nodes};
use super::{PODS_MAX, age};
use crate::kind::Kind;
use crate::objects::Key;
use crate::objects::metric_data::{MetricData, NodeData, PodData};
use crate::state::State;

/// A family of ages: name, help, and the pods that have one.
type Family = (&'static str, &'static str, fn(&PodData) -> bool);

const AGES: [Family; 2] = [
    (
        "karpenter_pods_unbound_time_seconds",
        "Age of pods without a node; only of the oldest pod if pods have no individual series",
        |pod| pod.node.is_none() && !pod.is_over(),
    ),
    (
        "karpenter_pods_unstarted_time_seconds",
        "Age of pods that have not started; only of the oldest pod if pods have no individual series",
        |pod| pod.phase == PodPhase::Pending,
    ),
];

pub(super) fn write(state: &State, per_object: bool, now: Timestamp, page: &mut Exposition<'_>) {
    for (name, help, waits) in AGES {
        page.gauge(name, help);
        let waiting = pods(state).filter(|pod| waits(pod));
        let ages = waiting.filter_map(|pod| Some((pod, age(pod.created_at, now)?)));
        if per_object {
            for (pod, age) in ages.take(PODS_MAX) {
                if let Some(pod) = &pod.details {
                    let labels = [("name", &*pod.name), ("namespace", &*pod.namespace)];
                    page.sample(&labels, age);
                }
            }
        } else {
            page.sample(&[], ages.map(|(_, age)| age).fold(0.0, f64::max));
        }
    }
    if per_object {
        page.gauge("karpenter_pods_state", "1 for each pod");
        let nodes: BTreeMap<Key, &NodeData> = nodes(state).collect();
        for pod in pods(state).take(PODS_MAX) {
            write_state(
                pod,
                pod.node.and_then(|node| nodes.get(&node).copied()),
                page,
            );
        }
    }
}

pub(super) fn pods(state: &State) -> impl Iterator<Item = &PodData> {
    state
        .metric_data(Kind::Pod)
        .filter_map(|(_, metric_data)| match metric_data {
            MetricData::Pod(pod) => Some(pod),
            MetricData::Node(_) | MetricData::Other(_) => None,
        })
}

fn write_state(pod: &PodData, node: Option<&NodeData>, page: &mut Exposition<'_>) {
    let Some(details) = &pod.details else {
        return;
    };
    let text = |truth: bool| if truth { "true" } else { "false" };
    let phase = format!("{:?}", pod.phase);
    let mut labels = vec![
        ("name", &*details.name),
        ("namespace", &*details.namespace),
        ("owner", &*details.owner),
        ("node", &*details.node),
        ("scheduled", text(pod.node.is_some())),
        ("phase", phase.as_str()),
        ("ready", text(pod.ready)),
        ("managed", text(node.is_some_and(|node| node.managed))),
    ];
    let of_node = GROUP.iter().filter_map(|(name, key)| {
        let value = node?.labels.get(*key)?;
        Some((*name, value.as_str()))
    });
    labels.extend(of_node);
    page.sample(&labels, 1.0);
}
