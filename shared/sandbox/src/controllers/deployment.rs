use std::{cmp::Reverse, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Client, Controller, DEPLOYMENTS, REPLICA_SETS,
    client::Severity,
    owned::{Rounding, controller_reference, is_controlled_by, share, template_hash},
};
use crate::{
    error::ApiResult,
    json,
    server::{Part, rfc3339},
    store::{Object, TableId},
};

/// Deployment controller: rolls the ReplicaSets of each Deployment from one template to the next.
#[derive(Debug)]
pub(super) struct Deployments;

const COMPONENT: &str = "deployment-controller";
const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

impl Controller for Deployments {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn inputs(&self) -> &'static [TableId] {
        const { &[DEPLOYMENTS, REPLICA_SETS] }
    }

    fn run(&mut self, client: &mut Client<'_>) -> ApiResult<Option<Timestamp>> {
        for deployment in client.all(&DEPLOYMENTS) {
            if !deployment.is_terminating() {
                roll(client, &deployment)?;
            }
            update_status(client, &deployment)?;
        }
        Ok(None)
    }
}

/// ReplicaSets of a Deployment: the one of the current template, and the others, oldest first.
struct Revisions {
    current: Option<Arc<Object>>,
    old: Vec<Arc<Object>>,
}

fn revisions(client: &Client<'_>, deployment: &Object) -> Revisions {
    let hash = template_hash(json::at(deployment.value(), &["spec", "template"]));
    let (current, mut old): (Vec<_>, Vec<_>) = client
        .dependents(&REPLICA_SETS, deployment)
        .into_iter()
        .filter(|set| is_controlled_by(set, deployment))
        .partition(|set| json::text(set.value(), &["metadata", "labels", HASH_LABEL]) == hash);
    old.sort_by_key(|set| revision(set));
    Revisions {
        current: current.into_iter().next(),
        old,
    }
}

fn revision(set: &Object) -> i64 {
    json::text(set.value(), &["metadata", "annotations", REVISION])
        .parse()
        .unwrap_or(0)
}

fn replicas(object: &Object) -> i64 {
    json::integer(object.value(), &["spec", "replicas"]).unwrap_or(0)
}

fn status(set: &Object, field: &str) -> i64 {
    json::integer(set.value(), &["status", field]).unwrap_or(0)
}

fn roll(client: &mut Client<'_>, deployment: &Object) -> ApiResult<()> {
    let Revisions { current, old } = revisions(client, deployment);
    let latest = old.iter().map(|set| revision(set)).max().unwrap_or(0);
    let paused = json::flag(deployment.value(), &["spec", "paused"]);
    let current = match current {
        Some(current) => renumber(client, current, latest)?,
        None if paused => return scale_paused(client, deployment, &old),
        None => create_set(client, deployment, latest + 1)?,
    };
    let desired = replicas(deployment);
    let old_total: i64 = old.iter().map(|set| replicas(set)).sum();
    if old_total == 0 {
        scale(client, deployment, &current, desired)?;
    } else if json::text(deployment.value(), &["spec", "strategy", "type"]) == "Recreate" {
        for set in &old {
            scale(client, deployment, set, 0)?;
        }
        if old.iter().all(|set| status(set, "replicas") == 0) {
            scale(client, deployment, &current, desired)?;
        }
    } else {
        roll_step(client, deployment, &current, &old)?;
    }
    forget_old(client, deployment, &old)
}

/// Performs one step of a rolling update, within `maxSurge` and `maxUnavailable`.
fn roll_step(
    client: &mut Client<'_>,
    deployment: &Object,
    current: &Object,
    old: &[Arc<Object>],
) -> ApiResult<()> {
    let desired = replicas(deployment);
    let limit = |field: &str, rounding: Rounding| {
        let path = ["spec", "strategy", "rollingUpdate", field];
        share(json::at(deployment.value(), &path), desired, rounding).unwrap_or(0)
    };
    let surge = limit("maxSurge", Rounding::Up);
    let unavailable = match limit("maxUnavailable", Rounding::Down) {
        0 if surge == 0 => 1,
        unavailable => unavailable,
    };
    let total = replicas(current) + old.iter().map(|set| replicas(set)).sum::<i64>();
    let room = (desired + surge - total).max(0);
    let grown = (replicas(current) + room).min(desired);
    scale(client, deployment, current, grown)?;

    let available = |set: &Object| status(set, "availableReplicas").min(replicas(set));
    let least = desired - unavailable;
    // Unavailable replicas are removed first, at no cost; available ones only while at least `least` remain available.
    let unready_current = replicas(current) - available(current);
    let mut idle_quota = (total - least - unready_current).max(0);
    let serving = available(current) + old.iter().map(|set| available(set)).sum::<i64>();
    let mut serving_quota = (serving - least).max(0);
    for set in old {
        let idle = idle_quota.min(replicas(set) - available(set));
        let serving = serving_quota.min(available(set));
        idle_quota -= idle;
        serving_quota -= serving;
        scale(client, deployment, set, replicas(set) - idle - serving)?;
    }
    Ok(())
}

fn scale_paused(
    client: &mut Client<'_>,
    deployment: &Object,
    old: &[Arc<Object>],
) -> ApiResult<()> {
    match old.last() {
        Some(latest) => scale(client, deployment, latest, replicas(deployment)),
        None => Ok(()),
    }
}

fn scale(client: &mut Client<'_>, deployment: &Object, set: &Object, to: i64) -> ApiResult<()> {
    let from = replicas(set);
    if from == to {
        return Ok(());
    }
    client.change(&REPLICA_SETS, &set.key(), Part::Main, |set| {
        json::set(set, &["spec", "replicas"], to);
    })?;
    let direction = if to > from { "up" } else { "down" };
    let message = format!(
        "Scaled {direction} replica set {} from {from} to {to}",
        set.name()
    );
    client.record(
        deployment,
        COMPONENT,
        Severity::Normal,
        "ScalingReplicaSet",
        &message,
    )
}

fn create_set(
    client: &mut Client<'_>,
    deployment: &Object,
    revision: i64,
) -> ApiResult<Arc<Object>> {
    let mut template = json::at(deployment.value(), &["spec", "template"]).clone();
    let hash = template_hash(&template);
    json::set(
        &mut template,
        &["metadata", "labels", HASH_LABEL],
        hash.as_str(),
    );
    let mut selector = json::at(deployment.value(), &["spec", "selector"]).clone();
    json::set(&mut selector, &["matchLabels", HASH_LABEL], hash.as_str());
    let set = json!({
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()),
            "labels": json::at(&template, &["metadata", "labels"]),
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });
    client.create(&REPLICA_SETS, deployment.namespace(), set)
}

/// Gives a ReplicaSet the latest revision again when a Deployment returns to its template.
fn renumber(client: &mut Client<'_>, current: Arc<Object>, latest: i64) -> ApiResult<Arc<Object>> {
    if revision(&current) > latest {
        return Ok(current);
    }
    client.change(&REPLICA_SETS, &current.key(), Part::Main, |set| {
        json::set(
            set,
            &["metadata", "annotations", REVISION],
            (latest + 1).to_string(),
        );
    })?;
    Ok(client.get(&REPLICA_SETS, &current.key()).unwrap_or(current))
}

fn forget_old(client: &mut Client<'_>, deployment: &Object, old: &[Arc<Object>]) -> ApiResult<()> {
    let limit = json::integer(deployment.value(), &["spec", "revisionHistoryLimit"]);
    let limit = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(10);
    let mut empty: Vec<&Arc<Object>> = old
        .iter()
        .filter(|set| replicas(set) == 0 && status(set, "replicas") == 0)
        .collect();
    empty.sort_by_key(|set| Reverse(revision(set)));
    for set in empty.into_iter().skip(limit) {
        client.delete(&REPLICA_SETS, &set.key())?;
    }
    Ok(())
}

fn update_status(client: &mut Client<'_>, deployment: &Object) -> ApiResult<()> {
    let Revisions { current, old } = revisions(client, deployment);
    let desired = replicas(deployment);
    let sum = |field: &str| -> i64 {
        current
            .iter()
            .chain(&old)
            .map(|set| status(set, field))
            .sum()
    };
    let available = sum("availableReplicas");
    let updated = current.as_ref().map_or(0, |set| status(set, "replicas"));
    let unavailable_limit = share(
        json::at(
            deployment.value(),
            &["spec", "strategy", "rollingUpdate", "maxUnavailable"],
        ),
        desired,
        Rounding::Down,
    );
    let is_available = available >= desired - unavailable_limit.unwrap_or(0);
    let is_complete = updated == desired && sum("replicas") == desired && available == desired;
    let mut after = json!({"status": json::at(deployment.value(), &["status"])});
    let status = json::object_mut(&mut after, &["status"]);
    for (field, count) in [
        ("replicas", sum("replicas")),
        ("updatedReplicas", updated),
        ("readyReplicas", sum("readyReplicas")),
        ("availableReplicas", available),
        (
            "unavailableReplicas",
            (desired.max(sum("replicas")) - available).max(0),
        ),
    ] {
        if count == 0 {
            status.remove(field);
        } else {
            status.insert(field.to_owned(), json!(count));
        }
    }
    let generation = json::at(deployment.value(), &["metadata", "generation"]).clone();
    status.insert("observedGeneration".to_owned(), generation);
    let set_name = current.as_ref().map_or("", |set| set.name());
    for condition in [
        available_condition(is_available),
        progress_condition(is_complete, set_name),
    ] {
        set_condition(&mut after, condition, client.now);
    }
    if json::at(&after, &["status"]) == json::at(deployment.value(), &["status"]) {
        return Ok(());
    }
    client.change(
        &DEPLOYMENTS,
        &deployment.key(),
        Part::Status,
        |deployment| {
            json::copy(&after, deployment, &["status"]);
        },
    )
}

fn available_condition(is_available: bool) -> Value {
    if is_available {
        json!({
            "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability.",
        })
    } else {
        json!({
            "type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
            "message": "Deployment does not have minimum availability.",
        })
    }
}

fn progress_condition(is_complete: bool, set: &str) -> Value {
    if is_complete {
        json!({
            "type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
            "message": format!("ReplicaSet \"{set}\" has successfully progressed."),
        })
    } else {
        json!({
            "type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
            "message": format!("ReplicaSet \"{set}\" is progressing."),
        })
    }
}

/// Sets a condition together with `lastUpdateTime`, which only conditions of Deployments have.
fn set_condition(deployment: &mut Value, mut condition: Value, now: Timestamp) {
    let same = json::items(deployment, &["status", "conditions"])
        .iter()
        .find(|earlier| {
            ["type", "status", "reason", "message"]
                .iter()
                .all(|field| earlier.get(field) == condition.get(field))
        });
    match same {
        Some(_) => {}
        None => {
            json::set(&mut condition, &["lastUpdateTime"], rfc3339(now));
            crate::server::set_condition(deployment, condition, now);
        }
    }
}
