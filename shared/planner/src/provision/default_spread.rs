//! Default topology spread constraints, for pods without their own (docs/spec/scheduling.md#default-spread).

use std::{borrow::Cow, collections::BTreeMap};

use model::{
    Snapshot,
    pod::{Pod, TopologySpread},
    selector::{LabelExpression, LabelOperator, LabelSelector},
};

/// Returns the pod, with the cluster's default constraints if it has none and a selector for its workload exists.
pub(crate) fn with_default<'a>(pod: &'a Pod, snapshot: &Snapshot) -> Cow<'a, Pod> {
    let defaults = &snapshot.settings.default_topology_spread;
    if defaults.is_empty() || !pod.topology_spread.is_empty() {
        return Cow::Borrowed(pod);
    }
    let Some(selector) = selector(pod, snapshot) else {
        return Cow::Borrowed(pod);
    };
    let mut spread = pod.clone();
    spread.topology_spread = defaults
        .iter()
        .map(|constraint| TopologySpread {
            selector: Some(selector.clone()),
            ..constraint.clone()
        })
        .collect();
    Cow::Owned(spread)
}

/// Selector of the pod's workload: the selectors of its Services combined with that of its controller.
fn selector(pod: &Pod, snapshot: &Snapshot) -> Option<LabelSelector> {
    let mut services: BTreeMap<String, String> = BTreeMap::new();
    for service in &snapshot.services {
        let same_namespace = service.key.namespace == pod.key.namespace;
        let selects = service
            .selector
            .iter()
            .all(|(k, v)| pod.labels.get(k) == Some(v));
        if same_namespace && selects {
            services.extend(service.selector.clone());
        }
    }
    let mut selector = LabelSelector {
        match_labels: services,
        match_expressions: Vec::new(),
    };
    let owner = pod.owner.as_ref();
    let workload = owner.and_then(|owner| {
        let named = |kind: &str| kind == owner.kind;
        snapshot.workloads.iter().find(|workload| {
            named(&workload.kind)
                && workload.key.namespace == pod.key.namespace
                && workload.key.name == owner.name
        })
    });
    if let Some(workload) = workload
        && let Some(own) = &workload.selector
    {
        match workload.kind.as_str() {
            // Pods of a Deployment are owned by a ReplicaSet, except virtual ones made from the Deployment.
            "ReplicationController" => selector.match_labels.extend(own.match_labels.clone()),
            "Deployment" | "ReplicaSet" | "StatefulSet" => {
                let labels = own.match_labels.iter().map(|(key, value)| LabelExpression {
                    key: key.clone(),
                    operator: LabelOperator::In,
                    values: vec![value.clone()],
                });
                selector.match_expressions.extend(labels);
                selector
                    .match_expressions
                    .extend(own.match_expressions.clone());
            }
            _ => {}
        }
    }
    let found = !selector.match_labels.is_empty() || !selector.match_expressions.is_empty();
    found.then_some(selector)
}

#[cfg(test)]
mod tests;
