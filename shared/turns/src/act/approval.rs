//! Approval by a person of plans above a limit of `settings.guards.approveAbove` (docs/operations.md).
//!
//! A plan that waits is a request in the ledger, reported in the journal, in events on NodePools and pods, and by
//! notifications. The next turn plans again: actions that an approved request covers go through, and no others. Pods that leave
//! a node need no approval for another node, but pods that share that new node with them do.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    NodePoolName, Plan, PodKey,
    caps::Spending,
    journal::{Line, Subject},
    ledger::{ApprovalScope, Request},
    plan::{Expected, Launch, PodRef, Refusal, Unplaced},
};
use ports::{
    cluster::{Event, EventKind, EventTarget},
    ledger::Moved,
};

use crate::{
    Report, TurnError,
    context::Turn,
    observe::Observed,
    report::{events, journal, subjects::subjects},
};

/// Attempts to store requests: people approve while turns ask.
const STORE_TRIES_MAX: usize = 5;

/// Whether a plan above a limit may be carried out now.
enum ApprovalStatus {
    Approved(Request),
    Waits(Request),
}

/// Takes launches that wait for approval out of a plan and reports them. Returns the approval that lets launches happen: it is
/// used up before they are committed, so that it counts once, and [`return_approval`] restores it if the commit fails.
pub(crate) async fn hold_unapproved_launches(
    turn: &Turn<'_>,
    observed: &Observed,
    plan: &mut Plan,
    report: &mut Report,
) -> Result<Option<Request>, TurnError> {
    let pods = observed.snapshot.pods.iter();
    let leaving = pods.filter(|pod| pod.node_name.is_some());
    let leaving: BTreeSet<PodKey> = leaving.map(|pod| pod.key.clone()).collect();
    let leaves = |pod: &PodRef| leaving.contains(&pod.key);
    let needs_approval =
        |launch: &Launch| launch.pods.is_empty() || !launch.pods.iter().all(leaves);
    let mut total = Spending::default();
    let mut pools: BTreeMap<NodePoolName, Spending> = BTreeMap::new();
    let launches = plan
        .actions
        .iter()
        .filter_map(|planned| planned.action.launch());
    for launch in launches.filter(|launch| needs_approval(launch)) {
        total.add(launch.cheapest.price);
        let of_pool = pools.entry(launch.node_pool.clone()).or_default();
        of_pool.add(launch.cheapest.price);
    }
    if turn.entry.approve_above.exceeded(total).is_none() {
        return Ok(None);
    }
    let nodes = if total.nodes == 1 { "node" } else { "nodes" };
    let summary = format!(
        "launching {} {nodes} for ${} an hour",
        total.nodes, total.price
    );
    let names: Vec<NodePoolName> = pools.keys().cloned().collect();
    let request =
        match request_approval(turn, ApprovalScope::Launches(pools), summary, true).await? {
            ApprovalStatus::Approved(request) => return Ok(Some(request)),
            ApprovalStatus::Waits(request) => request,
        };
    let text = waiting_text(turn, &request);
    let held = remove_launches(plan, needs_approval);
    let pods = held.iter().flat_map(|launch| &launch.pods);
    let (leaving, waiting): (Vec<&PodRef>, Vec<&PodRef>) = pods.partition(|pod| leaves(pod));
    let waiting: BTreeSet<PodKey> = waiting.iter().map(|pod| pod.key.clone()).collect();
    let keep_instance = planner::await_freed_instance(&observed.snapshot, &waiting);
    if !leaving.is_empty() || keep_instance {
        let mut snapshot = observed.snapshot.clone();
        if keep_instance {
            // Only these pods were planned. Other pods must neither wait for the approval nor get the instance that is kept.
            let own = snapshot.pods.iter_mut();
            for pod in own.filter(|pod| waiting.contains(&pod.key)) {
                pod.unschedulable = false;
            }
        } else {
            // Planned without the pods that wait, the pods that leave need no approval.
            snapshot.pods.retain(|pod| !waiting.contains(&pod.key));
        }
        let again = planner::provision(&snapshot, turn.world.share);
        let mut again = plancheck::filter(&snapshot, again).plan;
        let total = launch_spending(&again, needs_approval);
        if !keep_instance || turn.entry.approve_above.exceeded(total).is_some() {
            let taken = remove_launches(&mut again, needs_approval);
            let pods = taken.into_iter().flat_map(|launch| launch.pods);
            again.postponed.extend(pods.filter(|_| keep_instance));
        }
        *plan = again;
    }
    for launch in &held {
        let waiting = launch.pods.iter().filter(|pod| !leaves(pod));
        plan.unplaced.extend(waiting.map(|pod| Unplaced {
            pod: pod.clone(),
            reasons: vec![Refusal {
                node_pool: Some(launch.node_pool.clone()),
                text: text.clone(),
                limited: false,
            }],
        }));
    }
    let pods = held.iter().flat_map(|launch| &launch.pods);
    let pods = pods.map(|pod| Subject::Pod(pod.key.clone()));
    let pools = names.iter().cloned().map(Subject::NodePool);
    let line = Line::new(text, pools.chain(pods));
    report_waiting(turn, observed, &names, &request, line, report).await;
    Ok(None)
}

/// Total price and number of the launches that `is_counted` selects.
fn launch_spending(plan: &Plan, is_counted: impl Fn(&Launch) -> bool) -> Spending {
    let mut total = Spending::default();
    let launches = plan
        .actions
        .iter()
        .filter_map(|planned| planned.action.launch());
    for launch in launches.filter(|launch| is_counted(launch)) {
        total.add(launch.cheapest.price);
    }
    total
}

fn remove_launches(plan: &mut Plan, is_counted: impl Fn(&Launch) -> bool) -> Vec<Launch> {
    let mut taken = Vec::new();
    plan.actions
        .retain(|planned| match planned.action.launch() {
            Some(launch) if is_counted(launch) => {
                taken.push(launch.clone());
                false
            }
            Some(_) | None => true,
        });
    let names: BTreeSet<_> = taken.iter().map(|launch| &launch.name).collect();
    plan.nominations
        .retain(|nomination| match &nomination.node {
            Expected::NodeClaim(name) => !names.contains(name),
            Expected::Node(_) => true,
        });
    taken
}

/// Whether a disruption waits for approval; if so, reports that it waits.
pub(crate) async fn holds_disruption(
    turn: &Turn<'_>,
    observed: &Observed,
    command: &planner::Command,
    report: &mut Report,
) -> Result<bool, TurnError> {
    let evicts = command.evicts.values();
    let evicts = evicts.fold(0_u32, |sum, pods| sum.saturating_add(*pods));
    let limit = turn.entry.approve_above.evictions;
    if limit.is_none_or(|most| evicts <= most) {
        return Ok(false);
    }
    let delete = command.delete.iter().map(|target| target.uid.clone());
    let asks = ApprovalScope::Disruption {
        delete: delete.collect(),
        evicts,
    };
    let pods = if evicts == 1 { "pod" } else { "pods" };
    let summary = format!("evicting {evicts} {pods} ({})", command.because);
    // The request names the NodeClaims that the disruption deletes, so it applies only once.
    let request = match request_approval(turn, asks, summary, false).await? {
        ApprovalStatus::Approved(_) => return Ok(false),
        ApprovalStatus::Waits(request) => request,
    };
    let line = Line::new(waiting_text(turn, &request), subjects(command));
    let pools: Vec<NodePoolName> = command.evicts.keys().cloned().collect();
    report_waiting(turn, observed, &pools, &request, line, report).await;
    Ok(true)
}

/// Returns an approval to the ledger because nothing was committed under it.
pub(crate) async fn return_approval(turn: &Turn<'_>, request: Request) -> Result<(), TurnError> {
    for _ in 0..STORE_TRIES_MAX {
        let requests = requests(turn).await?;
        let mut back = requests.clone();
        back.push(request.clone());
        let ledger = &turn.world.ledger;
        let stored = ledger.store_requests(turn.cluster, &requests, &back);
        if stored.await? == Moved::Yes {
            return Ok(());
        }
    }
    // Approval is requested again.
    Ok(())
}

async fn requests(turn: &Turn<'_>) -> Result<Vec<Request>, TurnError> {
    let meta = turn.world.ledger.meta(turn.cluster).await?;
    Ok(meta.map(|meta| meta.requests).unwrap_or_default())
}

/// Looks for an approval, and requests it if there is none.
async fn request_approval(
    turn: &Turn<'_>,
    asks: ApprovalScope,
    summary: String,
    counts_once: bool,
) -> Result<ApprovalStatus, TurnError> {
    let now = turn.world.clock.now();
    let until = now.saturating_add(Request::OPEN_FOR).unwrap_or(now);
    let seed = [turn.id.as_str(), &summary];
    let mut id = journal::digest(seed.into_iter());
    id.truncate(8);
    let new = Request {
        id,
        asks,
        description: summary,
        until,
        approved: None,
    };
    let ledger = &turn.world.ledger;
    for _ in 0..STORE_TRIES_MAX {
        let requests = requests(turn).await?;
        let granted = Request::granted(&requests, &new.asks, now).cloned();
        let (after, answer) = match granted {
            Some(granted) if counts_once => {
                let mut rest = requests.clone();
                rest.retain(|request| *request != granted);
                (rest, ApprovalStatus::Approved(granted))
            }
            Some(granted) => return Ok(ApprovalStatus::Approved(granted)),
            None => {
                let (after, request) = Request::ask(&requests, new.clone(), now);
                (after, ApprovalStatus::Waits(request))
            }
        };
        if after == requests {
            return Ok(answer);
        }
        let stored = ledger.store_requests(turn.cluster, &requests, &after);
        if stored.await? == Moved::Yes {
            return Ok(answer);
        }
    }
    Ok(ApprovalStatus::Waits(new))
}

fn waiting_text(turn: &Turn<'_>, request: &Request) -> String {
    let Request {
        id,
        description,
        until,
        ..
    } = request;
    format!(
        "{description} is above settings.guards.approveAbove and waits for approval until {until:.0}: `whittle approve {} {id}`",
        turn.cluster
    )
}

async fn report_waiting(
    turn: &Turn<'_>,
    observed: &Observed,
    pools: &[NodePoolName],
    request: &Request,
    line: Line,
    report: &mut Report,
) {
    let own = observed.snapshot.node_pools.iter();
    let own = own.filter(|pool| pools.contains(&pool.name));
    let emitted: Vec<Event> = own
        .map(|pool| Event {
            about: EventTarget::NodePool(pool.name.clone(), pool.uid.clone()),
            kind: EventKind::Warning,
            reason: events::APPROVAL_REQUIRED.to_owned(),
            message: line.text.clone(),
            at: turn.now,
        })
        .collect();
    if !report.approval_requests.contains(&request.id) {
        report.approval_requests.push(request.id.clone());
        report.awaiting.push(line);
    }
    report.run_again_at(request.until);
    events::post(turn, &emitted, report).await;
}
