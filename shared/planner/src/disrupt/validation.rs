//! Validation of a command some time after it was decided (docs/spec/lifecycle.md#validation).

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::types::INITIALIZED;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeClaimName, Snapshot,
    ledger::{self, Choice, Method},
    plan::Target,
    snapshot::Optimize,
};

use super::{
    budgets::Budgets,
    candidates::{Candidate, Candidates},
    command::Command,
    consolidation::{Move, judge_simulation, may_consolidate},
    context::DisruptionContext,
    emptiness, multi,
    simulate::DestinationPolicy,
    types,
};
use crate::{
    inventory::{Inventory, StateNode},
    lifecycle::pod_events::{self, Judged},
    pods::is_reschedulable,
};

/// Waiting period of a consolidation proposal before it is validated again. Pods that were not foreseen may be bound meanwhile.
pub const VALIDATED_AFTER: SignedDuration = SignedDuration::from_secs(15);

/// Waiting period of a proposal before it is validated, at most [`VALIDATED_AFTER`]. Empty nodes whose pods have not changed
/// for that long have been observed long enough already (docs/spec/lifecycle.md#validation).
pub fn validation_wait(snapshot: &Snapshot, command: &Command) -> SignedDuration {
    let as_upstream = snapshot.settings.optimize == Optimize::Upstream;
    if as_upstream || command.method != Method::Emptiness {
        return VALIDATED_AFTER;
    }
    let inventory = Inventory::new(snapshot);
    let state_nodes: BTreeMap<&NodeClaimName, &StateNode<'_>> = inventory
        .state_nodes
        .iter()
        .filter_map(|state_node| Some((&state_node.claim?.name, state_node)))
        .collect();
    let waits = command.delete.iter().map(|target| {
        let state_node = state_nodes.get(&target.name);
        let since = state_node.and_then(|state_node| empty_since(state_node, snapshot.now));
        since.map_or(VALIDATED_AFTER, |since| {
            VALIDATED_AFTER - snapshot.now.duration_since(since)
        })
    });
    let longest = waits.max().unwrap_or(VALIDATED_AFTER);
    longest.clamp(SignedDuration::ZERO, VALIDATED_AFTER)
}

/// Last recorded change of an empty node's pods; `None` if it has pods to disturb, or if a change of its pods is not recorded yet.
/// A pod that came and left between two turns leaves no record: validation itself reads pods again.
fn empty_since(state_node: &StateNode<'_>, now: Timestamp) -> Option<Timestamp> {
    let (claim, pods) = (state_node.claim?, &state_node.pods);
    // Pods that cost nothing to evict leave a node empty, and are disturbed all the same.
    if pods.iter().any(|pod| is_reschedulable(pod))
        || !matches!(pod_events::judge(pods, claim, now), Judged::Unchanged)
    {
        return None;
    }
    let initialized = || Some(claim.condition(INITIALIZED)?.last_transition);
    claim.status.last_pod_event.or_else(initialized)
}

/// Why a proposal is no longer valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Value in metrics and events: `churn`, `budget` or `scheduling`.
    pub class: &'static str,
    pub message: String,
}

impl Rejection {
    pub(super) fn churn(message: String) -> Self {
        let class = "churn";
        Self { class, message }
    }

    fn budget(message: String) -> Self {
        let class = "budget";
        Self { class, message }
    }

    fn scheduling(message: String) -> Self {
        let class = "scheduling";
        Self { class, message }
    }
}

/// Returns the proposed empty nodes that may still be removed, in the order of the proposal.
pub(super) fn still_empty_proposal<'a>(
    candidates: &Candidates<'a>,
    proposed: &[Target],
    expecting: &BTreeSet<usize>,
    mut budgets: Budgets,
) -> Result<Vec<Candidate<'a>>, Rejection> {
    let still = proposed.iter().filter_map(|target| {
        let now = candidates.by_target(target)?;
        let is_empty = emptiness::applies_to(now) == Ok(true);
        (is_empty && !expecting.contains(&now.index)).then_some(now)
    });
    let mut still: Vec<Candidate<'a>> = still.cloned().collect();
    if still.is_empty() {
        let message = "none of the nodes is still an empty candidate";
        return Err(Rejection::churn(message.to_owned()));
    }
    still.retain(|candidate| budgets.take(candidate));
    if still.is_empty() {
        let message =
            "disruption budgets of the NodePool no longer allow removing any of the nodes";
        return Err(Rejection::budget(message.to_owned()));
    }
    Ok(still)
}

/// Plans a proposed consolidation again: with all of its nodes, within budgets, and only if the proposed replacement is still
/// among the possible ones. Instance types and pods are those of the new plan.
pub(super) fn replan<'a>(
    context: &DisruptionContext<'a>,
    candidates: &Candidates<'a>,
    proposal: &ledger::Command,
    choice: &Choice,
    mut budgets: Budgets,
) -> Result<Move<'a>, Rejection> {
    let mut still: Vec<&Candidate<'a>> = Vec::new();
    for target in &proposal.delete {
        match candidates
            .by_target(target)
            .map(|now| (now, may_consolidate(now)))
        {
            Some((now, Ok(true))) => still.push(now),
            Some((_, Err(why))) => return Err(Rejection::churn(why)),
            Some((_, Ok(false))) | None => {
                let name = &target.name;
                let message =
                    format!("NodeClaim {name} is no longer a candidate for consolidation");
                return Err(Rejection::churn(message));
            }
        }
    }
    if let Some(candidate) = still.iter().find(|candidate| !budgets.take(candidate)) {
        let pool = &candidate.pool.name;
        let message = format!(
            "disruption budgets of NodePool {pool} no longer allow removing all of the nodes"
        );
        return Err(Rejection::budget(message));
    }
    let wanted = choice.wanted.clone();
    let again = context.simulate_towards(&still, DestinationPolicy::Consolidation, wanted);
    if let Some(obstacle) = again.obstacle() {
        return Err(Rejection::scheduling(obstacle));
    }
    let unlike = |message: &str| Err(Rejection::scheduling(message.to_owned()));
    let planned = [&choice.instance_types];
    let planned = planned.into_iter().filter(|types| !types.is_empty());
    let planned: Vec<_> = planned.chain(&choice.others).collect();
    let (now, before) = (again.new_nodes.len(), planned.len());
    match (before, now) {
        (1.., 0) => return unlike("the replacement is no longer needed"),
        (0, 1) => return unlike("a replacement is needed now"),
        (1.., 1..) if before != now => {
            return unlike("a different number of replacements is needed now");
        }
        _ => {}
    }
    for (planned, fresh) in planned.iter().zip(&again.new_nodes) {
        let of_pool = types::of_new_node(context, fresh);
        let offered = fresh.choices.iter();
        let offered: BTreeSet<&str> = offered
            .filter_map(|choice| Some(of_pool.get(choice.instance_type())?.name.as_str()))
            .collect();
        let mut planned = planned.iter();
        if !planned.all(|instance_type| offered.contains(instance_type.as_str())) {
            return unlike("its pods need a different replacement now");
        }
    }
    let most = before.max(1);
    let mut step = judge_simulation(context, &still, again, most).map_err(Rejection::scheduling)?;
    if choice.method == Method::MultiNode
        && multi::leave_out_own_types(context, &mut step).is_none()
    {
        return unlike("no cheaper replacement is available any more");
    }
    let move_costs = &context.move_costs;
    move_costs
        .pays(context, &step)
        .map_err(Rejection::scheduling)?;
    Ok(step)
}

/// Returns the chosen empty nodes that may still be removed.
pub(super) fn still_empty<'a>(
    candidates: &Candidates<'a>,
    chosen: &[Candidate<'a>],
    mut budgets: Budgets,
) -> Vec<Candidate<'a>> {
    let still = chosen.iter().filter_map(|candidate| {
        let now = candidates.by_claim(candidate.claim)?;
        (emptiness::applies_to(now) == Ok(true)).then_some(now)
    });
    still
        .filter(|candidate| budgets.take(candidate))
        .cloned()
        .collect()
}

/// Whether all nodes of a move are still candidates within budgets, and the simulation still leads to the move or to one that
/// includes it.
pub(super) fn holds<'a>(
    context: &DisruptionContext<'a>,
    candidates: &Candidates<'a>,
    step: &Move<'a>,
    mut budgets: Budgets,
) -> bool {
    let still: Option<Vec<&Candidate<'a>>> = step
        .candidates
        .iter()
        .map(|candidate| {
            let now = candidates.by_claim(candidate.claim)?;
            (may_consolidate(now) == Ok(true)).then_some(now)
        })
        .collect();
    let Some(still) = still else { return false };
    if !still.iter().all(|candidate| budgets.take(candidate)) {
        return false;
    }
    let wanted = step.simulation.wanted.clone();
    let again = context.simulate_towards(&still, DestinationPolicy::Consolidation, wanted);
    if again.obstacle().is_some() {
        return false;
    }
    step.replacements.len() == again.new_nodes.len()
        && step
            .replacements
            .iter()
            .zip(&again.new_nodes)
            .all(|(planned, fresh)| {
                let offered: Vec<usize> = fresh.choices.iter().map(|c| c.instance_type()).collect();
                let mut planned_types = planned.choices.iter().map(|c| c.instance_type());
                planned.pool == fresh.pool
                    && planned_types.all(|instance_type| offered.contains(&instance_type))
            })
}
