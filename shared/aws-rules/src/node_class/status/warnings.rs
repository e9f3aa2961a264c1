//! What users should know of a NodeClass that still works: it can break at the next launch.

use api::{
    ConditionStatus,
    conditions::{
        ConditionSet,
        types::{
            AMIS_READY, CAPACITY_RESERVATIONS_READY, INSTANCE_PROFILE_READY, PLACEMENT_GROUP_READY,
            SECURITY_GROUPS_READY, SUBNETS_READY,
        },
    },
};
use model::Warning;

use super::{Discovered, Discovery, SubnetFact};
use crate::errors::NO_FREE_ADDRESSES;

/// `before` are the conditions as they are: one that is not known yet tells by itself what keeps it from being so.
pub(super) fn of(discovered: &Discovered, before: &ConditionSet<'_>) -> Vec<Warning> {
    exhausted(&discovered.subnets)
        .into_iter()
        .chain(unanswered(discovered, before))
        .collect()
}

fn exhausted(subnets: &Discovery<Vec<SubnetFact>>) -> Option<Warning> {
    let Discovery::Found(subnets) = subnets else {
        return None;
    };
    let full = subnets.iter().filter(|subnet| subnet.free_addresses <= 0);
    let full: Vec<String> = full
        .map(|subnet| format!("{} in {}", subnet.id, subnet.zone))
        .collect();
    (!full.is_empty()).then(|| Warning {
        reason: NO_FREE_ADDRESSES,
        message: format!(
            "subnetSelectorTerms: nothing can be launched in subnets without free addresses: {}",
            full.join(", ")
        ),
    })
}

fn unanswered(discovered: &Discovered, before: &ConditionSet<'_>) -> Option<Warning> {
    let Discovered {
        subnets,
        security_groups,
        amis,
        instance_profile,
        capacity_reservations,
        placement_group,
    } = discovered;
    let fields = [
        ("subnetSelectorTerms", SUBNETS_READY, silence(subnets)),
        (
            "securityGroupSelectorTerms",
            SECURITY_GROUPS_READY,
            silence(security_groups),
        ),
        ("amiSelectorTerms", AMIS_READY, silence(amis)),
        (
            "role or instanceProfile",
            INSTANCE_PROFILE_READY,
            silence(instance_profile),
        ),
        (
            "capacityReservationSelectorTerms",
            CAPACITY_RESERVATIONS_READY,
            silence(capacity_reservations),
        ),
        (
            "placementGroupSelector",
            PLACEMENT_GROUP_READY,
            silence(placement_group),
        ),
    ];
    let known = |condition: &str| before.status(condition) != ConditionStatus::Unknown;
    let told: Vec<String> = fields
        .into_iter()
        .filter(|(_, condition, _)| known(condition))
        .filter_map(|(field, _, message)| Some(format!("{field}: {}", message?)))
        .collect();
    (!told.is_empty()).then(|| Warning {
        reason: "AwaitingReconciliation",
        message: format!("what was found earlier still stands: {}", told.join("; ")),
    })
}

fn silence<T>(discovery: &Discovery<T>) -> Option<&str> {
    match discovery {
        Discovery::Unanswered { message } => Some(message),
        Discovery::Found(_) | Discovery::Nothing { .. } | Discovery::Refused { .. } => None,
    }
}
