//! NodeClaims that static NodePools lack (docs/spec/lifecycle.md#static-capacity).

use executor::Executor;
use model::{
    Action,
    ledger::PauseLevel,
    node_pool::NodePool,
    plan::{Launch, Planned},
};
use ports::cluster::EventTarget;

use crate::{
    Report, TurnError,
    act::backoff::Backoff,
    context::{Turn, isolation::AFTER_REFUSAL},
    report::metrics,
};

/// Prefix of ledger keys of NodePools whose NodeClaims the API server refused a short while ago.
const REFUSED_PREFIX: &str = "creation-refused/";

/// Creates the NodeClaims. They are launched like any other that no plan has committed, from the API server's objects. A
/// refusal is reported on the NodePool, and ends the creation of its NodeClaims for the turn: its other NodeClaims are equal.
pub(super) async fn create(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    actions: &[Planned],
    pools: &[NodePool],
    report: &mut Report,
) -> Result<(), TurnError> {
    let mut launches: Vec<&Launch> = Vec::new();
    for planned in actions {
        if let Action::Launch(launch) = &planned.action {
            launches.push(launch);
        }
    }
    if launches.is_empty() {
        return Ok(());
    }
    let mut backoff = Backoff::read(turn, REFUSED_PREFIX).await?;
    for launch in launches {
        let name = &launch.node_pool;
        if backoff.holds(name.as_str(), turn.now, report) {
            continue;
        }
        if let Some(stop) = executor.may_begin(PauseLevel::All, &[name]).await? {
            report.stopped = Some(stop.to_string());
            return Ok(());
        }
        let created = turn.api.create_node_claim(launch).await;
        let pool = pools.iter().find(|pool| pool.name == *name);
        let uid = pool.map(|pool| pool.uid.clone()).unwrap_or_default();
        let about = EventTarget::NodePool(name.clone(), uid);
        match report.isolate(&about, created) {
            Ok(Some(_)) => {
                let counted = metrics::of_launch(launch, metrics::PROVISIONED);
                report.metrics.push(counted);
                report.run_again_at(turn.world.clock.now());
            }
            Ok(None) => backoff.record_refusal(name.as_str(), turn.now).await?,
            Err(error) => {
                let problem = format!("NodeClaim {}: {error}", launch.name);
                report.problems.push(problem);
                report.run_again_at(turn.now + AFTER_REFUSAL);
                break;
            }
        }
    }
    Ok(())
}
