use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::json;

use super::{
    Client, Controller, PODS, REPLICA_SETS,
    client::Severity,
    owned::{is_active, is_controlled_by, node_name, phase, pod_from_template},
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, is_ready},
    store::{Object, TableId},
};

/// ReplicaSet controller: keeps the desired number of pods of each ReplicaSet.
#[derive(Debug)]
pub(super) struct ReplicaSets;

const COMPONENT: &str = "replicaset-controller";

impl Controller for ReplicaSets {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[REPLICA_SETS, PODS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        for set in client.all(&REPLICA_SETS) {
            let pods: Vec<Arc<Object>> = client
                .dependents(&PODS, &set)
                .into_iter()
                .filter(|pod| is_controlled_by(pod, &set) && is_active(pod))
                .collect();
            if !set.is_terminating() {
                scale(client, &set, &pods)?;
            }
            update_status(client, &set)?;
        }
        Ok(None)
    }
}

fn scale(client: &mut Client<'_>, set: &Object, pods: &[Arc<Object>]) -> ApiResult<()> {
    let desired = json::integer(set.value(), &["spec", "replicas"]).unwrap_or(1);
    let desired = usize::try_from(desired).unwrap_or(0);
    let template = json::at(set.value(), &["spec", "template"]);
    for _ in pods.len()..desired {
        let pod = pod_from_template(set, template);
        match client.create(&PODS, set.namespace(), pod) {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name());
                client.record(
                    set,
                    COMPONENT,
                    Severity::Normal,
                    "SuccessfulCreate",
                    &message,
                )?;
            }
            // A rejected template is reported in the ReplicaSet's status; a retry would be rejected again.
            Err(error) => {
                let message = format!("Error creating: {error}");
                return client.record(set, COMPONENT, Severity::Warning, "FailedCreate", &message);
            }
        }
    }
    for pod in surplus(pods, desired) {
        client.delete(&PODS, &pod.key())?;
        let message = format!("Deleted pod: {}", pod.name());
        client.record(
            set,
            COMPONENT,
            Severity::Normal,
            "SuccessfulDelete",
            &message,
        )?;
    }
    Ok(())
}

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Pods to delete, in Kubernetes' order: unbound, pending, not ready, lower deletion cost, more pods of the set on the
/// node, newer.
fn surplus(pods: &[Arc<Object>], desired: usize) -> impl Iterator<Item = &Arc<Object>> {
    let mut crowd: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods {
        *crowd.entry(node_name(pod)).or_default() += 1;
    }
    let mut ranked: Vec<&Arc<Object>> = pods.iter().collect();
    ranked.sort_by_cached_key(|pod| {
        let cost = json::text(pod.value(), &["metadata", "annotations", DELETION_COST]);
        let node = node_name(pod);
        (
            !node.is_empty(),
            phase(pod) != "Pending",
            is_ready(pod.value()),
            cost.parse::<i64>().unwrap_or(0),
            Reverse(crowd.get(node).copied().unwrap_or(0)),
            Reverse(json::text(pod.value(), &["metadata", "creationTimestamp"]).to_owned()),
            pod.name().to_owned(),
        )
    });
    ranked.into_iter().take(pods.len().saturating_sub(desired))
}

fn update_status(client: &mut Client<'_>, set: &Object) -> ApiResult<()> {
    let pods = client.dependents(&PODS, set);
    let active = || pods.iter().filter(|pod| is_active(pod));
    let ready = active().filter(|pod| is_ready(pod.value())).count();
    let status = json!({
        "replicas": active().count(),
        "fullyLabeledReplicas": active().count(),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "observedGeneration": json::integer(set.value(), &["metadata", "generation"]),
    });
    if *json::at(set.value(), &["status"]) == status {
        return Ok(());
    }
    client.change(&REPLICA_SETS, &set.key(), Part::Status, |set| {
        json::set(set, &["status"], status);
    })
}
