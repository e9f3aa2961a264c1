//! Disruption: removes or replaces nodes that are unhealthy, empty, drifted or underutilized, within disruption budgets
//! (docs/spec/lifecycle.md#disruption-loop).

mod balanced;
mod budgets;
mod candidates;
mod command;
mod consolidation;
mod context;
pub(crate) mod cost;
mod deletion_cost;
mod drift;
mod emptiness;
mod evictions;
mod lookahead;
mod methods;
mod move_costs;
mod multi;
mod node_report;
pub(crate) mod price;
mod rearranging;
mod repair;
mod reschedulable;
mod round;
mod schedule;
mod simulate;
pub mod simulate_apply;
mod single;
mod terminate_first;
mod trajectory;
mod types;
mod validation;

use std::{collections::BTreeSet, rc::Rc};

use jiff::Timestamp;
use model::{
    NodeClaimName, NodePoolName, Snapshot,
    ledger::{self, Cursor},
};
use scheduling::PrecomputedIndexes;

pub use model::ledger::Method;

pub(crate) use self::price::{of_node as price_of_node, of_template as price_of_template};
pub use self::{
    balanced::BalancedVerdict,
    budgets::PoolBudget,
    candidates::Blocked,
    command::Command,
    deletion_cost::{DeletionCost, GATE as POD_DELETION_COST_GATE, NodeDeletionCosts},
    node_report::{Alternative, NodeReport},
    validation::{Rejection, VALIDATED_AFTER, validation_wait},
};
use self::{
    context::{DisruptionContext, SearchOptions},
    methods::Methods,
    reschedulable::ReschedulablePods,
};
use crate::{
    decision::Note, inventory::Inventory, provision::planning_context::PlanningContext,
    share::Share,
};

/// Reason of a disruption, in the spelling of conditions, events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Unhealthy,
    Empty,
    Drifted,
    Underutilized,
}

/// Result of one evaluation of the disruption methods on a snapshot.
#[derive(Clone, Debug, Default)]
pub struct DisruptionResult {
    /// Commands to start. More than one only for static NodePools.
    pub commands: Vec<Command>,
    /// Nodes that at least one method may not disrupt.
    pub blocked: Vec<Blocked>,
    /// Nodes that consolidation evaluated and keeps.
    pub unconsolidatable: Vec<Blocked>,
    /// Events about repairs that were held back.
    pub notes: Vec<Note>,
    /// NodePools with candidates whose budgets or caps allow no disruption, with the message of the event about it.
    pub exhausted: BTreeSet<(NodePoolName, String)>,
    /// Earliest time at which a candidate becomes disruptable by the passing of time alone: a budget's schedule, a nomination
    /// or a pod's protection ends.
    pub due: Option<Timestamp>,
    /// NodePool annotations that do not parse, with the message of the event; the default applies instead.
    pub misread: Vec<(NodePoolName, String)>,
    /// Position at which the next evaluation continues; `None` starts a new round.
    pub cursor: Option<Cursor>,
    /// Number of candidates left to the next evaluation because this one used up its share.
    pub left: usize,
    /// Verdicts of policy Balanced: rejected single-node moves, and the approved ones among `commands`.
    pub judged: Vec<BalancedVerdict>,
}

/// Evaluates the methods in their order and returns the commands of the first one that has any.
pub fn disrupt(snapshot: &Snapshot) -> DisruptionResult {
    evaluate(snapshot, SearchOptions::new(snapshot))
}

/// [`disrupt`] within a turn's share of simulations, without the NodeClaims in `excluded`.
pub fn disrupt_within(
    snapshot: &Snapshot,
    share: Share,
    excluded: &BTreeSet<NodeClaimName>,
) -> DisruptionResult {
    evaluate(
        snapshot,
        SearchOptions {
            excluded,
            simulated: share.simulated,
            ..SearchOptions::new(snapshot)
        },
    )
}

/// Returns commands for nodes that are empty besides the `proposed` ones, which wait for their validation and count against the
/// budgets: an empty node need not wait until another one is validated. NodeClaims in `excluded` are left out. If a node can be
/// repaired there are none: the proposals end first, and the next evaluation repairs.
pub fn newly_empty(
    snapshot: &Snapshot,
    proposed: &BTreeSet<NodeClaimName>,
    excluded: &BTreeSet<NodeClaimName>,
) -> Vec<Command> {
    let planning = PlanningContext::new(snapshot);
    let options = SearchOptions {
        excluded,
        ..SearchOptions::new(snapshot)
    };
    with_methods(
        &planning,
        None,
        snapshot,
        options,
        |methods| match repair::choose(methods, &mut DisruptionResult::default()) {
            Some(_) => Vec::new(),
            None => methods.emptiness(proposed),
        },
    )
}

/// [`disrupt`] with free moves: every move that saves anything pays.
pub fn disrupt_at_any_price(snapshot: &Snapshot) -> DisruptionResult {
    evaluate(
        snapshot,
        SearchOptions {
            at_any_price: true,
            ..SearchOptions::new(snapshot)
        },
    )
}

fn evaluate(snapshot: &Snapshot, options: SearchOptions<'_>) -> DisruptionResult {
    evaluate_with(&PlanningContext::new(snapshot), None, snapshot, options)
}

/// [`evaluate`] with a prepared planning context, and with indexes that an earlier evaluation computed for the same NodePools and
/// DaemonSets.
fn evaluate_with<'a>(
    planning: &'a PlanningContext<'a>,
    known: Option<&Rc<PrecomputedIndexes<'a>>>,
    snapshot: &'a Snapshot,
    options: SearchOptions<'a>,
) -> DisruptionResult {
    with_methods(planning, known, snapshot, options, |methods| {
        methods.evaluate()
    })
}

fn with_methods<'a, T>(
    planning: &'a PlanningContext<'a>,
    known: Option<&Rc<PrecomputedIndexes<'a>>>,
    snapshot: &'a Snapshot,
    options: SearchOptions<'a>,
    evaluate: impl FnOnce(&Methods<'_, '_>) -> T,
) -> T {
    let later = snapshot.now.checked_add(VALIDATED_AFTER);
    let later = later.unwrap_or(snapshot.now);
    let inventory = Inventory::new(snapshot);
    let reschedulable =
        [snapshot.now, later].map(|at| ReschedulablePods::new(snapshot, &inventory, at));
    let context = |reschedulable| {
        let known = known.map(Rc::clone);
        DisruptionContext::new(
            snapshot,
            &inventory,
            planning,
            reschedulable,
            known,
            options,
        )
    };
    let [now, later] = reschedulable.each_ref().map(context);
    evaluate(&Methods::new(&now, &later))
}

/// Number of nodes that each NodePool's budgets allow now, per reason (docs/spec/lifecycle.md#budgets).
pub fn pool_budgets(snapshot: &Snapshot) -> Vec<PoolBudget> {
    let inventory = Inventory::new(snapshot);
    let each = Reason::ALL.map(|reason| budgets::of_pools(snapshot, &inventory, reason));
    each.concat()
}

/// Returns the pods whose deletion cost must change, by node, then those of nodes beyond the limit of one turn
/// (docs/spec/v1.15.md#pod-deletion-cost).
pub fn deletion_costs(snapshot: &Snapshot) -> (Vec<NodeDeletionCosts>, Vec<NodeDeletionCosts>) {
    match deletion_cost::is_managed(snapshot) {
        true => at_present(snapshot, |context| deletion_cost::of_context(&context)),
        false => (Vec::new(), Vec::new()),
    }
}

/// Number of nodes that are candidates for each reason now, before budgets and simulations.
pub fn eligible_nodes(snapshot: &Snapshot) -> [(Reason, usize); 4] {
    at_present(snapshot, |context| {
        Methods::new(&context, &context).eligible()
    })
}

/// Reports on every node by itself: whether it may be disrupted, and why or why not.
pub fn node_reports(snapshot: &Snapshot) -> Vec<NodeReport> {
    at_present(snapshot, |context| node_report::of_all(&context))
}

/// Validates a proposal after its waiting period and returns the command that carries out the valid part of it as planned now
/// (docs/spec/lifecycle.md#validation).
pub fn validate(snapshot: &Snapshot, proposal: &ledger::Command) -> Result<Command, Rejection> {
    at_present(snapshot, |context| {
        Methods::new(&context, &context).validate(proposal)
    })
}

fn at_present<T>(
    snapshot: &Snapshot,
    evaluate_context: impl FnOnce(DisruptionContext<'_>) -> T,
) -> T {
    let inventory = Inventory::new(snapshot);
    let planning = PlanningContext::new(snapshot);
    let reschedulable = ReschedulablePods::new(snapshot, &inventory, snapshot.now);
    evaluate_context(DisruptionContext::new(
        snapshot,
        &inventory,
        &planning,
        &reschedulable,
        None,
        SearchOptions::new(snapshot),
    ))
}

impl Reason {
    const ALL: [Self; 4] = [
        Self::Unhealthy,
        Self::Empty,
        Self::Drifted,
        Self::Underutilized,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unhealthy => "Unhealthy",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Underutilized => "Underutilized",
        }
    }
}

#[cfg(test)]
mod tests;
