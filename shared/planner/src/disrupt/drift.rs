//! Drift: replaces nodes that no longer match their NodePool and NodeClass (docs/spec/lifecycle.md#drift).

use std::collections::BTreeMap;

use api::conditions::types::DRIFTED;
use model::{
    NodePoolName,
    ledger::{Cursor, Drifted},
    node_pool::NodePool,
    resources::NODES,
};

use super::{
    Method, Reason,
    budgets::Budgets,
    candidates::{Blocked, Candidate},
    command::{self, Command},
    context::DisruptionContext,
    methods::Methods,
    round::Searched,
    simulate::DestinationPolicy,
    terminate_first,
};
use crate::{pods::is_reschedulable, static_capacity::launches_to_come};

pub(super) fn applies_to(candidate: &Candidate<'_>) -> bool {
    candidate.pool.replicas.is_none() && candidate.claim.is_true(DRIFTED)
}

pub(super) fn applies_to_static(candidate: &Candidate<'_>) -> bool {
    candidate.pool.replicas.is_some() && candidate.claim.is_true(DRIFTED)
}

/// Returns the command for the first candidate whose pods can all be placed, with as many replacements as that takes. Nodes
/// without pods come first, then those that drifted first. Candidates that the current round has considered are skipped.
pub(super) fn choose<'a>(
    methods: &Methods<'_, 'a>,
    candidates: &[&Candidate<'a>],
    blocked: &mut Vec<Blocked>,
) -> Searched<Command> {
    let context = methods.now;
    let budgets = methods.budgets(context, Reason::Drifted);
    let places = candidates
        .iter()
        .map(|candidate| (drift_rank(candidate), *candidate));
    let mut order: Vec<(Drifted, &Candidate<'a>)> = match &context.snapshot.cursor {
        // The cursor is past drift in this round.
        Some(Cursor::Single(_)) => return Searched::all_considered(),
        Some(Cursor::Drift(last)) => places.filter(|(place, _)| place > last).collect(),
        Some(Cursor::Plan(_)) | None => places.collect(),
    };
    order.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut last = None;
    for (at, (place, candidate)) in order.iter().enumerate() {
        // Every evaluation considers at least one candidate, so that each round ends.
        if let Some(last) = last.take().filter(|_| methods.share_is_used_up()) {
            return Searched::share_used_up(Cursor::Drift(last), order.len() - at);
        }
        last = Some(place.clone());
        if !budgets.allows(candidate) {
            continue;
        }
        match decide(context, candidate, &budgets) {
            Ok(found) => {
                let cursor = Cursor::Drift(place.clone());
                return Searched::ended_at(context, Some(found), cursor);
            }
            Err(message) => blocked.push(Blocked {
                node: candidate.node.name.to_string(),
                message,
            }),
        }
    }
    Searched::all_considered()
}

/// Returns the command that replaces a node of a dynamic NodePool, or why there is none.
pub(super) fn decide<'a>(
    context: &DisruptionContext<'a>,
    candidate: &Candidate<'a>,
    budgets: &Budgets,
) -> Result<Command, String> {
    let reason_and_method = (Reason::Drifted, Method::Drift);
    let mut simulation = context.simulate(&[candidate], DestinationPolicy::Drift);
    match simulation.obstacle() {
        None => {
            let replacements = std::mem::take(&mut simulation.new_nodes);
            let candidates = std::slice::from_ref(candidate);
            Ok(command::of_simulation(
                context,
                reason_and_method,
                candidates,
                &simulation,
                &replacements,
            ))
        }
        Some(message) => {
            terminate_first::of_dynamic(context, reason_and_method, candidate, budgets)
                .ok_or(message)
        }
    }
}

fn drift_rank(candidate: &Candidate<'_>) -> Drifted {
    let mut pods = candidate.state_node.pods.iter();
    let since = candidate.claim.condition(DRIFTED);
    Drifted {
        occupied: pods.any(|pod| is_reschedulable(pod)),
        since: since.map(|condition| condition.last_transition),
        node: candidate.node.name.clone(),
    }
}

/// Message about a static node that is kept because its NodePool scales down first.
pub(super) const SURPLUS: &str = "its static NodePool has more nodes than replicas";

/// Why a drifted node of a static NodePool would be kept, as far as the other nodes and the NodePool's limit decide.
pub(super) fn obstacle_of_static(
    context: &DisruptionContext<'_>,
    candidate: &Candidate<'_>,
    budgets: &Budgets,
) -> Option<String> {
    let reason_and_method = (Reason::Drifted, Method::StaticDrift);
    match room(context, candidate.pool) {
        Room::Surplus => Some(SURPLUS.to_owned()),
        Room::For(0) => {
            terminate_first::of_static(context, reason_and_method, candidate, budgets).err()
        }
        Room::For(_) => None,
    }
}

/// Returns commands for as many nodes per static NodePool as its budgets and its limit on nodes allow, each with one
/// replacement. At the limit, nodes are terminated ahead of their replacement or reported as blocked.
pub(super) fn choose_static<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    budgets: &Budgets,
    blocked: &mut Vec<Blocked>,
) -> Vec<Command> {
    let reason_and_method = (Reason::Drifted, Method::StaticDrift);
    let mut by_pool: BTreeMap<&NodePoolName, Vec<&Candidate<'a>>> = BTreeMap::new();
    for candidate in candidates {
        by_pool
            .entry(&candidate.pool.name)
            .or_default()
            .push(candidate);
    }
    let mut budgets = budgets.clone();
    let mut replaced: Vec<Candidate<'a>> = Vec::new();
    let mut commands = Vec::new();
    for mut own in by_pool.into_values() {
        let Some(pool) = own.first().map(|candidate| candidate.pool) else {
            continue;
        };
        own.sort_by_key(|candidate| &candidate.node.name);
        match room(context, pool) {
            Room::Surplus => {}
            Room::For(0) => {
                for candidate in own {
                    if !budgets.take(candidate) {
                        continue;
                    }
                    match terminate_first::of_static(
                        context,
                        reason_and_method,
                        candidate,
                        &budgets,
                    ) {
                        Ok(command) => {
                            budgets.take_terminate_first(candidate);
                            commands.push(command);
                        }
                        Err(message) => blocked.push(Blocked {
                            node: candidate.node.name.to_string(),
                            message,
                        }),
                    }
                }
            }
            Room::For(nodes) => {
                let may_go = own.into_iter().filter(|candidate| budgets.take(candidate));
                replaced.extend(may_go.take(nodes).cloned());
            }
        }
    }
    commands.splice(
        ..0,
        command::of_static(context, reason_and_method, &replaced),
    );
    commands
}

/// Number of nodes that a static NodePool may add now.
pub(super) enum Room {
    /// The NodePool has more nodes than `replicas`; scaling down comes first.
    Surplus,
    /// This many nodes.
    For(usize),
}

pub(super) fn room(context: &DisruptionContext<'_>, pool: &NodePool) -> Room {
    let claims = context.snapshot.node_claims.iter();
    let own = claims.filter(|claim| claim.node_pool().as_ref() == Some(&pool.name));
    let (going, staying): (Vec<_>, Vec<_>) = own.partition(|claim| claim.deleted_at.is_some());
    let wanted = usize::try_from(pool.replicas.unwrap_or(0)).unwrap_or(0);
    let coming = launches_to_come(context.snapshot, pool);
    if staying.len() + coming > wanted {
        return Room::Surplus;
    }
    Room::For(match pool.limits.0.get(NODES) {
        None => usize::MAX,
        Some(limit) => usize::try_from(*limit)
            .unwrap_or(0)
            .saturating_sub(staying.len() + coming + going.len()),
    })
}
