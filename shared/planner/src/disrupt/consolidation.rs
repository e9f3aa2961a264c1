//! Consolidation: removes nodes whose pods fit on other nodes or on one cheaper node (docs/spec/lifecycle.md#consolidation).

use std::cmp::Ordering;

use api::conditions::types::CONSOLIDATABLE;
use model::{
    CapacityType, InstanceType, NanosPerHour, NodeName,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    node_pool::{ConsolidateAfter, ConsolidationPolicy},
    requirement::Requirement,
    selector::Operator,
};
use scheduling::{Choice, NewNode};

use super::{
    candidates::Candidate,
    context::DisruptionContext,
    cost, price,
    simulate::{DestinationPolicy, Simulation},
    types,
};

/// Least number of cheaper instance types for replacing one spot node by another. The launched type is then among the cheapest,
/// so that the replacement is not consolidated again immediately.
const SPOT_TYPES_MIN: usize = 15;

/// Removal of candidates, with or without replacements.
#[derive(Clone)]
pub(super) struct Move<'a> {
    pub(super) candidates: Vec<Candidate<'a>>,
    pub(super) simulation: Simulation<'a>,
    /// Replacements, reduced to instance types that are cheaper than the candidates.
    pub(super) replacements: Vec<NewNode>,
}

impl Move<'_> {
    /// Price of the removed nodes.
    pub(super) fn before(&self) -> NanosPerHour {
        NanosPerHour(
            self.candidates
                .iter()
                .map(|candidate| candidate.price.0)
                .sum(),
        )
    }

    /// Number of bound pods that move.
    pub(super) fn evicted(&self) -> usize {
        let pods = self.simulation.pods.iter();
        pods.filter(|pod| pod.node_name.is_some()).count()
    }

    /// Price of the replacements, as far as it is known.
    pub(super) fn after(&self) -> NanosPerHour {
        let cheapest = self.replacements.iter();
        let cheapest = cheapest.filter_map(|node| Some(node.choices.first()?.price.0));
        NanosPerHour(cheapest.filter(|price| *price < i64::MAX).sum())
    }
}

/// Whether the node is a candidate for consolidation; an error is the message of its Unconsolidatable event.
pub(super) fn may_consolidate(candidate: &Candidate<'_>) -> Result<bool, String> {
    let (pool, labels) = (candidate.pool, &candidate.state_node.labels);
    if pool.replicas.is_some() {
        return Ok(false);
    }
    if candidate.instance_type.is_none() {
        let instance_type = labels.get(INSTANCE_TYPE).map_or("", String::as_str);
        return Err(format!("Instance Type \"{instance_type}\" not found"));
    }
    for label in [CAPACITY_TYPE, ZONE] {
        if !labels.contains_key(label) {
            return Err(format!("Node does not have label \"{label}\""));
        }
    }
    if pool.disruption.consolidate_after == ConsolidateAfter::Never {
        return Err(format!(
            "NodePool \"{}\" has consolidation disabled",
            pool.name
        ));
    }
    // Method Emptiness handles empty nodes, under its own budgets.
    if cost::is_empty(candidate.cost) {
        return Ok(false);
    }
    if pool.disruption.policy == ConsolidationPolicy::WhenEmpty {
        return Err(format!(
            "NodePool \"{}\" has consolidation policy WhenEmpty, but node is not empty",
            pool.name
        ));
    }
    Ok(candidate.claim.is_true(CONSOLIDATABLE))
}

/// Price, disruption cost and name of a node: its rank among candidates.
pub(super) type CandidateRank<'n> = (NanosPerHour, i64, &'n NodeName);

pub(super) fn candidate_rank<'n>(candidate: &'n Candidate<'_>) -> CandidateRank<'n> {
    (candidate.price, candidate.cost, &candidate.node.name)
}

/// Sorts by savings per disruption cost, highest first, then by name.
pub(super) fn sort_by_savings(candidates: &mut [&Candidate<'_>]) {
    candidates.sort_by(|a, b| compare_savings(candidate_rank(a), candidate_rank(b)));
}

pub(super) fn compare_savings(a: CandidateRank<'_>, b: CandidateRank<'_>) -> Ordering {
    let savings_per_disruption = |first: CandidateRank<'_>, other: CandidateRank<'_>| {
        i128::from(first.0.0) * i128::from(other.1)
    };
    savings_per_disruption(b, a)
        .cmp(&savings_per_disruption(a, b))
        .then_with(|| a.2.cmp(b.2))
}

/// Simulates removing these nodes; an error says why they are kept.
pub(super) fn evaluate_removal<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
) -> Result<Move<'a>, String> {
    let simulation = context.simulate(candidates, DestinationPolicy::Consolidation);
    judge_simulation(context, candidates, simulation, 1)
}

/// [`evaluate_removal`] with a finished simulation and an upper bound on replacements.
pub(super) fn judge_simulation<'a>(
    context: &DisruptionContext<'a>,
    candidates: &[&Candidate<'a>],
    mut simulation: Simulation<'a>,
    replacements_max: usize,
) -> Result<Move<'a>, String> {
    if let Some(obstacle) = simulation.obstacle() {
        return Err(obstacle);
    }
    let nodes = std::mem::take(&mut simulation.new_nodes);
    if nodes.len() > replacements_max {
        let count = nodes.len();
        return Err(format!("Can't remove without creating {count} candidates"));
    }
    let allowed = price_limits(candidates, &nodes);
    let replacements = nodes.into_iter().zip(allowed);
    let replacements =
        replacements.map(|(node, than)| with_cheaper_types(context, candidates, node, than));
    Ok(Move {
        candidates: candidates.iter().copied().cloned().collect(),
        replacements: replacements.collect::<Result<_, _>>()?,
        simulation,
    })
}

/// Upper bound on the price of each replacement: the candidates' price, split in proportion to the replacements' lowest prices,
/// so that every launch saves something.
fn price_limits(candidates: &[&Candidate<'_>], nodes: &[NewNode]) -> Vec<NanosPerHour> {
    let before: i64 = candidates.iter().map(|candidate| candidate.price.0).sum();
    let least =
        |node: &NewNode| i128::from(node.choices.first().map_or(0, |choice| choice.price.0));
    let all: i128 = nodes.iter().map(least).sum();
    let share = |node| match nodes {
        [_] => before,
        _ => i64::try_from(i128::from(before) * least(node) / all.max(1)).unwrap_or(i64::MAX),
    };
    nodes.iter().map(|node| NanosPerHour(share(node))).collect()
}

/// Returns the replacement with only the instance types below the price `than`.
fn with_cheaper_types(
    context: &DisruptionContext<'_>,
    candidates: &[&Candidate<'_>],
    mut node: NewNode,
    than: NanosPerHour,
) -> Result<NewNode, String> {
    let is_spot = |candidate: &&Candidate<'_>| {
        let text = candidate.state_node.labels.get(CAPACITY_TYPE);
        text.map(String::as_str) == Some(CapacityType::Spot.as_str())
    };
    let of_pool = types::of_new_node(context, &node);
    let from_spot_to_spot =
        candidates.iter().all(is_spot) && node.admitted.contains(&CapacityType::Spot);
    if from_spot_to_spot {
        let gates = &context.snapshot.settings.feature_gates;
        if gates.get("SpotToSpotConsolidation") != Some(&true) {
            return Err(
                "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
                    .to_owned(),
            );
        }
        pin_to_spot(&mut node);
        let settings = &context.snapshot.settings;
        let wanted = node.requirements.clone();
        types::retain(&mut node, of_pool, |instance_type| {
            price::cheapest(instance_type, &wanted, settings, NanosPerHour(0)).is_some()
        });
    }
    types::retain_cheaper(context, &mut node, of_pool, than)?;
    if from_spot_to_spot {
        if candidates.len() == 1 {
            keep_the_cheapest(&mut node, of_pool)?;
        }
    } else if node.admitted.contains(&CapacityType::Spot)
        && node.admitted.contains(&CapacityType::OnDemand)
    {
        // A shortage of spot must fail the launch, not buy a more expensive instance.
        pin_to_spot(&mut node);
    }
    reprice(context, &mut node, of_pool);
    Ok(node)
}

fn pin_to_spot(node: &mut NewNode) {
    let spot = CapacityType::Spot;
    let known = node.requirements.0.get(CAPACITY_TYPE);
    let only = Requirement {
        min_values: known.and_then(|requirement| requirement.min_values),
        ..Requirement::new(CAPACITY_TYPE, Operator::In, [spot.as_str().to_owned()])
    };
    node.requirements.0.insert(only.key.clone(), only);
    node.admitted = vec![spot];
}

/// Keeps the cheapest instance types of a spot-to-spot replacement: [`SPOT_TYPES_MIN`], or as many as `minValues` requires.
fn keep_the_cheapest(node: &mut NewNode, of_pool: &[InstanceType]) -> Result<(), String> {
    let count = node.choices.len();
    if count < SPOT_TYPES_MIN {
        return Err(format!(
            "SpotToSpotConsolidation requires {SPOT_TYPES_MIN} cheaper instance type options than the current candidate to \
             consolidate, got {count}"
        ));
    }
    let needed = types::leading_for_min_values(node, of_pool).unwrap_or(count);
    node.choices.truncate(needed.max(SPOT_TYPES_MIN));
    Ok(())
}

/// Sets for each choice the cheapest available offering and its price.
fn reprice(context: &DisruptionContext<'_>, node: &mut NewNode, of_pool: &[InstanceType]) {
    let surcharge = types::surcharge_of_new_node(context, node);
    let wanted = &node.requirements;
    for choice in &mut node.choices {
        let found = of_pool
            .get(choice.instance_type())
            .and_then(|instance_type| {
                price::cheapest(instance_type, wanted, &context.snapshot.settings, surcharge)
            });
        // A choice without an available offering stays in the list without a price, as in Karpenter.
        *choice = match found {
            Some((price, offering)) => Choice::new(choice.instance_type(), offering, price),
            None => Choice::new(
                choice.instance_type(),
                choice.offering(),
                NanosPerHour(i64::MAX),
            ),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::{Resources, requirement::Requirements};

    use super::*;

    fn new_node(choices: &[i64]) -> NewNode {
        let price = |price: &i64| Choice::new(0, 0, NanosPerHour(*price));
        NewNode {
            pool: 0,
            pods: Vec::new(),
            requirements: Requirements::default(),
            admitted: vec![CapacityType::Spot, CapacityType::OnDemand],
            requests: Resources::default(),
            choices: choices.iter().map(price).collect(),
            drivers: BTreeSet::new(),
            min_values_relaxed: false,
        }
    }

    #[test]
    fn replacements_cost_the_sum_of_known_prices() {
        let step = Move {
            candidates: Vec::new(),
            simulation: Simulation {
                pods: Vec::new(),
                moved: Vec::new(),
                gone: BTreeSet::new(),
                wanted: Vec::new(),
                new_nodes: Vec::new(),
                existing: Vec::new(),
                preferences_lost: NanosPerHour(0),
                left: Vec::new(),
            },
            replacements: [&[3, 4][..], &[i64::MAX, 5], &[2]].map(new_node).to_vec(),
        };
        assert_eq!(step.after(), NanosPerHour(5));
    }

    #[test]
    fn candidates_are_sorted_by_savings_per_disruption() {
        let names: Vec<NodeName> = ["a", "b", "c"].map(Into::into).into();
        // Savings per disruption: 3, 4 and 4.
        let places = [(300, 100), (40, 10), (8, 2)];
        let places = places.into_iter().zip(&names);
        let mut places: Vec<CandidateRank<'_>> = places
            .map(|((price, cost), name)| (NanosPerHour(price), cost, name))
            .collect();
        places.sort_by(|a, b| compare_savings(*a, *b));
        let order: Vec<&str> = places.iter().map(|place| place.2.as_str()).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn pinning_to_spot_keeps_min_values() {
        let mut requirements = Requirements::default();
        let both = ["spot", "on-demand"].map(str::to_owned);
        requirements.add(Requirement {
            min_values: Some(1),
            ..Requirement::new(CAPACITY_TYPE, Operator::In, both)
        });
        let mut node = NewNode {
            requirements,
            ..new_node(&[])
        };
        pin_to_spot(&mut node);
        let pinned = &node.requirements.0[CAPACITY_TYPE];
        assert_eq!(pinned.min_values, Some(1));
        assert_eq!(pinned.values.iter().collect::<Vec<_>>(), ["spot"]);
        assert_eq!(node.admitted, [CapacityType::Spot]);
    }
}
