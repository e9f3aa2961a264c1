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

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use api::conditions::types::INITIALIZED;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeClaimName, NodeName, NodePoolName, Snapshot,
    ledger::{self, Cursor},
    node_claim::NodeClaim,
    plan::Target,
    pod::Pod,
    snapshot::Optimize,
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
    validation::Rejection,
};
use self::{
    context::{DisruptionContext, SearchOptions},
    methods::Methods,
    reschedulable::ReschedulablePods,
};
use crate::{
    decision::Note,
    inventory::Inventory,
    lifecycle::pod_events::{self, Judged, MERGED_WITHIN},
    pods::is_reschedulable,
    provision::planning_context::PlanningContext,
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

/// Waiting period of a consolidation proposal before it is validated again. Pods that were not foreseen may be bound meanwhile.
pub const VALIDATED_AFTER: SignedDuration = SignedDuration::from_secs(15);

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
    Methods::new(&now, &later).evaluate()
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

/// Waiting period of a proposal before it is validated, at most [`VALIDATED_AFTER`]. Empty nodes whose pods have not changed
/// for that long have been observed long enough already (docs/spec/lifecycle.md#validation).
pub fn validation_wait(snapshot: &Snapshot, command: &Command) -> SignedDuration {
    let as_upstream = snapshot.settings.optimize == Optimize::Upstream;
    if as_upstream || command.method != Method::Emptiness {
        return VALIDATED_AFTER;
    }
    let claims: BTreeMap<&NodeClaimName, &NodeClaim> = snapshot
        .node_claims
        .iter()
        .map(|claim| (&claim.name, claim))
        .collect();
    let mut pods: BTreeMap<&NodeName, Vec<&Pod>> = BTreeMap::new();
    for pod in &snapshot.pods {
        if let Some(node) = &pod.node_name {
            pods.entry(node).or_default().push(pod);
        }
    }
    let nodes = snapshot.nodes.iter();
    let nodes: BTreeMap<&str, &NodeName> = nodes
        .map(|node| (node.provider_id.as_str(), &node.name))
        .collect();
    let unchanged_since = |target: &Target| {
        let claim = claims.get(&target.name)?;
        let pods = pods.get(nodes.get(claim.status.provider_id.as_str())?);
        let pods = pods.map_or(&[][..], Vec::as_slice);
        // Pods that cost nothing to evict are disturbed all the same, and a change may not be recorded yet.
        if pods.iter().any(|pod| is_reschedulable(pod))
            || !matches!(
                pod_events::judge(pods, claim, snapshot.now),
                Judged::Unchanged
            )
        {
            return None;
        }
        match claim.status.last_pod_event {
            // Changes soon after a recorded one are recorded as one.
            Some(event) => Some(event + MERGED_WITHIN),
            None => claim
                .condition(INITIALIZED)
                .map(|condition| condition.last_transition),
        }
    };
    let waits = command.delete.iter().map(|target| {
        let unchanged = unchanged_since(target).map(|since| snapshot.now.duration_since(since));
        unchanged.map_or(VALIDATED_AFTER, |unchanged| VALIDATED_AFTER - unchanged)
    });
    let longest = waits.max().unwrap_or(VALIDATED_AFTER);
    longest.clamp(SignedDuration::ZERO, VALIDATED_AFTER)
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
