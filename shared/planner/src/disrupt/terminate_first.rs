//! Termination ahead of the replacement, for nodes whose reservation or static NodePool is full, so that no replacement can be
//! launched first. Requires the feature gates `TerminateFirstDrift` and `TerminateFirstRepair` (docs/disruption.md).

use model::{
    CapacityType, NanosPerHour, labels::CAPACITY_TYPE, ledger::FreedInstance,
    snapshot::ReservedOfferingMode,
};

use super::{
    Method, Reason,
    budgets::Budgets,
    candidates::Candidate,
    command::{self, Command},
    context::{DisruptionContext, SearchOptions},
    price,
    simulate::DestinationPolicy,
};
use crate::pods::is_reschedulable;

/// Message about a static node that is kept because its NodePool is at its limit.
pub(super) const AT_LIMIT: &str =
    "static NodePool is at its node limit and cannot stage a replacement";

/// Whether the gate for this reason is on.
pub(super) fn is_on(context: &DisruptionContext<'_>, reason: Reason) -> bool {
    let gate = match reason {
        Reason::Unhealthy => "TerminateFirstRepair",
        Reason::Drifted => "TerminateFirstDrift",
        Reason::Empty | Reason::Underutilized => return false,
    };
    context.snapshot.settings.feature_gates.get(gate) == Some(&true)
}

/// Command for a node of a dynamic NodePool in a reservation, if all its pods can be placed once the reservation has the
/// instance back.
pub(super) fn of_dynamic(
    context: &DisruptionContext<'_>,
    reason_and_method: (Reason, Method),
    candidate: &Candidate<'_>,
    budgets: &Budgets,
) -> Option<Command> {
    let (reason, _) = reason_and_method;
    let reservation = reservation(context, candidate).filter(|_| is_on(context, reason))?;
    if !budgets.allows_terminate_first(candidate) {
        return None;
    }
    let planning = context.planning.crediting(reservation);
    let options = SearchOptions {
        reserved: ReservedOfferingMode::Strict,
        ..context.options
    };
    let reschedulable = context.reschedulable;
    let credited = DisruptionContext::new(
        context.snapshot,
        context.inventory,
        &planning,
        reschedulable,
        None,
        options,
    );
    let simulation = credited.simulate(&[candidate], DestinationPolicy::Drift);
    if simulation.obstacle().is_some() {
        return None;
    }
    let nominations = command::nominated(&credited, &simulation);
    let freed = freed(context, candidate);
    let choices = simulation.new_nodes.iter();
    let choices = choices.filter_map(|node| node.choices.first());
    let after = choices.map(|choice| choice.price).sum();
    Some(command::of_terminate_first(
        reason_and_method,
        candidate,
        freed,
        nominations,
        Some(after),
    ))
}

/// Command for a node of a static NodePool at its limit, or why there is none: a node is kept unless it can be replaced
/// afterwards.
pub(super) fn of_static(
    context: &DisruptionContext<'_>,
    reason_and_method: (Reason, Method),
    candidate: &Candidate<'_>,
    budgets: &Budgets,
) -> Result<Command, String> {
    let (reason, _) = reason_and_method;
    let pool = candidate.pool;
    if !is_on(context, reason) {
        return Err(AT_LIMIT.to_owned());
    }
    if !budgets.allows_terminate_first(candidate) {
        let name = &pool.name;
        return Err(format!(
            "NodePool {name} is missing as many nodes as its budgets allow to be disrupted"
        ));
    }
    if pool.not_ready.is_some() || pool.deleted_at.is_some() {
        let name = &pool.name;
        return Err(format!(
            "NodePool {name} is not ready to provision a replacement"
        ));
    }
    let Some(price) = price_of_refill(context, candidate) else {
        return Err("no launchable capacity to refill this node".to_owned());
    };
    let freed = freed(context, candidate);
    Ok(command::of_terminate_first(
        reason_and_method,
        candidate,
        freed,
        Vec::new(),
        Some(price),
    ))
}

/// Reserved instance that the candidate frees. The owners of its pods identify the recreated pods.
fn freed(context: &DisruptionContext<'_>, candidate: &Candidate<'_>) -> Option<FreedInstance> {
    let reservation = reservation(context, candidate)?.to_owned();
    let pods = candidate.state_node.pods.iter();
    let moving = pods.filter(|pod| is_reschedulable(pod));
    let owners = moving.filter_map(|pod| Some(pod.owner.as_ref()?.uid.clone()));
    Some(FreedInstance {
        reservation,
        node_pool: candidate.pool.name.clone(),
        owners: owners.collect(),
    })
}

/// Lowest price of a node from the NodePool's template, with the candidate's reserved instance available. `None` if no offering
/// can be launched.
fn price_of_refill(
    context: &DisruptionContext<'_>,
    candidate: &Candidate<'_>,
) -> Option<NanosPerHour> {
    let own = reservation(context, candidate);
    let credited = own.map(|own| context.planning.crediting(own));
    let planning = credited.as_ref().unwrap_or(context.planning);
    let types = planning.types.get(&candidate.pool.name)?;
    price::of_template(candidate.pool, types, context.snapshot)
}

/// Reservation that the candidate runs in.
fn reservation<'c>(
    context: &DisruptionContext<'_>,
    candidate: &'c Candidate<'_>,
) -> Option<&'c str> {
    let labels = &candidate.state_node.labels;
    let reserved = CapacityType::Reserved.as_str();
    let is_reserved = labels
        .get(CAPACITY_TYPE)
        .is_some_and(|capacity_type| capacity_type == reserved);
    let id = labels.get(&context.snapshot.settings.reservation_id_label)?;
    is_reserved.then_some(id.as_str())
}
