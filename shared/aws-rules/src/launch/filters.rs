//! Instance types of a launch: those that fit, less those that would be a bad buy (docs/spec/aws.md#launch-filters).

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotation::REQUESTED_DRA_DRIVERS, label};
use model::{
    CapacityType, InstanceType, NanosPerHour,
    catalog::Offering,
    devices::DRANET,
    launch::ReservationKind,
    requirement::Requirements,
    resources::{PODS, Resources},
    snapshot::MinValuesPolicy,
};

use super::{Claim, LaunchInput, LaunchRefusal};
use crate::{
    compatibility::{admits, are_compatible},
    instance_types::is_accelerated,
    resource,
};

/// Upper bound on the instance types of a request, as upstream: enough choice for EC2, few enough for one request.
const INSTANCE_TYPES_MAX: usize = 60;

/// An instance type with those of its offerings that the claim may still get.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    pub instance_type: &'a InstanceType,
    /// Offerings, never empty.
    pub offerings: Vec<&'a Offering>,
}

impl<'a> Candidate<'a> {
    fn cheapest(&self) -> NanosPerHour {
        let prices = self.offerings.iter().map(|offering| offering.price);
        prices.min().unwrap_or(NanosPerHour(i64::MAX))
    }

    fn retain(mut self, keep: impl Fn(&Offering) -> bool) -> Option<Self> {
        self.offerings.retain(|offering| keep(offering));
        (!self.offerings.is_empty()).then_some(self)
    }
}

/// The types to ask for, cheapest first.
pub(super) fn candidates<'a>(
    input: &LaunchInput<'a>,
    claim: Claim<'_>,
    requirements: &Requirements,
) -> Result<Vec<Candidate<'a>>, LaunchRefusal> {
    let has_min_values = requirements
        .0
        .values()
        .any(|requirement| requirement.min_values.is_some());
    let mut candidates = fitting(input.instance_types, claim, requirements)?;
    if admits_type(requirements, CapacityType::Reserved) {
        candidates = reserved(candidates);
    }
    if !has_min_values {
        candidates = without_exotic(candidates);
        if admits_type(requirements, CapacityType::Spot)
            && admits_type(requirements, CapacityType::OnDemand)
        {
            candidates = without_dear_spot(candidates);
        }
    }
    candidates.sort_by(|a, b| {
        (a.cheapest(), &a.instance_type.name).cmp(&(b.cheapest(), &b.instance_type.name))
    });
    candidates.truncate(INSTANCE_TYPES_MAX);
    if has_min_values && input.settings.min_values_policy == MinValuesPolicy::Strict {
        check_min_values(&candidates, requirements)?;
    }
    Ok(candidates)
}

/// The capacity type of all instances of the request: reserved before spot before on-demand (docs/spec/aws.md#launch-capacity-type).
pub(super) fn capacity_type(candidates: &[Candidate<'_>]) -> CapacityType {
    let offers = |wanted: CapacityType| {
        let mut offerings = candidates.iter().flat_map(|candidate| &candidate.offerings);
        offerings.any(|offering| offering.capacity_type == wanted)
    };
    [CapacityType::Reserved, CapacityType::Spot]
        .into_iter()
        .find(|wanted| offers(*wanted))
        .unwrap_or(CapacityType::OnDemand)
}

/// Types that the requirements admit and the requests fit, with the available offerings that the claim admits.
fn fitting<'a>(
    types: &'a [InstanceType],
    claim: Claim<'_>,
    requirements: &Requirements,
) -> Result<Vec<Candidate<'a>>, LaunchRefusal> {
    let requests = &claim.spec.requests;
    let (mut admitted, mut with_offering) = (0_usize, 0_usize);
    let mut fitting = Vec::new();
    for instance_type in types {
        if !are_compatible(requirements, &instance_type.requirements) {
            continue;
        }
        admitted += 1;
        let mut offerings: Vec<&Offering> = instance_type
            .offerings
            .iter()
            .filter(|offering| offering.available && admits(requirements, offering))
            .collect();
        with_offering += usize::from(!offerings.is_empty());
        let base = fits(requests, instance_type, None);
        offerings.retain(|offering| {
            match offering.capacity_override.is_some() || offering.overhead_override.is_some() {
                true => fits(requests, instance_type, Some(offering)),
                false => base,
            }
        });
        if !offerings.is_empty() {
            fitting.push(Candidate {
                instance_type,
                offerings,
            });
        }
    }
    if fitting.is_empty() {
        let message = match (admitted, with_offering) {
            (0, _) => "no instance type meets the requirements".to_owned(),
            (_, 0) => format!(
                "none of the {admitted} instance types that meet the requirements is available"
            ),
            (_, n) => format!(
                "none of the {n} instance types that meet the requirements and are available has room for the requests"
            ),
        };
        return Err(LaunchRefusal::InsufficientCapacity { message });
    }
    Ok(fitting)
}

fn fits(requests: &Resources, instance_type: &InstanceType, offering: Option<&Offering>) -> bool {
    let capacity = offering.and_then(|offering| offering.capacity_override.as_ref());
    let overhead = offering.and_then(|offering| offering.overhead_override.as_ref());
    requests.fits(&instance_type.allocatable_with(capacity, overhead))
}

fn admits_type(requirements: &Requirements, capacity_type: CapacityType) -> bool {
    requirements
        .get(label::CAPACITY_TYPE)
        .is_none_or(|requirement| requirement.has(capacity_type.as_str()))
}

/// Restricts the candidates to one kind of reservation, if there is any: the kind with the cheapest offering, since one request cannot mix
/// kinds. A capacity block is requested alone, as CreateFleet accepts a single one.
fn reserved(candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let offerings = candidates.iter().flat_map(|candidate| &candidate.offerings);
    let cheapest = offerings
        .filter_map(|offering| Some((offering.price, kind(offering)?)))
        .min();
    let Some((_, wanted)) = cheapest else {
        return candidates;
    };
    let of_kind = candidates.into_iter().filter_map(|candidate| {
        candidate
            .retain(|offering| kind(offering) == Some(wanted))
            .map(largest_per_zone)
    });
    match wanted {
        ReservationKind::CapacityBlock => cheapest_block(of_kind).into_iter().collect(),
        ReservationKind::Default | ReservationKind::Interruptible => of_kind.collect(),
    }
}

/// The kind of an offering's reservation; `None` if the offering is not reserved.
pub(super) fn kind(offering: &Offering) -> Option<ReservationKind> {
    let says = |key: &str, value: &str| {
        let requirement = offering.requirements.get(key);
        requirement.is_some_and(|requirement| requirement.has(value))
    };
    if offering.capacity_type != CapacityType::Reserved {
        None
    } else if says(label::CAPACITY_RESERVATION_TYPE, "capacity-block") {
        Some(ReservationKind::CapacityBlock)
    } else if says(label::CAPACITY_RESERVATION_INTERRUPTIBLE, "true") {
        Some(ReservationKind::Interruptible)
    } else {
        Some(ReservationKind::Default)
    }
}

fn largest_per_zone(candidate: Candidate<'_>) -> Candidate<'_> {
    let mut best: BTreeMap<&str, &Offering> = BTreeMap::new();
    let left = |offering: &Offering| offering.reservation.as_ref().map_or(0, |r| r.capacity);
    for offering in &candidate.offerings {
        let largest = best.entry(&offering.zone).or_insert(offering);
        if left(offering) > left(largest) {
            *largest = offering;
        }
    }
    Candidate {
        offerings: best.into_values().collect(),
        ..candidate
    }
}

fn cheapest_block<'a>(blocks: impl Iterator<Item = Candidate<'a>>) -> Option<Candidate<'a>> {
    let single = |candidate: Candidate<'a>| {
        let cheapest = candidate
            .offerings
            .iter()
            .min_by_key(|offering| (offering.price, &offering.zone))?;
        Some(Candidate {
            offerings: vec![*cheapest],
            ..candidate
        })
    };
    blocks
        .filter_map(single)
        .min_by_key(|block| (block.cheapest(), block.instance_type.name.clone()))
}

/// Removes metal and accelerated types, which are expensive and slow to start, unless nothing else is left.
fn without_exotic(candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let is_exotic = |instance_type: &InstanceType| {
        let size = instance_type.requirements.get(label::INSTANCE_SIZE);
        let is_metal = size.is_some_and(|size| size.values.iter().any(|s| s.contains("metal")));
        is_metal || is_accelerated(instance_type)
    };
    let (exotic, plain): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|candidate| is_exotic(candidate.instance_type));
    if plain.is_empty() { exotic } else { plain }
}

/// Removes spot offerings that cost more than the cheapest on-demand offering: they buy nothing but interruptions.
fn without_dear_spot(candidates: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let offerings = candidates.iter().flat_map(|candidate| &candidate.offerings);
    let cheapest_on_demand = offerings
        .filter(|offering| offering.capacity_type == CapacityType::OnDemand)
        .map(|offering| offering.price)
        .min();
    let Some(bound) = cheapest_on_demand else {
        return candidates;
    };
    let is_worth_it = |offering: &Offering| {
        offering.capacity_type != CapacityType::Spot || offering.price <= bound
    };
    candidates
        .into_iter()
        .filter_map(|candidate| candidate.retain(is_worth_it))
        .collect()
}

fn check_min_values(
    candidates: &[Candidate<'_>],
    requirements: &Requirements,
) -> Result<(), LaunchRefusal> {
    for (key, requirement) in &requirements.0 {
        let Some(least) = requirement.min_values else {
            continue;
        };
        let values: BTreeSet<&String> = candidates
            .iter()
            .filter_map(|candidate| candidate.instance_type.requirements.get(key))
            .flat_map(|of_type| &of_type.values)
            .collect();
        if values.len() < usize::try_from(least).unwrap_or(usize::MAX) {
            return Err(LaunchRefusal::InsufficientCapacity {
                message: format!(
                    "requirement {key} has minValues {least}, but the {} cheapest instance types have only {}",
                    candidates.len(),
                    values.len()
                ),
            });
        }
    }
    Ok(())
}

/// Whether the claim asks for EFA devices, as an extended resource or by claims of pods (docs/spec/v1.15.md#dra-planning).
pub(super) fn wants_efa(claim: Claim<'_>) -> bool {
    let drivers = claim.annotations.get(REQUESTED_DRA_DRIVERS);
    let mut drivers = drivers.into_iter().flat_map(|drivers| drivers.split(','));
    claim.spec.requests.get(resource::EFA) > 0 || drivers.any(|driver| driver == DRANET)
}

/// Number of pods that a node of this type runs.
pub(super) fn pods(instance_type: &InstanceType) -> i64 {
    instance_type.capacity.get(PODS)
}
