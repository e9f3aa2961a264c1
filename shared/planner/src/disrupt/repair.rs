//! Repair: replaces or reboots nodes that stay unhealthy, one at a time and before any other method (docs/disruption.md).

mod unhealthy_nodes;

use model::ledger;

pub(super) use self::unhealthy_nodes::{UnhealthyNode, UnhealthyNodes};
use super::{
    DisruptionResult, Method, Reason,
    budgets::Budgets,
    candidates::{Blocked, Candidate},
    command::{self, Command},
    context::DisruptionContext,
    drift::{Room, room},
    methods::Methods,
    simulate::DestinationPolicy,
    terminate_first,
};
use crate::{
    decision::{About, Note},
    repair::{Breaker, FailureEvidence, RepairAction},
};

const REASON_AND_METHOD: (Reason, Method) = (Reason::Unhealthy, Method::Repair);

/// Returns the most urgent possible repair. Adds to the result what blocks other repairs, and the time at which more may be
/// due.
pub(super) fn choose(methods: &Methods<'_, '_>, result: &mut DisruptionResult) -> Option<Command> {
    let context = methods.now;
    let unhealthy_nodes = UnhealthyNodes::new(context);
    result.blocked.extend(unhealthy_nodes.blocked);
    result.due = unhealthy_nodes.next;
    if unhealthy_nodes.due.is_empty() {
        return None;
    }
    let breaker = Breaker::new(context.snapshot);
    let evidence = FailureEvidence::new(context.snapshot);
    let budgets = methods.budgets(context, Reason::Unhealthy);
    let mut found = None;
    for unhealthy in &unhealthy_nodes.due {
        let candidate = &unhealthy.candidate;
        if let Some(message) = budgets.exhausted_message(candidate.pool) {
            result
                .exhausted
                .insert((candidate.pool.name.clone(), message));
            let opens = budgets.reopens_at(candidate.pool);
            result.due = result.due.into_iter().chain(opens).min();
        }
        if breaker.blocks(&candidate.pool.name) {
            result
                .notes
                .extend(blocked_notes(candidate, &too_many(candidate)));
        } else if let Some(message) = unhealthy.held_back(&evidence) {
            result.notes.extend(blocked_notes(candidate, &message));
            result
                .exhausted
                .insert((candidate.pool.name.clone(), message));
        } else if found.is_none() && budgets.allows(candidate) {
            match decide(context, unhealthy, &budgets) {
                Ok(command) => found = command,
                Err(message) => result.blocked.push(Blocked {
                    node: candidate.node.name.to_string(),
                    message,
                }),
            }
        }
    }
    found
}

/// Returns the command that repairs a node, or why there is none. `Ok(None)` if its static NodePool has more nodes than
/// replicas: scaling down comes first.
pub(super) fn decide<'a>(
    context: &DisruptionContext<'a>,
    unhealthy: &UnhealthyNode<'a>,
    budgets: &Budgets,
) -> Result<Option<Command>, String> {
    let candidate = &unhealthy.candidate;
    let candidates = std::slice::from_ref(candidate);
    let command = if unhealthy.due.action == RepairAction::Reboot {
        Some(command::of_reboot(REASON_AND_METHOD, candidate))
    } else if candidate.pool.replicas.is_some() {
        match room(context, candidate.pool) {
            Room::Surplus => return Ok(None),
            Room::For(0) => Some(terminate_first::of_static(
                context,
                REASON_AND_METHOD,
                candidate,
                budgets,
            )?),
            Room::For(_) => command::of_static(context, REASON_AND_METHOD, candidates).pop(),
        }
    } else {
        let mut simulation = context.simulate(&[candidate], DestinationPolicy::Drift);
        Some(match simulation.obstacle() {
            None => {
                let replacements = std::mem::take(&mut simulation.new_nodes);
                command::of_simulation(
                    context,
                    REASON_AND_METHOD,
                    candidates,
                    &simulation,
                    &replacements,
                )
            }
            Some(message) => {
                terminate_first::of_dynamic(context, REASON_AND_METHOD, candidate, budgets)
                    .ok_or(message)?
            }
        })
    };
    let due = &unhealthy.due;
    Ok(command.map(|command| Command {
        repair: Some(ledger::Repair {
            condition: due.condition.to_owned(),
            reason: due.reason.to_owned(),
            drain_bound: due.drain_bound,
        }),
        because: format!("{}; {}", command.because, unhealthy.diagnosis()),
        ..command
    }))
}

/// Events about a node that is not repaired because too many others are unhealthy.
fn blocked_notes(candidate: &Candidate<'_>, message: &str) -> [Note; 3] {
    let pool = candidate.pool;
    let pool = About::NodePool(pool.name.clone(), pool.uid.clone());
    [candidate.node.into(), candidate.claim.into(), pool]
        .map(|about: About| Note::warning(about, "NodeRepairBlocked", message.to_owned()))
}

fn too_many(candidate: &Candidate<'_>) -> String {
    let pool = &candidate.pool.name;
    format!("more than 20% of nodes in nodepool \"{pool}\" are unhealthy")
}

/// Returns why failures of other nodes hold back the repair of this one.
pub(super) fn held_back(
    breaker: &Breaker,
    evidence: &FailureEvidence<'_>,
    unhealthy: &UnhealthyNode<'_>,
) -> Option<String> {
    let candidate = &unhealthy.candidate;
    match breaker.blocks(&candidate.pool.name) {
        true => Some(too_many(candidate)),
        false => unhealthy.held_back(evidence),
    }
}
