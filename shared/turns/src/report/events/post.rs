use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use jiff::SignedDuration;
use model::ClusterName;
use ports::{
    Cluster, LedgerError,
    cluster::{Event, EventTarget},
};

use super::{
    APPROVAL_REQUIRED, CAP_EXCEEDED, INVALID_ANNOTATION, NO_TYPES, OLD_VERSION, PRICES_NOT_CURRENT,
    TERMINATION_REFUSED, UNREADABLE,
};
use crate::{
    Report, TurnError, World,
    context::{Turn, isolation::CHANGE_REFUSED},
};

/// Upper bound on events posted per turn: each is a write to the ledger and one to the API server.
const EVENTS_MAX: usize = 50;
/// Events posted concurrently: enough to hide a call's latency, few enough for an API server that has other clients.
const CONCURRENT_EVENTS: usize = 10;
/// Delay after which a turn posts the events that were left.
const REST_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// Events per reason above which recently posted events are read with one query instead of one read each, which costs less.
const READ_ONE_BY_ONE_MAX: usize = 8;

/// Events that may be refused one by one, as in a namespace that is being deleted; after this many, the API server is assumed
/// to take none.
const REFUSED_MAX: usize = 5;

/// Posts events that have not been posted recently. Failures are reported and have no other effect.
pub(crate) async fn post(turn: &Turn<'_>, events: &[Event], report: &mut Report) {
    let recent = match posted_recently(turn, events).await {
        Ok(recent) => recent,
        Err(error) => {
            report.problems.push(format!("events: {error}"));
            return;
        }
    };
    let fresh = events.iter().filter(|event| !recent.contains(&key(event)));
    let mut fresh: Vec<&Event> = fresh.collect();
    if fresh.len() > EVENTS_MAX {
        // Rotates the order, so that repeats of the first events do not keep the last ones from ever being posted.
        let minute = usize::try_from(turn.now.as_second() / 60).unwrap_or_default();
        let first = minute.wrapping_mul(EVENTS_MAX) % fresh.len();
        fresh.rotate_left(first);
    }
    let (mut posted, mut refused) = (0, 0);
    let mut left = fresh.as_slice();
    while !left.is_empty() && posted < EVENTS_MAX {
        let size = left.len().min(CONCURRENT_EVENTS).min(EVENTS_MAX - posted);
        let (together, rest) = left.split_at(size);
        left = rest;
        let posts = together.iter().map(async |event| {
            let outcome = post_once(turn.world, turn.cluster, &*turn.api, event).await;
            (event.reason.as_str(), outcome)
        });
        for (reason, outcome) in join_all(posts).await {
            match outcome {
                Ok(true) => posted += 1,
                Ok(false) => {}
                Err(error) => {
                    report.problems.push(format!("event {reason}: {error}"));
                    refused += 1;
                    if !error.is_about_one_object() || refused == REFUSED_MAX {
                        return;
                    }
                }
            }
        }
    }
    if !left.is_empty() {
        let left = left.len();
        report.warnings.push(format!(
            "{left} Kubernetes events wait for later turns: one turn creates at most {EVENTS_MAX}"
        ));
        report.run_again_at(turn.now + REST_AFTER);
    }
}

async fn posted_recently(
    turn: &Turn<'_>,
    events: &[Event],
) -> Result<BTreeSet<String>, LedgerError> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for event in events {
        *counts.entry(reason_prefix(event)).or_default() += 1;
    }
    let now = turn.world.clock.now();
    let mut recent = BTreeSet::new();
    for (reason, count) in counts {
        if count > READ_ONE_BY_ONE_MAX {
            recent.append(&mut turn.world.ledger.said(turn.cluster, &reason, now).await?);
        }
    }
    Ok(recent)
}

/// Posts an event unless it was posted recently. Returns whether it was posted.
pub(crate) async fn post_once(
    world: &World,
    cluster: &ClusterName,
    api: &dyn Cluster,
    event: &Event,
) -> Result<bool, TurnError> {
    let now = world.clock.now();
    let until = now + repeat_after(event);
    let first = world.ledger.once(cluster, &key(event), now, until).await?;
    if first {
        api.post_event(event).await?;
    }
    Ok(first)
}

fn reason_prefix(event: &Event) -> String {
    format!("event/{}/", event.reason.to_lowercase())
}

fn key(event: &Event) -> String {
    reason_prefix(event) + uid(&event.about)
}

/// Period during which an equal event is not posted again (docs/spec/scheduling.md#events, docs/spec/lifecycle.md#events).
fn repeat_after(event: &Event) -> SignedDuration {
    match event.reason.as_str() {
        NO_TYPES => SignedDuration::from_mins(1),
        "FailedScheduling" => SignedDuration::from_mins(5),
        "NodeRepairBlocked" | CHANGE_REFUSED | TERMINATION_REFUSED | INVALID_ANNOTATION
        | CAP_EXCEEDED | APPROVAL_REQUIRED | "Unconsolidatable" => SignedDuration::from_mins(15),
        "RebootObserved" | "RebootFailed" => SignedDuration::from_mins(30),
        // Prices are read again twice a day.
        OLD_VERSION | UNREADABLE | PRICES_NOT_CURRENT => SignedDuration::from_hours(6),
        _ => SignedDuration::from_mins(2),
    }
}

fn uid(about: &EventTarget) -> &str {
    match about {
        EventTarget::Pod(_, uid)
        | EventTarget::Node(_, uid)
        | EventTarget::NodeClaim(_, uid)
        | EventTarget::NodePool(_, uid)
        | EventTarget::NodeClass(_, uid)
        | EventTarget::CapacityBuffer(_, uid) => uid.as_str(),
    }
}
