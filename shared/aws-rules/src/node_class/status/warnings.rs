//! Warnings about a NodeClass that still works but can break at the next launch.

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

/// The warnings. `before` are the current conditions: an unknown condition already reports what keeps it from being known.
pub(super) fn of(discovered: &Discovered, before: &ConditionSet<'_>) -> Vec<Warning> {
    unmatched(discovered)
        .chain(exhausted(&discovered.subnets))
        .chain(unanswered(discovered, before))
        .collect()
}

/// Selectors without matches, with the remedy. Their conditions have Karpenter's messages, which name no remedy.
fn unmatched(discovered: &Discovered) -> impl Iterator<Item = Warning> {
    fn is_empty<T>(found: &Discovery<Vec<T>>) -> bool {
        matches!(found, Discovery::Found(found) if found.is_empty())
    }
    let Discovered {
        subnets,
        security_groups,
        amis,
        ..
    } = discovered;
    let selectors = [
        (
            is_empty(subnets),
            "SubnetsNotFound",
            "subnetSelectorTerms",
            "subnets",
        ),
        (
            is_empty(security_groups),
            "SecurityGroupsNotFound",
            "securityGroupSelectorTerms",
            "security groups",
        ),
        (is_empty(amis), "AMINotFound", "amiSelectorTerms", "images"),
    ];
    let unmatched = selectors.into_iter().filter(|(is_empty, ..)| *is_empty);
    unmatched.map(|(_, reason, field, resources)| Warning {
        reason,
        message: format!(
            "{field} select no {resources} in this Region: correct the terms, or tag the {resources} accordingly"
        ),
    })
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
            "subnetSelectorTerms: no instance can be launched in subnets without free addresses: {}",
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
        (
            "subnetSelectorTerms",
            SUBNETS_READY,
            unanswered_message(subnets),
        ),
        (
            "securityGroupSelectorTerms",
            SECURITY_GROUPS_READY,
            unanswered_message(security_groups),
        ),
        ("amiSelectorTerms", AMIS_READY, unanswered_message(amis)),
        (
            "role or instanceProfile",
            INSTANCE_PROFILE_READY,
            unanswered_message(instance_profile),
        ),
        (
            "capacityReservationSelectorTerms",
            CAPACITY_RESERVATIONS_READY,
            unanswered_message(capacity_reservations),
        ),
        (
            "placementGroupSelector",
            PLACEMENT_GROUP_READY,
            unanswered_message(placement_group),
        ),
    ];
    let known = |condition: &str| before.status(condition) != ConditionStatus::Unknown;
    let reported: Vec<String> = fields
        .into_iter()
        .filter(|(_, condition, _)| known(condition))
        .filter_map(|(field, _, message)| Some(format!("{field}: {}", message?)))
        .collect();
    (!reported.is_empty()).then(|| Warning {
        reason: "AwaitingReconciliation",
        message: format!(
            "discovery failed, earlier results stay in use: {}",
            reported.join("; ")
        ),
    })
}

fn unanswered_message<T>(discovery: &Discovery<T>) -> Option<&str> {
    match discovery {
        Discovery::Unanswered { message } => Some(message),
        Discovery::Found(_) | Discovery::Nothing { .. } | Discovery::Refused { .. } => None,
    }
}
