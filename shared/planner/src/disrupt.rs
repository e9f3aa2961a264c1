//! Which nodes are no longer worth having (docs/spec/lifecycle.md#disruption-loop): unhealthy, empty, drifted, or underutilized
//! ones, under budgets.

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

use jiff::{SignedDuration, Timestamp};
use model::{
    NodeClaimName, NodePoolName, Snapshot,
    ledger::{self, Cursor},
};
use scheduling::Groundwork;

pub use model::ledger::Method;

pub(crate) use self::price::{of_node as price_of_node, of_template as price_of_template};
pub use self::{
    balanced::BalancedVerdict,
    budgets::PoolBudget,
    candidates::Blocked,
    command::Command,
    deletion_cost::{DeletionCost, GATE as POD_DELETION_COST_GATE, NodeDeletionCosts},
    node_report::{Alternative, NodeReport},
    validation::Rejection,
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

/// Why nodes go, as conditions, events and metrics call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Unhealthy,
    Empty,
    Drifted,
    Underutilized,
}

/// What one look at a cluster comes to.
#[derive(Clone, Debug, Default)]
pub struct DisruptionResult {
    /// Several only for static NodePools.
    pub commands: Vec<Command>,
    /// Nodes that some method may not disrupt.
    pub blocked: Vec<Blocked>,
    /// Nodes that consolidation does not remove.
    pub unconsolidatable: Vec<Blocked>,
    /// Events about repair besides.
    pub notes: Vec<Note>,
    /// NodePools whose budgets allow nothing at all, where there would be something to do, with what to tell their users.
    pub exhausted: BTreeSet<(NodePoolName, String)>,
    /// When something may be disrupted that only time holds back now: the schedule of a budget, a nomination, a pod's protection.
    pub due: Option<Timestamp>,
    /// Annotations of NodePools that cannot be read, so that defaults hold.
    pub misread: Vec<(NodePoolName, String)>,
    /// Where the next look goes on; `None` where it begins anew.
    pub cursor: Option<Cursor>,
    /// How many candidates are left to it, because this look has done its share.
    pub left: usize,
    /// Moves of single nodes that policy Balanced rejected, and those of `commands` that it approved.
    pub judged: Vec<BalancedVerdict>,
}

/// What consolidates must still hold after this time: pods are bound in between that nobody saw coming.
pub const VALIDATED_AFTER: SignedDuration = SignedDuration::from_secs(15);

/// The first method that finds something to do decides.
pub fn disrupt(snapshot: &Snapshot) -> DisruptionResult {
    first(snapshot, SearchOptions::new(snapshot))
}

/// The same within a turn's share, and with some nodes left alone, without being in the way of others.
pub fn disrupt_within(
    snapshot: &Snapshot,
    share: Share,
    excluded: &BTreeSet<NodeClaimName>,
) -> DisruptionResult {
    first(
        snapshot,
        SearchOptions {
            excluded,
            simulated: share.simulated,
            ..SearchOptions::new(snapshot)
        },
    )
}

/// The same where moves cost nothing: whatever saves is done.
pub fn disrupt_at_any_price(snapshot: &Snapshot) -> DisruptionResult {
    first(
        snapshot,
        SearchOptions {
            at_any_price: true,
            ..SearchOptions::new(snapshot)
        },
    )
}

fn first(snapshot: &Snapshot, options: SearchOptions<'_>) -> DisruptionResult {
    first_on(&PlanningContext::new(snapshot), None, snapshot, options)
}

/// The same where the ground is known already.
fn first_on<'a>(
    planning: &'a PlanningContext<'a>,
    known: Option<&Rc<Groundwork<'a>>>,
    snapshot: &'a Snapshot,
    options: SearchOptions<'a>,
) -> DisruptionResult {
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
    Methods::new(&now, &later).first()
}

/// Number of nodes that the budgets of each NodePool allow for each reason now (docs/spec/lifecycle.md#budgets).
pub fn pool_budgets(snapshot: &Snapshot) -> Vec<PoolBudget> {
    let inventory = Inventory::new(snapshot);
    let each = Reason::ALL.map(|reason| budgets::of_pools(snapshot, &inventory, reason));
    each.concat()
}

/// The pods whose deletion cost is to change, by node, and those of the nodes that are left to later passes
/// (docs/spec/v1.15.md#pod-deletion-cost).
pub fn deletion_costs(snapshot: &Snapshot) -> (Vec<NodeDeletionCosts>, Vec<NodeDeletionCosts>) {
    match deletion_cost::is_managed(snapshot) {
        true => at_present(snapshot, |context| deletion_cost::of_context(&context)),
        false => (Vec::new(), Vec::new()),
    }
}

/// Number of nodes that may be disrupted for each reason now, before budgets and before anything is simulated.
pub fn eligible_nodes(snapshot: &Snapshot) -> [(Reason, usize); 4] {
    at_present(snapshot, |context| {
        Methods::new(&context, &context).eligible()
    })
}

/// What becomes of each node by itself, and why: those that stay as well.
pub fn node_reports(snapshot: &Snapshot) -> Vec<NodeReport> {
    at_present(snapshot, |context| node_report::of_all(&context))
}

/// Judges a proposal again after its waiting period: what is left of it, as it is best done now (docs/spec/lifecycle.md#validation).
pub fn validate(snapshot: &Snapshot, proposal: &ledger::Command) -> Result<Command, Rejection> {
    at_present(snapshot, |context| {
        Methods::new(&context, &context).validate(proposal)
    })
}

fn at_present<T>(snapshot: &Snapshot, look: impl FnOnce(DisruptionContext<'_>) -> T) -> T {
    let inventory = Inventory::new(snapshot);
    let planning = PlanningContext::new(snapshot);
    let reschedulable = ReschedulablePods::new(snapshot, &inventory, snapshot.now);
    look(DisruptionContext::new(
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
