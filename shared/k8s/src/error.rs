use kube::Error;
use ports::{ClusterError, with_causes};

/// Message of the eviction subresource, with code 500, for a pod that two PodDisruptionBudgets select
/// (docs/spec/lifecycle.md#eviction).
const TWO_BUDGETS: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

/// Beginning of the message, with code 500, about a webhook that the API server could not call.
const WEBHOOK_FAILED: &str = "failed calling webhook";
/// Parts of the message about a webhook that denied a request. The webhook chooses the code.
const WEBHOOK_DENIED: [&str; 2] = ["admission webhook ", " denied the request"];

/// Classifies an error of `action` on `what` by the caller's options.
pub(crate) fn classify(error: Error, action: &str, what: &str) -> ClusterError {
    let what = what.to_owned();
    let action = action.to_owned();
    let Error::Api(status) = error else {
        return ClusterError::Unavailable {
            action,
            message: with_causes(&error),
        };
    };
    let message = status.message.clone();
    match status.code {
        _ if message == TWO_BUDGETS => ClusterError::Refused { what, message },
        404 => ClusterError::NotFound { what },
        409 => ClusterError::Conflict { what },
        429 if is_from_disruption_budget(&status) => ClusterError::Refused { what, message },
        429 => ClusterError::Throttled {
            action,
            after_seconds: status
                .details
                .as_ref()
                .map(|details| u64::from(details.retry_after_seconds)),
        },
        401 | 403 => ClusterError::Denied { action, message },
        400 | 405 | 406 | 413 | 415 | 422 => ClusterError::Invalid { what, message },
        500.. if is_from_webhook(&message) => ClusterError::Admission { what, message },
        _ => ClusterError::Unavailable {
            action,
            message: format!("{} {}", status.code, message),
        },
    }
}

fn is_from_webhook(message: &str) -> bool {
    message.contains(WEBHOOK_FAILED) || WEBHOOK_DENIED.iter().all(|part| message.contains(part))
}

fn is_from_disruption_budget(status: &kube::core::Status) -> bool {
    status.details.as_ref().is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "DisruptionBudget")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> Error {
        let status = serde_json::json!({"code": code, "message": message, "reason": "", "status": "Failure"});
        let status = serde_json::from_value::<kube::core::Status>(status).unwrap();
        Error::Api(Box::new(status))
    }

    #[test]
    fn eviction_of_pod_with_two_budgets_is_refused() {
        let refused = classify(answer(500, TWO_BUDGETS), "evict", "pod");
        assert!(matches!(refused, ClusterError::Refused { .. }), "{refused}");
        let broken = classify(answer(500, "etcdserver: request timed out"), "evict", "pod");
        assert!(
            matches!(broken, ClusterError::Unavailable { .. }),
            "{broken}"
        );
    }

    /// Requests for other objects may pass the webhook, and those for other kinds do not reach it.
    #[test]
    fn failing_webhook_is_an_error_of_one_object() {
        for (code, message) in [
            (
                500,
                "Internal error occurred: failed calling webhook \"nodes.example.com\": failed to call webhook: Post \
                 \"https://guard.default.svc:443/?timeout=10s\": context deadline exceeded",
            ),
            (
                503,
                "admission webhook \"nodes.example.com\" denied the request: upstream is down",
            ),
        ] {
            let error = classify(answer(code, message), "update node a", "node a");
            assert!(matches!(error, ClusterError::Admission { .. }), "{error}");
            assert!(error.is_about_one_object());
        }
        let denied = "admission webhook \"nodes.example.com\" denied the request: frozen";
        let error = classify(answer(403, denied), "update node a", "node a");
        assert!(matches!(error, ClusterError::Denied { .. }), "{error}");
    }
}
