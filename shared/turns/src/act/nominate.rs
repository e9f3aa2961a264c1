use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{Plan, plan::Expected};

use crate::{TurnError, context::Turn};

/// Period for which a nominated node may not be removed (docs/spec/scheduling.md#nomination).
pub(crate) const NOMINATED_FOR: SignedDuration = SignedDuration::from_secs(20);

/// Records nominations, which keep nodes from being removed until pods are bound. A node that has not joined yet is known by its
/// NodeClaim.
pub(crate) async fn nominate(turn: &Turn<'_>, plan: &Plan) -> Result<(), TurnError> {
    let now = turn.world.clock.now();
    let nominations = plan.nominations.iter();
    let expected: BTreeMap<Expected, Timestamp> = nominations
        .map(|nomination| (nomination.node.clone(), now + NOMINATED_FOR))
        .collect();
    if !expected.is_empty() {
        turn.world
            .ledger
            .nominate(turn.cluster, &expected, now)
            .await?;
    }
    Ok(())
}
