use kube::Error;
use ports::{ClusterError, with_causes};

/// Of the eviction subresource, with code 500, for a pod that two PodDisruptionBudgets select (spec/lifecycle §9.3).
const TWO_BUDGETS: &str = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

/// What the caller can do about the server's answer to `action`, which concerned `what`.
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
        429 if by_disruption_budget(&status) => ClusterError::Refused { what, message },
        429 => ClusterError::Throttled {
            action,
            after_seconds: status
                .details
                .as_ref()
                .map(|details| u64::from(details.retry_after_seconds)),
        },
        401 | 403 => ClusterError::Denied { action, message },
        400 | 405 | 406 | 413 | 415 | 422 => ClusterError::Invalid { what, message },
        _ => ClusterError::Unavailable {
            action,
            message: format!("{} {}", status.code, message),
        },
    }
}

fn by_disruption_budget(status: &kube::core::Status) -> bool {
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
    fn two_budgets_for_one_pod_refuse_it_for_now() {
        let refused = classify(answer(500, TWO_BUDGETS), "evict", "pod");
        assert!(matches!(refused, ClusterError::Refused { .. }), "{refused}");
        let broken = classify(answer(500, "etcdserver: request timed out"), "evict", "pod");
        assert!(
            matches!(broken, ClusterError::Unavailable { .. }),
            "{broken}"
        );
    }
}
