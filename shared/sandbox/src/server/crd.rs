use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ApiServer, rfc3339};
use crate::{error::ApiResult, json};

/// Finalizer that keeps a CustomResourceDefinition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

impl ApiServer {
    /// Serves the kind that a CustomResourceDefinition defines, and sets its conditions.
    pub(super) fn establish(&mut self, crd: &mut Value, now: Timestamp) -> ApiResult<()> {
        self.kinds.install(crd)?;
        if json::at(crd, &["metadata", "deletionTimestamp"]).is_null()
            && let Some(finalizers) = json::array_mut(crd, &["metadata", "finalizers"])
            && !finalizers.contains(&json!(CLEANUP_FINALIZER))
        {
            finalizers.push(json!(CLEANUP_FINALIZER));
        }
        let names = json::at(crd, &["spec", "names"]).clone();
        let stored: Vec<Value> = json::items(crd, &["spec", "versions"])
            .iter()
            .filter(|version| json::flag(version, &["storage"]))
            .map(|version| json::at(version, &["name"]).clone())
            .collect();
        json::set(crd, &["status", "acceptedNames"], names);
        json::set(crd, &["status", "storedVersions"], stored);
        if json::items(crd, &["status", "conditions"]).is_empty() {
            let condition = |kind: &str, reason: &str, message: &str| {
                json!({
                    "type": kind, "status": "True", "reason": reason, "message": message,
                    "lastTransitionTime": rfc3339(now),
                })
            };
            let conditions = vec![
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition(
                    "Established",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                ),
            ];
            json::set(crd, &["status", "conditions"], conditions);
        }
        Ok(())
    }
}
