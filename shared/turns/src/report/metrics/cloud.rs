//! Durations and failures of calls of EC2, under the names of Karpenter's cloud provider.

use api::names::label;
use executor::{LackingOffering, LaunchError};
use jiff::SignedDuration;
use model::{Lane, node_claim::NodeClaim};
use ports::{CloudError, metrics::Metric};

use super::{count, label_value, timed};
use crate::{context::node_claims::instance_of, report::TerminationResults};

/// Failed launches of NodeClaims, the offerings that EC2 had no capacity of, and the durations of the requests.
pub(crate) fn of_launching(lane: Lane, outcome: &executor::ExecutionOutcome) -> Vec<Metric> {
    let errors = outcome.errors.iter().map(|error| {
        let class = match error {
            LaunchError::InsufficientCapacity => "InsufficientCapacityError",
            LaunchError::NodeClassNotReady => "NodeClassNotReadyError",
            LaunchError::Unclassified => UNKNOWN,
        };
        of_error(lane, CREATE, class)
    });
    let lacking = outcome.lacking.iter().map(|lacking| {
        let LackingOffering {
            zone,
            zone_id,
            capacity_type,
            code,
        } = lacking;
        count(
            "karpenter_cloudprovider_instance_launch_failures_total",
            [
                ("zone", zone.clone()),
                ("zone_id", zone_id.clone()),
                ("capacity_type", capacity_type.as_str().to_owned()),
                ("reason", code.clone()),
            ],
        )
    });
    let requests = outcome.requests.iter();
    let requests = requests.map(|took| of_request(lane, CREATE, *took));
    errors.chain(lacking).chain(requests).collect()
}

/// Instances that EC2 failed to terminate, and the duration of the request; instances that it refused are also counted by their
/// NodeClaim's zone. An instance that EC2 does not know is no failure.
pub(crate) fn of_ending(
    lane: Lane,
    results: &TerminationResults,
    claims: &[NodeClaim],
) -> Vec<Metric> {
    let unanswered = match &results.unanswered {
        Some((_, CloudError::Postponed { .. })) | None => 0,
        Some((instances, _)) => *instances,
    };
    let failed = results.refused.len() + unanswered;
    let errors = (0..failed).map(|_| of_error(lane, DELETE, UNKNOWN));
    let is_refused = |claim: &&NodeClaim| {
        instance_of(claim).is_some_and(|instance| results.refused.contains_key(&instance))
    };
    let refused = claims.iter().filter(is_refused).map(|claim| {
        count(
            "karpenter_cloudprovider_instance_termination_failures_total",
            [
                ("zone", label_value(&claim.labels, label::ZONE)),
                ("zone_id", label_value(&claim.labels, label::ZONE_ID)),
            ],
        )
    });
    let took = results.took.map(|took| of_request(lane, DELETE, took));
    errors.chain(refused).chain(took).collect()
}

/// Methods of Karpenter's cloud provider.
const CREATE: &str = "Create";
const DELETE: &str = "Delete";

/// Label of errors without another class.
const UNKNOWN: &str = "unknown";

fn of_error(lane: Lane, method: &str, error: &str) -> Metric {
    count(
        "karpenter_cloudprovider_errors_total",
        [
            ("controller", lane.as_str().to_owned()),
            ("method", method.to_owned()),
            ("provider", "aws".to_owned()),
            ("error", error.to_owned()),
        ],
    )
}

fn of_request(lane: Lane, method: &str, took: SignedDuration) -> Metric {
    timed(
        "karpenter_cloudprovider_duration_seconds",
        [
            ("controller", lane.as_str().to_owned()),
            ("method", method.to_owned()),
            ("provider", "aws".to_owned()),
        ],
        took,
    )
}
