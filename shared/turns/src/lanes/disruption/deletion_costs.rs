//! Pod deletion costs: ReplicaSets scale down the pods first whose nodes should become empty
//! (docs/spec/v1.15.md#pod-deletion-cost).

use std::collections::BTreeMap;

use api::names::annotation::{DELETION_COST_WRITTEN, POD_DELETION_COST};
use jiff::SignedDuration;
use model::Snapshot;
use planner::{DeletionCost, POD_DELETION_COST_GATE};
use ports::ClusterError;

use crate::{Report, TurnError, context::Turn, report::metrics};

/// Least time between two passes, as in Karpenter.
const PASS_INTERVAL: SignedDuration = SignedDuration::from_secs(60);
/// Time after which costs are evaluated again although nothing else wakes the lane, as in Karpenter.
const REEVALUATE_AFTER: SignedDuration = SignedDuration::from_mins(5);
/// Upper bound on pods written per pass: each write is a call of some ten milliseconds in a turn that has other work.
const PODS_MAX: usize = 200;
const KEY: &str = "pod-deletion-costs";

/// Writes the costs that change, after an evaluation in a turn that may act. Failures are reported and have no other effect.
pub(super) async fn write(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    report: &mut Report,
) -> Result<(), TurnError> {
    if snapshot.settings.feature_gates.get(POD_DELETION_COST_GATE) == Some(&true) {
        report.run_again_at(turn.now + REEVALUATE_AFTER);
    }
    let (nodes, left) = planner::deletion_costs(snapshot);
    if nodes.is_empty() {
        return Ok(());
    }
    let now = turn.world.clock.now();
    let ledger = &turn.world.ledger;
    if !ledger
        .once(turn.cluster, KEY, now, now + PASS_INTERVAL)
        .await?
    {
        report.run_again_at(now + PASS_INTERVAL);
        return Ok(());
    }
    let pods: Vec<&DeletionCost> = nodes.iter().flat_map(|node| &node.pods).collect();
    for pod in pods.iter().take(PODS_MAX) {
        if turn.world.clock.now() >= turn.deadline {
            break;
        }
        let written = turn
            .api
            .annotate_pod(&pod.pod, &pod.uid, &annotations_of(pod))
            .await;
        let result = match &written {
            Ok(()) => "updated",
            Err(ClusterError::NotFound { .. }) => "skipped_notfound",
            Err(ClusterError::Conflict { .. }) => "skipped_conflict",
            Err(_) => "error",
        };
        report.metrics.push(metrics::of_deletion_cost(result));
        match written {
            Ok(()) | Err(ClusterError::NotFound { .. } | ClusterError::Conflict { .. }) => {}
            // The chart grants the permission for all pods or for none.
            Err(error @ ClusterError::Denied { .. }) => {
                let warning = format!(
                    "deletion costs of pods are not written: {error}; install the chart with \
                     settings.featureGates.podDeletionCostManagement=true, or take the gate {POD_DELETION_COST_GATE} out of the settings"
                );
                report.warnings.push(warning);
                return Ok(());
            }
            Err(error @ (ClusterError::Invalid { .. } | ClusterError::Refused { .. })) => {
                let problem = format!("deletion cost of pod {}: {error}", pod.pod);
                report.problems.push(problem);
            }
            // The API server would answer no better about the other pods.
            Err(error) => {
                let problem = format!("deletion costs of pods: {error}");
                report.problems.push(problem);
                report.run_again_at(now + PASS_INTERVAL);
                return Ok(());
            }
        }
    }
    if pods.len() > PODS_MAX || !left.is_empty() {
        report.run_again_at(now + PASS_INTERVAL);
    }
    Ok(())
}

/// The annotation that ReplicaSets read, and the annotation that distinguishes Whittle's value from an owner's.
fn annotations_of(pod: &DeletionCost) -> BTreeMap<String, Option<String>> {
    let value = pod.cost.map(|cost| cost.to_string());
    let names = [POD_DELETION_COST, DELETION_COST_WRITTEN];
    let both = names.map(|name| (name.to_owned(), value.clone()));
    both.into()
}
