//! Reboots in place: the NodeClaim records the request before EC2 is called, and then EC2's answer.

use executor::Executor;
use model::journal::{Line, Subject};
use planner::RebootCall;
use ports::CloudError;

use super::RECHECK_AFTER;
use crate::{
    Report, TurnError,
    act::apply::apply,
    context::{Turn, node_claims::target_of},
    observe::Observed,
    report::events,
};

/// Requests reboots of these instances from EC2. A refusal does not delay the others.
pub(super) async fn request_reboots(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    calls: &[RebootCall],
    report: &mut Report,
) -> Result<(), TurnError> {
    for call in calls {
        let about = target_of(&call.claim);
        let noted = turn.api.update_node_claim(&call.first).await;
        let Some(claim) = report.isolate(&about, noted)? else {
            continue;
        };
        let requested = turn.world.cloud.reboot(turn.cluster, &call.instance).await;
        report.run_again_at(turn.world.clock.now() + RECHECK_AFTER);
        match requested {
            Ok(()) => {
                let text = format!("reboot {} of nodeclaim/{}", call.instance, claim.name);
                let about_claim = [Subject::NodeClaim(claim.name.clone())];
                report.planned.push(Line::new(text, about_claim));
                let issued = planner::reboot_issued(&claim, turn.world.clock.now());
                let written = turn.api.update_node_claim(&issued).await;
                report.isolate(&about, written)?;
            }
            // A repeated request cannot succeed.
            Err(error) if is_final(&error) => {
                let cause = format!("EC2 does not reboot instance {}: {error}", call.instance);
                let refused = planner::reboot_refused(&observed.snapshot, &claim, &cause);
                let actions = &refused.plan.actions;
                report.plan(actions);
                apply(turn, executor, observed, actions, report).await?;
                let emitted = events::of_notes(&refused.notes, turn.now);
                events::post(turn, &emitted, report).await;
            }
            Err(error) => report
                .problems
                .push(format!("reboot of {}: {error}", call.instance)),
        }
    }
    Ok(())
}

fn is_final(error: &CloudError) -> bool {
    match error {
        CloudError::NotFound { .. } | CloudError::Denied { .. } | CloudError::Invalid { .. } => {
            true
        }
        CloudError::NoCapacity { .. }
        | CloudError::Throttled { .. }
        | CloudError::Postponed { .. }
        | CloudError::NotSent { .. }
        | CloudError::Unknown { .. } => false,
    }
}
