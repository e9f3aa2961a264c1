//! Termination of instances: a turn's instances are terminated by EC2 together. An instance that EC2 refuses is reported and
//! then requested at growing intervals, so that repetitions cost next to nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::{ClusterName, InstanceId};
use ports::{
    CloudError, LedgerError, Termination, TerminationRefusal,
    cluster::{Event, EventKind, EventTarget},
};

use crate::{
    World,
    report::{TerminationResults, events::TERMINATION_REFUSED},
};

/// Prefix of ledger keys of instances that EC2 refused to terminate a short while ago.
const REFUSED_PREFIX: &str = "termination-refused/";

/// Shortest time before a refused termination is requested again: its cause may be about to be removed.
const FIRST_RETRY: SignedDuration = SignedDuration::from_mins(1);
/// Longest such time, which bounds how long an instance runs on after the cause has been removed.
const LONGEST_RETRY: SignedDuration = SignedDuration::from_mins(15);
/// Divisor of the time for which the instance has been due to end, which gives the time in between.
const AGE_PER_RETRY: i32 = 4;

/// Instances that EC2 refused too recently to be requested again.
pub(crate) async fn refused_recently(
    world: &World,
    cluster: &ClusterName,
) -> Result<BTreeSet<InstanceId>, LedgerError> {
    let now = world.clock.now();
    let keys = world.ledger.said(cluster, REFUSED_PREFIX, now).await?;
    let ids = keys
        .iter()
        .filter_map(|key| key.strip_prefix(REFUSED_PREFIX));
    Ok(ids.map(InstanceId::from).collect())
}

/// Requests the termination of instances, each with the time since which it is due, and remembers refusals.
pub(crate) async fn end_instances(
    world: &World,
    cluster: &ClusterName,
    due: &BTreeMap<InstanceId, Timestamp>,
) -> Result<TerminationResults, LedgerError> {
    let mut results = TerminationResults::default();
    if due.is_empty() {
        return Ok(results);
    }
    let ids: Vec<InstanceId> = due.keys().cloned().collect();
    let begun = world.clock.now();
    let verdicts = world.cloud.terminate(cluster, &ids).await;
    let is_unsent = |verdict: &Termination| {
        matches!(
            verdict,
            Termination::Unanswered(CloudError::Postponed { .. })
        )
    };
    if !verdicts.iter().all(|(_, verdict)| is_unsent(verdict)) {
        results.took = Some(world.clock.now().duration_since(begun));
    }
    let mut unanswered = 0;
    for (id, verdict) in verdicts {
        match verdict {
            Termination::Ended | Termination::Gone => {
                results.ended.insert(id);
            }
            Termination::Refused(refusal) => {
                let now = world.clock.now();
                let since = due.get(&id).copied().unwrap_or(now);
                let until = now + retry_after(now.duration_since(since));
                let key = format!("{REFUSED_PREFIX}{id}");
                world.ledger.once(cluster, &key, now, until).await?;
                tracing::warn!(%cluster, instance = %id, %refusal, %until, "EC2 refused to terminate the instance");
                results.refused.insert(id, refusal);
            }
            Termination::Unanswered(error) => {
                unanswered += 1;
                results.unanswered = Some((unanswered, error));
            }
        }
    }
    Ok(results)
}

/// Time before the termination of an instance that has been due for `age` is requested again.
pub(crate) fn retry_after(age: SignedDuration) -> SignedDuration {
    (age / AGE_PER_RETRY).clamp(FIRST_RETRY, LONGEST_RETRY)
}

/// Event that names the instance, EC2's reason and the remedy.
pub(crate) fn refusal_event(
    about: EventTarget,
    instance: &InstanceId,
    refusal: &TerminationRefusal,
    now: Timestamp,
) -> Event {
    Event {
        about,
        kind: EventKind::Warning,
        reason: TERMINATION_REFUSED.to_owned(),
        message: format!("EC2 refuses to terminate instance {instance}: {refusal}"),
        at: now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_termination_is_retried_at_growing_intervals() {
        let waits = [0, 4, 8, 40, 60, 6_000].map(|minutes| {
            let wait = retry_after(SignedDuration::from_mins(minutes));
            wait.as_mins()
        });
        assert_eq!(waits, [1, 1, 2, 10, 15, 15]);
    }
}
