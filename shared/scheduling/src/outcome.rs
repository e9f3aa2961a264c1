//! Turns claims into the result: priced choices, final requirements and requests (docs/spec/scheduling.md#node-claims).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use model::{
    CapacityType, NanosPerHour, Resources, labels,
    plan::Launch,
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::{MinValuesPolicy, Optimize},
};

use crate::{
    algebra::{Algebra, ReqId, SetId, Sym},
    bits::BitSet,
    catalog,
    claim::Claim,
    explain, go_sort, min_values,
    placement_context::PlacementContext,
    reason::Reason,
    shape::{Failure, ShapeId},
    solve::Solver,
};

mod dropped_preferences;

pub use dropped_preferences::{DroppedPreferences, share_of};

/// Result of a solve. Pods, nodes and NodePools are indexes into the input.
#[derive(Clone, Debug, Default)]
pub struct SolveResult {
    pub new_nodes: Vec<NewNode>,
    pub existing: Vec<(usize, Vec<usize>)>,
    pub unplaced: Vec<Unplaced>,
    /// Placed pods with preferences that their node does not meet.
    pub dropped_preferences: Vec<DroppedPreferences>,
    /// NodePools without a viable instance type for any pod (docs/spec/scheduling.md#batching).
    pub pools_without_types: Vec<PoolWithoutTypes>,
}

/// NodePool without any viable instance type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolWithoutTypes {
    pub pool: usize,
    /// Whether `minValues` alone excludes the types.
    pub min_values: bool,
}

/// Node to launch.
#[derive(Clone, Debug)]
pub struct NewNode {
    pub pool: usize,
    pub pods: Vec<usize>,
    /// Requirements of the NodeClaim, including capacity types. Instance types are in `choices`.
    pub requirements: Requirements,
    /// Capacity types that the pods and the NodePool admit, available or not.
    pub admitted: Vec<CapacityType>,
    /// Requests of the pods, and of the daemons that run on every choice.
    pub requests: Resources,
    /// Viable instance types, cheapest first; never empty.
    pub choices: Vec<Choice>,
    /// Drivers of the devices that the pods claim, equal for all choices.
    pub drivers: BTreeSet<String>,
    /// Whether `minValues` was lowered to the available number of values (policy BestEffort).
    pub min_values_relaxed: bool,
}

/// Instance type with its cheapest usable offering. Results have hundreds of choices per node, so the struct is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub price: NanosPerHour,
    instance_type: u32,
    offering: u32,
}

impl Choice {
    pub fn new(instance_type: usize, offering: usize, price: NanosPerHour) -> Self {
        let small = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        Self {
            price,
            instance_type: small(instance_type),
            offering: small(offering),
        }
    }

    /// Index into the NodePool's instance types.
    pub fn instance_type(&self) -> usize {
        self.instance_type as usize
    }

    /// Index into the type's offerings.
    pub fn offering(&self) -> usize {
        self.offering as usize
    }
}

/// Pod without a place.
#[derive(Clone, Debug)]
pub struct Unplaced {
    pub pod: usize,
    /// Whether the pod may be placed in the next round: it waits for a reservation, or this round had no attempt left for
    /// it.
    pub deferred: bool,
    /// Reason per tried NodePool, by index; `None` for a reason that holds for all NodePools.
    pub reasons: Vec<(Option<usize>, Reason)>,
}

/// Collects the reasons of pods without a place.
pub(crate) fn explain_unplaced(
    solver: &mut Solver<'_>,
    left: Vec<(usize, ShapeId, Failure)>,
) -> Vec<Unplaced> {
    let mut unplaced = Vec::new();
    let mut by_shape: BTreeMap<ShapeId, Vec<(Option<usize>, Reason)>> = BTreeMap::new();
    for (pod, shape, failure) in left {
        let reasons = by_shape
            .entry(shape)
            .or_insert_with(|| explain::reasons(solver, shape));
        let reasons = match failure {
            Failure::NoRoom => reasons.clone(),
            Failure::Deferred => deferred(reasons),
            Failure::Postponed => vec![(None, Reason::NextRound)],
        };
        unplaced.push(Unplaced {
            pod,
            deferred: failure != Failure::NoRoom,
            reasons,
        });
    }
    unplaced
}

/// Reasons of a pod that waits for reservations: the first NodePool that could use one defers those behind it.
fn deferred(reasons: &[(Option<usize>, Reason)]) -> Vec<(Option<usize>, Reason)> {
    let is_known = reasons
        .iter()
        .any(|(_, reason)| *reason == Reason::Reservation);
    let reasons = reasons.iter().map(|(pool, reason)| {
        let reason = if !is_known {
            Reason::Reservation
        } else if *reason == Reason::NextRound {
            Reason::ReservationFirst
        } else {
            reason.clone()
        };
        (*pool, reason)
    });
    reasons.collect()
}

pub(crate) fn build_result(solver: &mut Solver<'_>, unplaced: Vec<Unplaced>) -> SolveResult {
    let mut result = SolveResult {
        unplaced,
        ..SolveResult::default()
    };
    let mut claims = std::mem::take(&mut solver.claims);
    stay_within_limits(&mut claims, &solver.context);
    let mut sets = Vec::new();
    for claim in claims {
        match new_node(&claim, &mut solver.context) {
            Ok(node) => {
                result.new_nodes.push(node);
                sets.push(claim.set);
            }
            Err(reason) => result
                .unplaced
                .extend(claim.pods.iter().map(|pod| Unplaced {
                    pod: *pod,
                    deferred: false,
                    reasons: vec![(Some(claim.template), (*reason).clone())],
                })),
        }
    }
    let mut existing: Vec<(usize, Vec<usize>)> = solver
        .nodes
        .iter()
        .filter(|node| !node.pods.is_empty())
        .map(|node| (node.index, node.pods.clone()))
        .collect();
    existing.sort_unstable();
    result.existing = existing;
    result.dropped_preferences = dropped_preferences::collect(solver, &result, &sets);
    let templates = solver.context.templates.iter().enumerate();
    let pools_without_types = templates.filter(|(_, template)| template.base.is_empty());
    result.pools_without_types = pools_without_types
        .map(|(pool, template)| PoolWithoutTypes {
            pool,
            min_values: template.min_values_unmet,
        })
        .collect();
    result
}

/// Removes types that would let the new nodes of a NodePool exceed its limits together.
fn stay_within_limits(claims: &mut [Claim<'_>], context: &PlacementContext<'_>) {
    let pools = context
        .templates
        .iter()
        .zip(&context.input.pools)
        .enumerate();
    for (at, (template, pool)) in pools {
        if template.limits.are_by_choice() {
            let own = claims.iter_mut().filter(|claim| claim.template == at);
            let mut nodes: Vec<_> = own
                .map(|claim| (claim.counted.as_ref(), &mut claim.rows))
                .collect();
            template.limits.share_out(&pool.remaining, &mut nodes);
        }
    }
}

fn new_node(claim: &Claim<'_>, context: &mut PlacementContext<'_>) -> Result<NewNode, Box<Reason>> {
    let mut set = claim.set;
    if !claim.held.is_empty() {
        set = pin_to_reservations(claim, context);
    }
    let mut rows = by_price(claim, set, context);
    let drivers = keep_drivers(claim, &mut rows, context);
    check_min_values(claim, set, &rows, context)?;
    let choices: Vec<Choice> = rows.iter().map(|(_, choice)| *choice).collect();
    let capacity_types = capacity_types(claim, set, &rows, context);
    let requirements = final_requirements(set, &capacity_types, context);
    let admitted = admitted(set, context);
    Ok(NewNode {
        pool: claim.template,
        pods: claim.pods.clone(),
        requirements,
        admitted,
        requests: requests(claim, context),
        choices,
        drivers,
        min_values_relaxed: claim.min_values_relaxed,
    })
}

/// Keeps the types whose devices have the same drivers as those of the cheapest type, because a node waits for all of them.
fn keep_drivers(
    claim: &Claim<'_>,
    rows: &mut Vec<(usize, Choice)>,
    context: &PlacementContext<'_>,
) -> BTreeSet<String> {
    if claim.devices.is_empty() {
        return BTreeSet::new();
    }
    let cheapest = rows.first().map(|(row, _)| context.drivers(claim, *row));
    let cheapest = cheapest.unwrap_or_default();
    rows.retain(|(row, _)| context.drivers(claim, *row) == cheapest);
    cheapest.into_iter().map(str::to_owned).collect()
}

fn pin_to_reservations(claim: &Claim<'_>, context: &mut PlacementContext<'_>) -> SetId {
    let algebra = &mut context.algebra;
    let capacity_type = algebra.symbol(labels::CAPACITY_TYPE);
    let reserved = algebra.symbol(CapacityType::Reserved.as_str());
    let only = algebra.one_of(vec![reserved]);
    let set = algebra.replace(claim.set, capacity_type, only);
    let label = algebra.symbol(context.input.options.reservation_id_label);
    let held: Vec<Sym> = claim.held.iter().map(|id| algebra.symbol(id)).collect();
    let held = algebra.one_of(held);
    algebra.add(set, label, held)
}

/// Rows of the claim, each type once, cheapest first, ties by name, limited to the number that a launch may name. Under
/// [`Optimize::Upstream`], ties at the limit are cut as upstream cuts them.
fn by_price(
    claim: &Claim<'_>,
    set: SetId,
    context: &mut PlacementContext<'_>,
) -> Vec<(usize, Choice)> {
    let most = Launch::INSTANCE_TYPES_MAX;
    if context.input.options.optimize == Optimize::Cost {
        return cheapest_rows(claim, set, most, context);
    }
    let mut rows = cheapest_rows(claim, set, usize::MAX, context);
    if let Some([(_, last), (_, next), ..]) = rows.get(most - 1..)
        && last.price == next.price
    {
        // Upstream sorts the types in the provider's order, by price alone.
        let mut sorted: Vec<Choice> = rows.iter().map(|(_, choice)| *choice).collect();
        sorted.sort_by_key(Choice::instance_type);
        go_sort::sort_by_key(&mut sorted, |choice| choice.price);
        sorted.truncate(most);
        let kept: BTreeSet<usize> = sorted.iter().map(Choice::instance_type).collect();
        rows.retain(|(_, choice)| kept.contains(&choice.instance_type()));
    }
    rows.truncate(most);
    rows
}

fn cheapest_rows(
    claim: &Claim<'_>,
    set: SetId,
    most: usize,
    context: &mut PlacementContext<'_>,
) -> Vec<(usize, Choice)> {
    let Some(template) = context.templates.get(claim.template) else {
        return Vec::new();
    };
    let at = template.catalog;
    let known = context.prices(at, set);
    let Some(catalog) = context.catalogs.get(at) else {
        return Vec::new();
    };
    let mut seen = BitSet::none(catalog.types.len());
    let mut rows: Vec<(usize, Choice)> = Vec::new();
    for (row, choice) in known.iter().filter(|(row, _)| claim.rows.contains(*row)) {
        if rows.len() == most {
            return rows;
        }
        if !seen.contains(choice.instance_type()) {
            seen.insert(choice.instance_type());
            rows.push((*row, *choice));
        }
    }
    // A claim that holds reservations keeps its other types, although they cannot be launched any more.
    let mut others: Vec<(usize, Choice)> = Vec::new();
    for row in claim.rows.iter() {
        let Some(variant) = catalog.rows.get(row) else {
            continue;
        };
        if !seen.contains(variant.instance_type) {
            seen.insert(variant.instance_type);
            let choice = Choice::new(variant.instance_type, 0, NanosPerHour(i64::MAX));
            others.push((row, choice));
        }
    }
    others.sort_by_key(|(_, choice)| catalog.types.get(choice.instance_type()).map(|t| &t.name));
    rows.extend(others);
    rows.truncate(most);
    rows
}

fn check_min_values(
    claim: &Claim<'_>,
    set: SetId,
    rows: &[(usize, Choice)],
    context: &PlacementContext<'_>,
) -> Result<(), Box<Reason>> {
    let strict = context.input.options.min_values_policy == MinValuesPolicy::Strict;
    let Some(template) = context.templates.get(claim.template) else {
        return Ok(());
    };
    let Some(catalog) = context.catalogs.get(template.catalog) else {
        return Ok(());
    };
    if !strict || !template.has_min_values {
        return Ok(());
    }
    let mut kept = BitSet::none(catalog.rows.len());
    for (row, _) in rows {
        kept.insert(*row);
    }
    match min_values::unmet(set, &kept, catalog, &context.algebra) {
        Some(unmet) => Err(Box::new(Reason::MinValues {
            key: context.algebra.text(unmet.key).to_owned(),
            wanted: unmet.wanted,
            reached: unmet.reached,
        })),
        None => Ok(()),
    }
}

/// Capacity types in which the remaining instance types can be launched.
fn capacity_types(
    claim: &Claim<'_>,
    set: SetId,
    rows: &[(usize, Choice)],
    context: &mut PlacementContext<'_>,
) -> Vec<String> {
    let PlacementContext {
        templates,
        catalogs,
        algebra,
        ..
    } = context;
    let mut found: Vec<CapacityType> = Vec::new();
    let catalog = templates
        .get(claim.template)
        .and_then(|template| catalogs.get(template.catalog));
    for (row, _) in rows {
        let offers = catalog
            .and_then(|c| c.rows.get(*row))
            .map(|row| &row.offers);
        for offer in offers.into_iter().flatten() {
            if !found.contains(&offer.capacity_type) && catalog::compatible(algebra, set, offer.set)
            {
                found.push(offer.capacity_type);
            }
        }
        if found.len() == CAPACITY_TYPES {
            break;
        }
    }
    found.sort_by_key(|capacity_type| Reverse(*capacity_type));
    found.iter().map(ToString::to_string).collect()
}

const CAPACITY_TYPES: usize = 3;

fn admitted(set: SetId, context: &mut PlacementContext<'_>) -> Vec<CapacityType> {
    let algebra = &mut context.algebra;
    let key = algebra.symbol(labels::CAPACITY_TYPE);
    let all = [
        CapacityType::Reserved,
        CapacityType::Spot,
        CapacityType::OnDemand,
    ];
    let Some(wanted) = algebra.get(set, key).map(|id| algebra.req(id)) else {
        return all.to_vec();
    };
    let admits = |capacity_type: &CapacityType| {
        let value = algebra.symbol(capacity_type.as_str());
        algebra.has(&wanted, value)
    };
    all.into_iter().filter(admits).collect()
}

fn final_requirements(
    set: SetId,
    capacity_types: &[String],
    context: &PlacementContext<'_>,
) -> Requirements {
    let mut requirements = Requirements::default();
    for &(key, req) in context.algebra.set(set).iter() {
        let requirement = to_requirement(key, req, &context.algebra);
        let key = requirement.key.as_str();
        if key != labels::REGISTERED && key != labels::INITIALIZED {
            requirements.add(requirement);
        }
    }
    if !capacity_types.is_empty() {
        let known = requirements.0.get(labels::CAPACITY_TYPE);
        let only = Requirement {
            min_values: known.and_then(|requirement| requirement.min_values),
            ..Requirement::new(
                labels::CAPACITY_TYPE,
                Operator::In,
                capacity_types.iter().cloned(),
            )
        };
        requirements.0.insert(only.key.clone(), only);
    }
    requirements
}

/// Converts an interned requirement to the model's type.
pub(crate) fn to_requirement(key: Sym, req: ReqId, algebra: &Algebra) -> Requirement {
    let req = algebra.req(req);
    Requirement {
        key: algebra.text(key).to_owned(),
        complement: req.complement,
        values: req
            .values
            .iter()
            .map(|v| algebra.text(*v).to_owned())
            .collect(),
        gte: req.gte,
        lte: req.lte,
        min_values: Some(req.min_values).filter(|n| *n > 0),
    }
}

fn requests(claim: &Claim<'_>, context: &PlacementContext<'_>) -> Resources {
    let overhead = context
        .templates
        .get(claim.template)
        .map(|template| template.least_overhead(&claim.rows, context.dimensions.len()));
    let mut requests = Resources::default();
    let overhead = overhead.unwrap_or_default();
    for ((name, amount), overhead) in context
        .dimensions
        .names()
        .iter()
        .zip(&claim.requests)
        .zip(overhead)
    {
        let total = amount.saturating_add(overhead);
        if total != 0 {
            requests.set(name, total);
        }
    }
    requests
}

#[cfg(test)]
mod tests;
