//! The brake of garbage collection (docs/protocol.md#g3): number of objects that may disappear within an hour without an explanation
//! in the ledger.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use model::{ClusterName, ledger::SweepMemory, plan::Target};

use super::orphans::Orphan;
use crate::{TurnError, World};

/// Period over which the brake counts unexplained absences (docs/protocol.md#g3).
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Returns why garbage collection must stop: too many unexplained absences within an hour, or all instances
/// (docs/protocol.md#g3).
pub(super) fn brake(within_hour: usize, new: usize, instances: usize) -> Option<String> {
    let allowed = (instances / 10).max(1);
    let all = instances > 0 && within_hour >= instances;
    (new > 0 && (within_hour > allowed || all)).then(|| {
        format!(
            "{within_hour} of {instances} instances would be collected within an hour without an explanation in the \
             ledger (at most {allowed}, and never all of them): nothing was terminated; to allow it for an hour, run `whittle approve <cluster>` (approvals.collectUntil in its registry entry)"
        )
    })
}

/// Names of instances and NodeClaims whose absence the ledger does not explain.
pub(super) fn unexplained(ownerless: &[Orphan], lost: &[(Target, bool)]) -> BTreeSet<String> {
    let ownerless = ownerless.iter().filter(|orphan| !orphan.explained);
    let lost = lost.iter().filter(|(_, explained)| !explained);
    ownerless
        .map(|orphan| orphan.instance.to_string())
        .chain(lost.map(|(target, _)| target.name.to_string()))
        .collect()
}

/// Records an instance before its termination, so that the count survives a crash of the sweep
/// (docs/protocol.md#g3). A sweep that completes records the rest of its memory.
pub(super) async fn count(
    world: &World,
    cluster: &ClusterName,
    memory: &SweepMemory,
) -> Result<(), TurnError> {
    let mut recorded = world.ledger.sweep_memory(cluster).await?;
    recorded.unexplained.clone_from(&memory.unexplained);
    recorded.counted.clone_from(&memory.counted);
    world.ledger.store_sweep_memory(cluster, &recorded).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g3_brake_holds_back_more_than_a_tenth_or_all() {
        assert_eq!(brake(1, 1, 10), None);
        assert!(
            brake(2, 1, 10).is_some(),
            "one within the hour before, and one now"
        );
        assert_eq!(brake(5, 5, 50), None);
        assert!(brake(6, 6, 50).is_some());
        assert!(brake(1, 1, 1).is_some(), "all there is");
        assert_eq!(brake(0, 0, 1), None);
        assert_eq!(brake(6, 0, 50), None, "nothing new");
    }
}
