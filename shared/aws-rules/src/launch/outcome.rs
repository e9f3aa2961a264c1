//! Outcome of a launch: the NodeClaim's new state, and the offerings to remember as unavailable (docs/spec/aws.md#create-fleet-answer,
//! docs/spec/aws.md#launched-instance).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    karpenter::{EC2NodeClass, NetworkInterface},
    names::{annotation, label},
};
use model::{
    CapacityType, InstanceType, Resources,
    launch::{
        FleetOutcome, FleetRequest, FleetResponse, LaunchWarning, Launched, LaunchedClaim,
        OfferingFailure, ReservationUse,
    },
    ledger::OfferingKey,
    requirement::Requirements,
};

use super::{Claim, LaunchRefusal};
use crate::{
    compatibility::admits,
    errors,
    placement::{placement, scope},
    resource,
};

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
        // The request asked for the largest reservation of the zone.
        let reserved = reserved.max_by_key(|offering| {
            let reservation = offering.reservation.as_ref();
            reservation.map(|r| (r.capacity, std::cmp::Reverse(&r.id)))
        });
        let id = reserved.and_then(|offering| offering.reservation.as_ref());
        labels.extend(id.map(|r| (label::CAPACITY_RESERVATION_ID.to_owned(), r.id.clone())));
        labels.extend(reserved.into_iter().flat_map(|o| certain(&o.requirements)));
    }
    if instance_type
        .requirements
        .get(label::PLACEMENT_GROUP_PARTITION)
        .is_some()
    {
        // Empty where EC2 chooses; filled in once the instance runs.
        let placement = placement(&claim.requirements(), instance_type);
        let partition = placement.and_then(|placement| placement.partition);
        let text = partition.map(|partition| partition.to_string());
        labels.insert(
            label::PLACEMENT_GROUP_PARTITION.to_owned(),
            text.unwrap_or_default(),
        );
    }
    let node_pool = claim.labels.get(label::NODE_POOL);
    labels.extend(node_pool.map(|name| (label::NODE_POOL.to_owned(), name.clone())));
    labels
}

/// Labels with exactly one possible value.
fn certain(requirements: &Requirements) -> BTreeMap<String, String> {
    let single = |(key, requirement): (&String, &model::requirement::Requirement)| {
        let value = requirement.values.first()?;
        let is_single = !requirement.complement && requirement.values.len() == 1;
        is_single.then(|| (key.clone(), value.clone()))
    };
    requirements.0.iter().filter_map(single).collect()
}

/// Facts in a CreateFleet answer that matter for later launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchObservations {
    /// Unavailable offerings, for the account-wide memory.
    pub offerings: BTreeSet<OfferingKey>,
    /// Subnets without a free address. They do not count against their zone's capacity.
    pub full_subnets: BTreeSet<String>,
    /// Reservation → number of instances launched into it.
    pub reserved: BTreeMap<String, u32>,
    /// Reservations that are used up.
    pub exhausted_reservations: BTreeSet<String>,
    /// The account lacks the service-linked role for spot, so no spot instance can be launched.
    pub no_spot_role: bool,
}

/// Part of EC2's message when a spread placement group has its maximum of instances in a zone. No other type helps in that zone.
const SPREAD_GROUP_FULL: &str = "limit of instances in this spread placement group";

/// Reads the facts in an answer. `zone_id` maps zone names to ids.
pub fn observations(
    request: &FleetRequest,
    answer: &FleetResponse,
    zone_id: impl Fn(&str) -> String,
) -> LaunchObservations {
    let mut observations = LaunchObservations::default();
    for launched in &answer.instances {
        for reservation in reservations(request, &launched.instance_type, &launched.zone) {
            *observations.reserved.entry(reservation).or_default() += 1;
        }
    }
    for failure in &answer.failures {
        observations.no_spot_role |= failure.code == errors::SERVICE_LINKED_ROLE
            && request.capacity_type != CapacityType::Reserved;
        if !errors::is_capacity(&failure.code) {
            continue;
        }
        if request.capacity_type == CapacityType::Reserved {
            let exhausted = reservations(request, &failure.instance_type, &failure.zone);
            observations.exhausted_reservations.extend(exhausted);
        }
        if failure.code == errors::NO_FREE_ADDRESSES && failure.subnet.is_some() {
            observations.full_subnets.extend(failure.subnet.clone());
        } else if request.capacity_type != CapacityType::Reserved {
            let is_spread_full = failure.message.contains(SPREAD_GROUP_FULL);
            for config in &request.templates {
                let hit = config.overrides.iter().filter(|choice| {
                    choice.zone == failure.zone
                        && (is_spread_full || choice.instance_type == failure.instance_type)
                });
                observations.offerings.extend(hit.map(|choice| OfferingKey {
                    capacity_type: request.capacity_type,
                    instance_type: choice.instance_type.clone(),
                    zone_id: zone_id(&failure.zone),
                    scope: scope(&config.template),
                }));
            }
        }
    }
    observations
}

/// The reservations that a request may launch this type into in this zone.
fn reservations(
    request: &FleetRequest,
    instance_type: &str,
    zone: &str,
) -> impl Iterator<Item = String> {
    request.templates.iter().filter_map(move |config| {
        let mut overrides = config.overrides.iter();
        let is_of_it =
            overrides.any(|choice| choice.instance_type == instance_type && choice.zone == zone);
        match &config.template.reservation {
            ReservationUse::Only { id, .. } if is_of_it => Some(id.clone()),
            ReservationUse::Only { .. } | ReservationUse::None | ReservationUse::Unspecified => {
                None
            }
        }
    })
}

/// The facts of an answer for the account-wide memory, and the reason for NodeClaims that got no instance.
pub fn reading(
    request: &FleetRequest,
    answer: &FleetResponse,
    zone_id: impl Fn(&str) -> String,
) -> FleetOutcome {
    let observations = observations(request, answer, &zone_id);
    let key = |instance_type: &str, zone: &str, scope| OfferingKey {
        capacity_type: request.capacity_type,
        instance_type: instance_type.to_owned(),
        zone_id: zone_id(zone),
        scope,
    };
    let mut unavailable = observations.offerings;
    for failure in &answer.failures {
        let of_it = reservations(request, &failure.instance_type, &failure.zone);
        let exhausted = of_it.filter(|id| observations.exhausted_reservations.contains(id));
        unavailable
            .extend(exhausted.map(|id| key(&failure.instance_type, &failure.zone, Some(id))));
    }
    if observations.no_spot_role {
        // The whole capacity type is unavailable, as far as this request asked for it.
        let templates = request.templates.iter();
        let asked = templates.flat_map(|config| &config.overrides);
        unavailable.extend(asked.map(|choice| key(&choice.instance_type, &choice.zone, None)));
    }
    FleetOutcome {
        unavailable,
        full_subnets: observations.full_subnets,
        refusal: refusal(&answer.failures),
        warning: observations.no_spot_role.then_some(NO_SPOT_ROLE),
    }
}

/// Warning that is emitted once for each launch (docs/spec/aws.md#missing-service-linked-role).
pub const NO_SPOT_ROLE: LaunchWarning = LaunchWarning {
    reason: "SpotServiceLinkedRoleCreationNotPermitted",
    message: "EC2 Spot needs the service-linked role AWSServiceRoleForEC2Spot, which the account does not have: create it with aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
};

/// Why an answer left claims without an instance. Only a lack of capacity gives a claim up; any other failure is retried.
pub fn refusal(failures: &[OfferingFailure]) -> LaunchRefusal {
    let texts: BTreeSet<String> = failures
        .iter()
        .map(|failure| format!("{}: {}", failure.code, failure.message))
        .collect();
    let text = texts.into_iter().collect::<Vec<_>>().join("; ");
    let is_capacity = |code: &str| errors::is_capacity(code) || code == errors::SERVICE_LINKED_ROLE;
    if failures.iter().all(|failure| is_capacity(&failure.code)) {
        let message = if text.is_empty() {
            "EC2 launched fewer instances than requested and reported no error".to_owned()
        } else {
            text
        };
        return LaunchRefusal::InsufficientCapacity { message };
    }
    call_refusal(&text)
}

/// Why a call that failed as a whole launched nothing; `text` is EC2's `code: message`.
pub fn call_refusal(text: &str) -> LaunchRefusal {
    let failure = errors::launch_failure(text);
    LaunchRefusal::Create {
        reason: failure.reason,
        message: format!("{}: {text}", failure.message),
    }
}
