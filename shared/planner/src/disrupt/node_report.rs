//! Explains each node by itself: whether it may be disrupted, which nodes would run its pods and what that saves, or which pod,
//! budget, price or constraint keeps it.

use std::collections::BTreeSet;

use model::{
    NanosPerHour, NodePoolName, labels::NODE_POOL, node_pool::ConsolidateAfter,
    plan::ExpectedOffering,
};
use scheduling::NewNode;

use super::{
    Reason,
    budgets::Budgets,
    candidates::{Candidate, Candidates, Class, instance_type_of, name_of},
    consolidation::{judge_simulation, may_consolidate},
    context::DisruptionContext,
    drift, emptiness, price,
    repair::{self, UnhealthyNodes},
    simulate::DestinationPolicy,
    types,
};
use crate::repair::{Breaker, FailureEvidence};

/// Report on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Name of the Node, or of the NodeClaim if there is no Node.
    pub node: String,
    /// Zero if unknown.
    pub price: NanosPerHour,
    /// Reason for which it would be disrupted, if any.
    pub reason: Option<Reason>,
    /// Nodes that would run its pods, if that was simulated.
    pub alternative: Option<Alternative>,
    /// Why the node is kept; `None` if the node may be disrupted now.
    pub kept: Option<String>,
}

/// Nodes in a node's place; none if its pods fit on existing nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    pub nodes: Vec<ExpectedOffering>,
    /// Savings per hour; negative if the alternative costs more.
    pub saving: NanosPerHour,
}

pub(super) fn of_all(context: &DisruptionContext<'_>) -> Vec<NodeReport> {
    let graceful = Candidates::new(context, Class::Graceful);
    let eventual = Candidates::new(context, Class::Eventual);
    let of_blocked = eventual.blocked.iter().map(|blocked| NodeReport {
        node: blocked.node.clone(),
        price: price_of(context, &blocked.node),
        reason: None,
        alternative: None,
        kept: Some(blocked.message.clone()),
    });
    let evidence = FailureEvidence::new(context.snapshot);
    let budgets = AllBudgets::new(context);
    let is_empty = |candidate: &Candidate<'_>| emptiness::applies_to(candidate) == Ok(true);
    let expected_by_pods = match eventual.all.iter().any(is_empty) {
        true => emptiness::nodes_expected_by_pods(context),
        false => BTreeSet::new(),
    };
    let of_candidates = eventual.all.iter().map(|candidate| {
        let name = candidate.node.name.as_str();
        let mut blocked = graceful.blocked.iter();
        let is_expected = expected_by_pods.contains(&candidate.index);
        let mut report = report_on(context, candidate, &budgets, is_expected);
        // Drift disrupts nodes with blocking pods, too.
        if report.reason != Some(Reason::Drifted)
            && let Some(blocked) = blocked.find(|blocked| blocked.node == name)
        {
            report.kept = Some(blocked.message.clone());
        }
        if report.reason == Some(Reason::Drifted)
            && let Some(message) = evidence.drift(candidate.node, candidate.pool)
        {
            report.kept = Some(message);
        }
        report.kept = report.kept.take().or_else(|| {
            let reason = report.reason?;
            block_by_budget(budgets.for_reason(reason), candidate)
        });
        report
    });
    let mut all: Vec<NodeReport> = of_blocked.chain(of_candidates).collect();
    let repaired = of_repair(context, &evidence, &budgets.unhealthy);
    all.retain(|report| !repaired.iter().any(|other| other.node == report.node));
    all.extend(repaired);
    all.sort_by(|a, b| a.node.cmp(&b.node));
    all
}

/// Reports on nodes that are due for repair.
fn of_repair(
    context: &DisruptionContext<'_>,
    evidence: &FailureEvidence<'_>,
    budgets: &Budgets,
) -> Vec<NodeReport> {
    let breaker = Breaker::new(context.snapshot);
    let unhealthy_nodes = UnhealthyNodes::new(context);
    let reason = Some(Reason::Unhealthy);
    let blocked = unhealthy_nodes
        .blocked
        .into_iter()
        .map(|blocked| NodeReport {
            price: price_of(context, &blocked.node),
            node: blocked.node,
            reason,
            alternative: None,
            kept: Some(blocked.message),
        });
    let due = unhealthy_nodes.due.iter().map(|unhealthy| {
        let candidate = &unhealthy.candidate;
        let decided = repair::decide(context, unhealthy, budgets);
        let alternative = decided.as_ref().ok().and_then(Option::as_ref);
        let alternative = alternative.map(|command| Alternative {
            nodes: command
                .replacements
                .iter()
                .map(|launch| launch.cheapest.clone())
                .collect(),
            saving: command.savings,
        });
        let kept = match &decided {
            Ok(Some(_)) => None,
            Ok(None) => Some(drift::SURPLUS.to_owned()),
            Err(why) => Some(why.clone()),
        };
        NodeReport {
            node: candidate.node.name.to_string(),
            price: candidate.price,
            reason,
            alternative: alternative.filter(|_| candidate.pool.replicas.is_none()),
            kept: repair::held_back(&breaker, evidence, unhealthy)
                .or(kept)
                .or_else(|| block_by_budget(budgets, candidate)),
        }
    });
    blocked.chain(due).collect()
}

/// Price of a node, whether or not it is a candidate.
fn price_of(context: &DisruptionContext<'_>, node: &str) -> NanosPerHour {
    let mut state_nodes = context.inventory.state_nodes.iter();
    let price = state_nodes
        .find(|state_node| name_of(state_node) == node)
        .and_then(|state_node| {
            let pool = NodePoolName::from(state_node.labels.get(NODE_POOL)?.as_str());
            let instance_type = instance_type_of(state_node, context.planning.types.get(&pool)?)?;
            let surcharge = context.snapshot.surcharge_of(Some(&pool));
            Some(price::of_node(instance_type, &state_node.labels, surcharge))
        });
    price.unwrap_or(NanosPerHour(0))
}

/// Budgets by reason, computed once for all nodes.
struct AllBudgets {
    unhealthy: Budgets,
    empty: Budgets,
    drifted: Budgets,
    underutilized: Budgets,
}

impl AllBudgets {
    fn new(context: &DisruptionContext<'_>) -> Self {
        let of = |reason| Budgets::new(context.snapshot, context.inventory, reason, context.now);
        Self {
            unhealthy: of(Reason::Unhealthy),
            empty: of(Reason::Empty),
            drifted: of(Reason::Drifted),
            underutilized: of(Reason::Underutilized),
        }
    }

    fn for_reason(&self, reason: Reason) -> &Budgets {
        match reason {
            Reason::Unhealthy => &self.unhealthy,
            Reason::Empty => &self.empty,
            Reason::Drifted => &self.drifted,
            Reason::Underutilized => &self.underutilized,
        }
    }
}

fn block_by_budget(budgets: &Budgets, candidate: &Candidate<'_>) -> Option<String> {
    if !candidate.state_node.initialized && budgets.allows(candidate) {
        return None;
    }
    let pool = candidate.pool;
    let waits = budgets
        .evictions
        .wait_message(candidate)
        .map(|(message, _)| message);
    waits.or_else(|| {
        (budgets.remaining(&pool.name) == 0).then(|| {
            budgets.exhausted_message(pool).unwrap_or_else(|| {
                let name = &pool.name;
                format!("The budgets of NodePool {name} allow no further disruption now")
            })
        })
    })
}

fn report_on<'a>(
    context: &DisruptionContext<'a>,
    candidate: &Candidate<'a>,
    budgets: &AllBudgets,
    is_expected_by_pods: bool,
) -> NodeReport {
    let mut report = NodeReport {
        node: candidate.node.name.to_string(),
        price: candidate.price,
        reason: None,
        alternative: None,
        kept: None,
    };
    let is_empty = emptiness::applies_to(candidate) == Ok(true);
    if is_empty && !is_expected_by_pods {
        report.reason = Some(Reason::Empty);
        report.alternative = Some(alternative(context, candidate, &[]));
    } else if drift::applies_to_static(candidate) {
        report.reason = Some(Reason::Drifted);
        report.kept = drift::obstacle_of_static(context, candidate, &budgets.drifted);
    } else if drift::applies_to(candidate) {
        let simulation = context.simulate(&[candidate], DestinationPolicy::Drift);
        report.reason = Some(Reason::Drifted);
        report.kept = simulation.obstacle();
        if report.kept.is_none() {
            report.alternative = Some(alternative(context, candidate, &simulation.new_nodes));
        } else if drift::decide(context, candidate, &budgets.drifted).is_ok() {
            // The node would be terminated ahead of its replacement.
            report.kept = None;
        }
    } else if is_empty {
        report.reason = Some(Reason::Empty);
        report.kept = Some("Pending pods are expected to run on the node".to_owned());
    } else {
        consolidation(context, candidate, &mut report);
    }
    report
}

/// Whether pods were bound to the node or left it within `consolidateAfter`.
fn had_recent_pod_event(context: &DisruptionContext<'_>, candidate: &Candidate<'_>) -> bool {
    let ConsolidateAfter::Seconds(wait) = candidate.pool.disruption.consolidate_after else {
        return false;
    };
    let changed = candidate.claim.status.last_pod_event;
    changed.is_some_and(|at| context.now.duration_since(at).as_secs() < wait)
}

fn consolidation<'a>(
    context: &DisruptionContext<'a>,
    candidate: &Candidate<'a>,
    report: &mut NodeReport,
) {
    match may_consolidate(candidate) {
        Err(why) => report.kept = Some(why),
        Ok(false) => {
            let why = match candidate.pool.replicas {
                Some(_) => "NodePool is static, and the node has not drifted",
                None if had_recent_pod_event(context, candidate) => {
                    "Node is not Consolidatable: its pods changed within consolidateAfter"
                }
                None => {
                    "Node is not Consolidatable: its NodeClaim does not have the condition, though its pods have not changed within \
                     consolidateAfter"
                }
            };
            report.kept = Some(why.to_owned());
        }
        Ok(true) => {
            let simulation = context.simulate(&[candidate], DestinationPolicy::Consolidation);
            if simulation.obstacle().is_none() {
                report.alternative = Some(alternative(context, candidate, &simulation.new_nodes));
            }
            match judge_simulation(context, &[candidate], simulation, 1) {
                Err(why) => report.kept = Some(why),
                Ok(step) => {
                    report.kept = context.move_costs.pays(context, &step).err();
                    report.reason = Some(Reason::Underutilized);
                    report.alternative = Some(alternative(context, candidate, &step.replacements));
                }
            }
        }
    }
}

/// Alternative in which each new node has its cheapest choice.
fn alternative(
    context: &DisruptionContext<'_>,
    candidate: &Candidate<'_>,
    nodes: &[NewNode],
) -> Alternative {
    let cheapest = nodes.iter().filter_map(|node| {
        let of_pool = types::of_new_node(context, node);
        let choice = node.choices.iter().min_by_key(|choice| choice.price)?;
        let instance_type = of_pool.get(choice.instance_type())?;
        let offering = instance_type.offerings.get(choice.offering())?;
        Some(ExpectedOffering {
            instance_type: instance_type.name.clone(),
            capacity_type: offering.capacity_type,
            zone: offering.zone.clone(),
            price: choice.price,
            capacity: instance_type.capacity.clone(),
        })
    });
    let nodes: Vec<ExpectedOffering> = cheapest.collect();
    let cost: i64 = nodes.iter().map(|node| node.price.0).sum();
    Alternative {
        saving: NanosPerHour(candidate.price.0.saturating_sub(cost)),
        nodes,
    }
}
