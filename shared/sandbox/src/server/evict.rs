use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, DeleteOptions, Part, bind::set_condition, rfc3339};
use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::ResourceType,
    selectors::LabelSelector,
    store::{Object, ObjectKey, TableId},
};

const BUDGETS: TableId = TableId::named("poddisruptionbudgets.policy");
/// `Retry-After` of evictions while a budget's status is out of date.
const STALE_BUDGET_RETRY_SECONDS: u32 = 10;

impl ApiServer {
    /// `eviction` subresource: deletes a pod if every PodDisruptionBudget that selects it allows that.
    pub fn evict(
        &mut self,
        pods: &ResourceType,
        key: &ObjectKey,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> ApiResult<()> {
        let pod = self.get(pods, key)?;
        if !is_unbudgeted(&pod)
            && let Some(budget) = self.budget_over(&pod)?
        {
            self.take_disruption(&budget, &pod, options.dry_run, now)?;
        }
        if !options.dry_run {
            self.modify(pods, key, Part::Status, now, |pod| {
                let condition = json!({
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                });
                set_condition(pod, condition, now);
            })?;
        }
        self.delete(pods, key, options, now).map(drop)
    }

    fn budget_over(&self, pod: &Object) -> ApiResult<Option<std::sync::Arc<Object>>> {
        let labels = pod.labels();
        let mut over = self
            .store
            .list(
                &BUDGETS,
                Some(pod.namespace()),
                &crate::store::Start::Beginning,
            )
            .objects
            .into_iter()
            .filter(|budget| selects(budget, labels));
        match (over.next(), over.next()) {
            (None, _) => Ok(None),
            (Some(budget), None) => Ok(Some(budget)),
            (Some(_), Some(_)) => Err(ApiError::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )),
        }
    }

    /// Takes one disruption from a budget, or fails with 429.
    fn take_disruption(
        &mut self,
        budget: &Object,
        pod: &Object,
        dry_run: bool,
        now: Timestamp,
    ) -> ApiResult<()> {
        let status = json::at(budget.value(), &["status"]);
        let count = |field: &str| json::integer(status, &[field]).unwrap_or(0);
        let generation = json::integer(budget.value(), &["metadata", "generation"]).unwrap_or(0);
        if count("observedGeneration") < generation {
            let why = format!(
                "The disruption budget {} is still being processed by the server.",
                budget.name()
            );
            return Err(refusal(&why, Some(STALE_BUDGET_RETRY_SECONDS)));
        }
        let always_allows =
            json::text(budget.value(), &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        let enough_healthy = count("currentHealthy") >= count("desiredHealthy");
        let goes_free = is_running(pod)
            && !is_ready(pod.value())
            && (always_allows || enough_healthy && count("desiredHealthy") > 0);
        if goes_free {
            return Ok(());
        }
        if count("disruptionsAllowed") <= 0 {
            let why = format!(
                "The disruption budget {} needs {} healthy pods and has {} currently",
                budget.name(),
                count("desiredHealthy"),
                count("currentHealthy")
            );
            return Err(refusal(&why, None));
        }
        if dry_run {
            return Ok(());
        }
        let allowed = count("disruptionsAllowed") - 1;
        let pod = pod.name().to_owned();
        let budgets = self.kind_of(&BUDGETS)?;
        self.modify(&budgets, &budget.key(), Part::Status, now, |budget| {
            json::set(budget, &["status", "disruptionsAllowed"], allowed);
            json::set(budget, &["status", "disruptedPods", &pod], rfc3339(now));
        })?;
        Ok(())
    }
}

/// Returns whether a pod can be evicted without regard to budgets: it is terminating, pending or has ended.
fn is_unbudgeted(pod: &Object) -> bool {
    pod.is_terminating()
        || matches!(
            json::text(pod.value(), &["status", "phase"]),
            "Pending" | "Succeeded" | "Failed"
        )
}

fn is_running(pod: &Object) -> bool {
    json::text(pod.value(), &["status", "phase"]) == "Running"
}

/// Returns whether the Ready condition of a pod or node is true.
pub fn is_ready(object: &Value) -> bool {
    json::items(object, &["status", "conditions"])
        .iter()
        .any(|condition| {
            json::text(condition, &["type"]) == "Ready"
                && json::text(condition, &["status"]) == "True"
        })
}

/// Returns whether a budget selects these labels. Without a selector it selects nothing; an empty selector selects its
/// whole namespace.
pub(crate) fn selects(budget: &Object, labels: &BTreeMap<String, String>) -> bool {
    let selector = json::at(budget.value(), &["spec", "selector"]);
    !selector.is_null() && LabelSelector::of_object(selector).matches(labels)
}

fn refusal(why: &str, retry_after_seconds: Option<u32>) -> ApiError {
    ApiError::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_seconds,
    )
    .with_details(json!({"causes": [{"reason": "DisruptionBudget", "message": why}]}))
}
