//! What a launch led to: what the NodeClaim becomes, and what is remembered of offerings that failed (spec/aws §4.2, §12.5, §12.6).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    karpenter::{EC2NodeClass, NetworkInterface},
    names::{annotation, label},
};
use model::{
    CapacityType, InstanceType, Resources,
    launch::{FleetAnswer, FleetRequest, Launched},
    ledger::OfferingKey,
    requirement::Requirements,
};

use super::{Claim, LaunchProblem};
use crate::{compatibility::admits, errors, resource};

/// What a NodeClaim gets once its instance exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchedClaim {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub provider_id: String,
    pub image_id: String,
    pub capacity: Resources,
    pub allocatable: Resources,
}

/// The NodeClaim of this instance. `instance_type` is the type that EC2 chose, as resolved through the NodeClass.
pub fn launched_claim(
    class: &EC2NodeClass,
    claim: Claim<'_>,
    instance_type: &InstanceType,
    launched: &Launched,
) -> LaunchedClaim {
    let gets_efa = claim.spec.requests.get(resource::EFA) > 0
        || class
            .spec
            .network_interfaces
            .as_deref()
            .is_some_and(|interfaces: &[NetworkInterface]| !interfaces.is_empty());
    let kept = |resources: Resources| {
        let mut kept = resources;
        kept.0
            .retain(|name, amount| *amount != 0 && (gets_efa || name != resource::EFA));
        kept
    };
    let status = class.status.as_ref();
    let profile = status.and_then(|status| status.instance_profile.clone());
    LaunchedClaim {
        labels: labels(class, claim, instance_type, launched),
        annotations: profile
            .map(|profile| (annotation::INSTANCE_PROFILE_NAME.to_owned(), profile))
            .into_iter()
            .collect(),
        provider_id: format!("aws:///{}/{}", launched.zone, launched.instance),
        image_id: launched.image.clone(),
        capacity: kept(instance_type.capacity.clone()),
        allocatable: kept(instance_type.allocatable()),
    }
}

fn labels(
    class: &EC2NodeClass,
    claim: Claim<'_>,
    instance_type: &InstanceType,
    launched: &Launched,
) -> BTreeMap<String, String> {
    const OF_RESERVATIONS: [&str; 3] = [
        label::CAPACITY_RESERVATION_ID,
        label::CAPACITY_RESERVATION_TYPE,
        label::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ];
    let mut labels = certain(&instance_type.requirements);
    labels.retain(|key, _| !OF_RESERVATIONS.contains(&key.as_str()));
    let subnets = class
        .status
        .as_ref()
        .and_then(|status| status.subnets.as_deref());
    let zone_id = subnets
        .unwrap_or_default()
        .iter()
        .find(|subnet| subnet.zone == launched.zone)
        .and_then(|subnet| subnet.zone_id.clone());
    let tenancy = super::templates::tenancy(&claim.requirements());
    labels.extend([
        (label::ZONE.to_owned(), launched.zone.clone()),
        (
            label::CAPACITY_TYPE.to_owned(),
            launched.capacity_type.to_string(),
        ),
        (label::INSTANCE_TENANCY.to_owned(), tenancy.to_owned()),
    ]);
    labels.extend(zone_id.map(|id| (label::ZONE_ID.to_owned(), id)));
    if launched.capacity_type == CapacityType::Reserved {
        let requirements = claim.requirements();
        let reserved = instance_type.offerings.iter().filter(|offering| {
            offering.capacity_type == CapacityType::Reserved
                && offering.zone == launched.zone
                && admits(&requirements, offering)
        });
        // The request asked for the largest of the zone.
        let reserved = reserved.max_by_key(|offering| {
            let reservation = offering.reservation.as_ref();
            reservation.map(|r| (r.capacity, std::cmp::Reverse(&r.id)))
        });
        let id = reserved.and_then(|offering| offering.reservation.as_ref());
        labels.extend(id.map(|r| (label::CAPACITY_RESERVATION_ID.to_owned(), r.id.clone())));
        labels.extend(reserved.into_iter().flat_map(|o| certain(&o.requirements)));
    }
    let node_pool = claim.labels.get(label::NODE_POOL);
    labels.extend(node_pool.map(|name| (label::NODE_POOL.to_owned(), name.clone())));
    labels
}

/// Labels that can have one value only.
fn certain(requirements: &Requirements) -> BTreeMap<String, String> {
    let single = |(key, requirement): (&String, &model::requirement::Requirement)| {
        let value = requirement.values.first()?;
        let is_single = !requirement.complement && requirement.values.len() == 1;
        is_single.then(|| (key.clone(), value.clone()))
    };
    requirements.0.iter().filter_map(single).collect()
}

/// What an answer teaches about offerings, whether or not something was launched too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lessons {
    /// For the account-wide memory.
    pub offerings: BTreeSet<OfferingKey>,
    /// Subnets that have no free address left. They say nothing about their zone's capacity.
    pub full_subnets: BTreeSet<String>,
    /// Reservations that are used up.
    pub spent_reservations: BTreeSet<String>,
    /// The account lacks the service-linked role, without which there is no spot at all.
    pub no_spot_role: bool,
}

/// Reads an answer's failures. `zone_id` knows zones by name.
pub fn lessons<'a>(
    request: &FleetRequest,
    answer: &FleetAnswer,
    zone_id: impl Fn(&str) -> Option<&'a str>,
) -> Lessons {
    use model::launch::ReservationUse;
    let mut lessons = Lessons::default();
    for failure in &answer.failures {
        lessons.no_spot_role |= failure.code == errors::SERVICE_LINKED_ROLE;
        if !errors::is_capacity(&failure.code) {
            continue;
        }
        let reservations = request.templates.iter().filter_map(|config| {
            let is_of_it = config.overrides.iter().any(|choice| {
                choice.instance_type == failure.instance_type && choice.zone == failure.zone
            });
            match &config.template.reservation {
                ReservationUse::Only { id, .. } if is_of_it => Some(id.clone()),
                ReservationUse::Only { .. }
                | ReservationUse::None
                | ReservationUse::Unspecified => None,
            }
        });
        if request.capacity_type == CapacityType::Reserved {
            lessons.spent_reservations.extend(reservations);
        } else if failure.code == errors::NO_FREE_ADDRESSES && failure.subnet.is_some() {
            lessons.full_subnets.extend(failure.subnet.clone());
        } else {
            lessons.offerings.insert(OfferingKey {
                capacity_type: request.capacity_type,
                instance_type: failure.instance_type.clone(),
                zone_id: zone_id(&failure.zone).unwrap_or(&failure.zone).to_owned(),
                scope: None,
            });
        }
    }
    lessons
}

/// Why an answer without any instance left its claims without one: capacity alone gives the claim up, anything else is
/// tried again.
pub fn verdict(answer: &FleetAnswer) -> Option<LaunchProblem> {
    if !answer.instances.is_empty() {
        return None;
    }
    let texts: BTreeSet<String> = answer
        .failures
        .iter()
        .map(|failure| format!("{}: {}", failure.code, failure.message))
        .collect();
    let text = texts.into_iter().collect::<Vec<_>>().join("; ");
    let is_capacity = |code: &str| errors::is_capacity(code) || code == errors::SERVICE_LINKED_ROLE;
    if answer
        .failures
        .iter()
        .all(|failure| is_capacity(&failure.code))
    {
        let message = if text.is_empty() {
            "EC2 launched nothing and did not say why".to_owned()
        } else {
            text
        };
        return Some(LaunchProblem::InsufficientCapacity { message });
    }
    let failure = errors::launch_failure(&text);
    Some(LaunchProblem::Create {
        reason: failure.reason,
        message: format!("{}: {text}", failure.message),
    })
}
