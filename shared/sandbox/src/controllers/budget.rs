use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    BUDGETS, Client, Controller, DEPLOYMENTS, PODS, REPLICA_SETS,
    owned::{Rounding, is_finished, share},
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, is_ready, parse_time, selects, set_condition},
    store::{Object, ObjectKey, TableId},
};

/// Disruption controller: computes how many pods each PodDisruptionBudget allows to be evicted.
#[derive(Debug)]
pub(super) struct Budgets;

/// Time after which an evicted pod that still exists no longer counts as disrupted.
const DISRUPTED_POD_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

impl Controller for Budgets {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[BUDGETS, PODS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        let mut due = None;
        let budgets = client.all(&BUDGETS);
        if budgets.is_empty() {
            return Ok(None);
        }
        let pods = client.all(&PODS);
        for budget in budgets {
            let covered: Vec<&Arc<Object>> = pods
                .iter()
                .filter(|pod| pod.namespace() == budget.namespace() && !is_finished(pod))
                .filter(|pod| selects(&budget, pod.labels()))
                .collect();
            let forgets = update_status(client, &budget, &covered)?;
            due = [due, forgets].into_iter().flatten().min();
        }
        Ok(due)
    }
}

fn update_status(
    client: &mut Client<'_>,
    budget: &Object,
    pods: &[&Arc<Object>],
) -> ApiResult<Option<Timestamp>> {
    let disrupted = still_disrupted(client.now, budget, pods);
    let healthy = pods
        .iter()
        .filter(|pod| is_ready(pod.value()) && !pod.is_terminating())
        .filter(|pod| !disrupted.iter().any(|(name, _)| name == pod.name()))
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let (expected, desired) = expectation(client, budget, pods);
    let allowed = if expected > 0 {
        (healthy - desired).max(0)
    } else {
        0
    };
    let mut after = json!({"status": json::at(budget.value(), &["status"])});
    let names: serde_json::Map<String, Value> = disrupted
        .iter()
        .map(|(name, since)| (name.clone(), json!(since)))
        .collect();
    let status = json::object_mut(&mut after, &["status"]);
    for (field, number) in [
        ("currentHealthy", healthy),
        ("desiredHealthy", desired),
        ("expectedPods", expected),
        ("disruptionsAllowed", allowed),
    ] {
        status.insert(field.to_owned(), json!(number));
    }
    let generation = json::at(budget.value(), &["metadata", "generation"]).clone();
    status.insert("observedGeneration".to_owned(), generation.clone());
    if names.is_empty() {
        status.remove("disruptedPods");
    } else {
        status.insert("disruptedPods".to_owned(), Value::Object(names));
    }
    let (word, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let condition = json!({
        "type": "DisruptionAllowed", "status": word, "reason": reason, "message": "",
        "observedGeneration": generation,
    });
    set_condition(&mut after, condition, client.now);
    if json::at(&after, &["status"]) != json::at(budget.value(), &["status"]) {
        client.change(&BUDGETS, &budget.key(), Part::Status, |budget| {
            json::copy(&after, budget, &["status"]);
        })?;
    }
    let forgets = disrupted
        .iter()
        .filter_map(|(_, since)| parse_time(since)?.checked_add(DISRUPTED_POD_TIMEOUT).ok());
    Ok(forgets.min())
}

/// Names of the pods that were evicted and have not ended yet, with the time of the eviction.
fn still_disrupted(
    now: Timestamp,
    budget: &Object,
    pods: &[&Arc<Object>],
) -> Vec<(String, String)> {
    json::strings(budget.value(), &["status", "disruptedPods"])
        .filter(|(name, since)| {
            let is_here = pods
                .iter()
                .any(|pod| pod.name() == *name && !pod.is_terminating());
            let is_recent = parse_time(since)
                .is_some_and(|since| now.duration_since(since) < DISRUPTED_POD_TIMEOUT);
            is_here && is_recent
        })
        .map(|(name, since)| (name.to_owned(), since.to_owned()))
        .collect()
}

/// Returns the number of expected pods, and how many of them must be healthy.
fn expectation(client: &Client<'_>, budget: &Object, pods: &[&Arc<Object>]) -> (i64, i64) {
    let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
    let at = |field: &str| json::at(budget.value(), &["spec", field]);
    let (least, most) = (at("minAvailable"), at("maxUnavailable"));
    if !most.is_null() {
        let expected = workload_scale(client, pods);
        let unavailable = share(most, expected, Rounding::Up).unwrap_or(0);
        return (expected, (expected - unavailable).max(0));
    }
    if least.is_string() {
        let expected = workload_scale(client, pods);
        return (expected, share(least, expected, Rounding::Up).unwrap_or(0));
    }
    (count, share(least, count, Rounding::Up).unwrap_or(1))
}

/// Sum of the replicas of the pods' workloads; a pod without a workload counts as one.
fn workload_scale(client: &Client<'_>, pods: &[&Arc<Object>]) -> i64 {
    let mut workloads: BTreeSet<(TableId, ObjectKey)> = BTreeSet::new();
    let mut alone = 0;
    for pod in pods {
        match workload(client, pod) {
            Some(workload) => {
                workloads.insert(workload);
            }
            None => alone += 1,
        }
    }
    let replicas: i64 = workloads
        .iter()
        .filter_map(|(table, key)| client.get(table, key))
        .filter_map(|workload| json::integer(workload.value(), &["spec", "replicas"]))
        .sum();
    alone + replicas
}

fn workload(client: &Client<'_>, pod: &Object) -> Option<(TableId, ObjectKey)> {
    let (table, key) = controller(pod)?;
    let set = client.get(&table, &key)?;
    Some(controller(&set).unwrap_or((table, key)))
}

/// Returns the ReplicaSet or Deployment that controls an object.
fn controller(object: &Object) -> Option<(TableId, ObjectKey)> {
    let owner = json::items(object.value(), &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| json::flag(owner, &["controller"]))?;
    let table = match json::text(owner, &["kind"]) {
        "ReplicaSet" => REPLICA_SETS,
        "Deployment" => DEPLOYMENTS,
        _ => return None,
    };
    Some((
        table,
        ObjectKey::new(object.namespace(), json::text(owner, &["name"])),
    ))
}
