//! Capacity reservations of a NodeClass: the calls to EC2, and the reservations in its answers (docs/spec/aws.md#capacity-reservations).

use std::collections::BTreeMap;

use api::karpenter::{
    CapacityReservation, CapacityReservationSelectorTerm, CapacityReservationState,
    CapacityReservationType, InstanceMatchCriteria,
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::selectors::{Filters, tag_filters};

/// One DescribeCapacityReservations call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationQuery {
    /// Reservation ids; empty for any.
    pub ids: Vec<String>,
    pub filters: Filters,
}

/// A reservation as DescribeCapacityReservations shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReservationFact {
    pub capacity_reservation_id: String,
    pub availability_zone: String,
    pub instance_type: String,
    pub owner_id: String,
    pub instance_match_criteria: String,
    /// `default` or `capacity-block`; empty means `default`.
    pub reservation_type: String,
    pub end_date: Option<Timestamp>,
    pub interruptible: bool,
    pub available_instance_count: u32,
}

/// Time before a capacity block's end at which EC2 reclaims its instances.
const BLOCK_RECLAIM_LEAD: SignedDuration = SignedDuration::from_mins(40);

/// The calls for a NodeClass's terms: one call for all ids, and one for each other term; active reservations only.
pub fn reservation_queries(terms: &[CapacityReservationSelectorTerm]) -> Vec<ReservationQuery> {
    let ids: Vec<_> = terms.iter().filter_map(|term| term.id.clone()).collect();
    let by_id = (!ids.is_empty()).then_some(ReservationQuery {
        ids,
        filters: Filters::new(),
    });
    let mut queries: Vec<_> = by_id
        .into_iter()
        .chain(terms.iter().filter_map(by_properties))
        .collect();
    for query in &mut queries {
        let active = vec!["active".to_owned()];
        query.filters.push(("state".to_owned(), active));
    }
    queries
}

/// The call for a term without an id. A term that would select everything selects nothing.
fn by_properties(term: &CapacityReservationSelectorTerm) -> Option<ReservationQuery> {
    let mut filters = term.tags.as_ref().map(tag_filters).unwrap_or_default();
    let criteria = term
        .instance_match_criteria
        .as_ref()
        .map(ToString::to_string);
    for (name, value) in [
        ("owner-id", term.owner_id.clone()),
        ("instance-match-criteria", criteria),
    ] {
        filters.extend(value.map(|value| (name.to_owned(), vec![value])));
    }
    (term.id.is_none() && !filters.is_empty()).then_some(ReservationQuery {
        ids: Vec::new(),
        filters,
    })
}

/// The reservations for the status, in the order of their ids: those that have not ended and are of a known kind.
pub fn reservations(facts: &[ReservationFact], now: Timestamp) -> Vec<CapacityReservation> {
    let found = facts.iter().filter_map(|fact| reservation(fact, now));
    let by_id: BTreeMap<_, _> = found.map(|found| (found.id.clone(), found)).collect();
    by_id.into_values().collect()
}

fn reservation(fact: &ReservationFact, now: Timestamp) -> Option<CapacityReservation> {
    let criteria = match fact.instance_match_criteria.as_str() {
        "open" => InstanceMatchCriteria::Open,
        "targeted" => InstanceMatchCriteria::Targeted,
        _ => return None,
    };
    let kind = match fact.reservation_type.as_str() {
        "" | "default" => CapacityReservationType::Default,
        "capacity-block" => CapacityReservationType::CapacityBlock,
        _ => return None,
    };
    let left = fact.end_date.map(|end| end.duration_since(now));
    if left.is_some_and(|left| !left.is_positive()) {
        return None;
    }
    let ends_soon = left.is_some_and(|left| left <= BLOCK_RECLAIM_LEAD);
    let state = match kind == CapacityReservationType::CapacityBlock && ends_soon {
        true => CapacityReservationState::Expiring,
        false => CapacityReservationState::Active,
    };
    Some(CapacityReservation {
        availability_zone: fact.availability_zone.clone(),
        end_time: fact.end_date,
        id: fact.capacity_reservation_id.clone(),
        instance_match_criteria: criteria,
        instance_type: fact.instance_type.clone(),
        interruptible: Some(fact.interruptible),
        owner_id: fact.owner_id.clone(),
        reservation_type: kind,
        state,
    })
}
