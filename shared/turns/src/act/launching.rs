//! Launches outside the provisioner: of NodeClaims made by hand and of replacements.

use std::collections::BTreeMap;

use executor::{ExecutionOutcome, Executor, LaunchInputs};
use model::{NodeClaimName, launch::Instance, ledger::Intent};

use crate::{Report, TurnError, act::addresses, context::Turn, observe::Observed};

/// Launches these intents; a NodeClaim of `existing` takes its instance instead of a new one.
pub(crate) async fn launch(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    observed: &Observed,
    intents: Vec<Intent>,
    existing: BTreeMap<NodeClaimName, Instance>,
    report: &mut Report,
) -> Result<ExecutionOutcome, TurnError> {
    let launches = &turn.world.launches;
    let builder = launches.prepare(turn.cluster, &turn.meta.registry).await?;
    let facts = LaunchInputs {
        builder: &*builder,
        classes: &observed.classes,
        overlaid: planner::overlaid_types(&observed.snapshot),
        free_addresses: addresses::free(turn, observed, report).await?,
        existing,
    };
    let outcome = executor.launch(intents, &facts).await;
    report.take_outcome(&outcome);
    Ok(outcome)
}
