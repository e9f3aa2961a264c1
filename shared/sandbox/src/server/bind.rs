use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, Part, rfc3339};
use crate::{
    error::{ApiError, ApiResult},
    json,
    kinds::ResourceType,
    store::ObjectKey,
};

impl ApiServer {
    /// `binding` subresource: assigns a pod to a node, once.
    pub fn bind(
        &mut self,
        pods: &ResourceType,
        key: &ObjectKey,
        binding: &Value,
        now: Timestamp,
    ) -> ApiResult<()> {
        let node = json::text(binding, &["target", "name"]).to_owned();
        if node.is_empty() {
            return Err(ApiError::bad_request("target.name: Required value"));
        }
        let pod = self.get(pods, key)?;
        let bound = json::text(pod.value(), &["spec", "nodeName"]);
        let subject = pods.subject(&key.name);
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node \"{bound}\"", key.name);
            return Err(subject.conflict(&why));
        }
        if pod.is_terminating() {
            let why = format!(
                "pod {} is being deleted, cannot be assigned to a host",
                key.name
            );
            return Err(subject.conflict(&why));
        }
        self.modify(pods, key, Part::Main, now, |pod| {
            json::set(pod, &["spec", "nodeName"], node);
        })?;
        self.modify(pods, key, Part::Status, now, |pod| {
            set_condition(pod, json!({"type": "PodScheduled", "status": "True"}), now);
        })?;
        Ok(())
    }
}

/// Sets a condition of the status; its transition time changes only with its status.
pub(crate) fn set_condition(object: &mut Value, mut condition: Value, now: Timestamp) {
    let Some(conditions) = json::array_mut(object, &["status", "conditions"]) else {
        return;
    };
    let earlier = conditions
        .iter_mut()
        .find(|earlier| earlier.get("type") == condition.get("type"));
    let since = match &earlier {
        Some(earlier) if earlier.get("status") == condition.get("status") => {
            json::at(earlier, &["lastTransitionTime"]).clone()
        }
        Some(_) | None => json!(rfc3339(now)),
    };
    json::set(&mut condition, &["lastTransitionTime"], since);
    match earlier {
        Some(earlier) => *earlier = condition,
        None => conditions.push(condition),
    }
}
