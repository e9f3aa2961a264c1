//! Whether two sets of requirements have something in common (docs/spec/scheduling.md#compatibility).

use api::names::label;
use model::{
    catalog::Offering,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

/// Whether every label that both sets constrain can have a value that both allow. Two constraints that only exclude values always agree.
pub fn are_compatible(first: &Requirements, other: &Requirements) -> bool {
    first.0.iter().all(|(key, requirement)| {
        other.0.get(key).is_none_or(|incoming| {
            requirement.intersects(incoming) || excludes(requirement) && excludes(incoming)
        })
    })
}

fn excludes(requirement: &Requirement) -> bool {
    matches!(
        requirement.operator(),
        Operator::NotIn | Operator::DoesNotExist
    )
}

/// Whether the claim admits the offering: capacity type, zone, reservation, and other attributes of the offering.
pub fn admits(claim: &Requirements, offering: &Offering) -> bool {
    let has = |key: &str, value: &str| {
        claim
            .get(key)
            .is_none_or(|requirement| requirement.has(value))
    };
    let reservation = match &offering.reservation {
        Some(reservation) => has(label::CAPACITY_RESERVATION_ID, &reservation.id),
        None => claim
            .get(label::CAPACITY_RESERVATION_ID)
            .is_none_or(excludes),
    };
    reservation
        && has(label::CAPACITY_TYPE, offering.capacity_type.as_str())
        && has(label::ZONE, &offering.zone)
        && (offering.zone_id.is_empty() || has(label::ZONE_ID, &offering.zone_id))
        && are_compatible(claim, &offering.requirements)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(entries: &[(&str, Operator, &[&str])]) -> Requirements {
        let mut requirements = Requirements::default();
        for (key, operator, values) in entries {
            requirements.add(Requirement::new(
                key,
                *operator,
                values.iter().map(|value| (*value).to_owned()),
            ));
        }
        requirements
    }

    #[test]
    fn only_labels_in_both_sets_can_conflict() {
        let arm = requirements(&[("arch", Operator::In, &["arm64"])]);
        let amd = requirements(&[
            ("arch", Operator::In, &["amd64"]),
            ("gpu", Operator::In, &["1"]),
        ]);
        assert!(!are_compatible(&arm, &amd));
        assert!(are_compatible(
            &arm,
            &requirements(&[("gpu", Operator::In, &["1"])])
        ));
    }

    #[test]
    fn absent_label_is_compatible_with_exclusions_only() {
        let absent = requirements(&[("gpu", Operator::DoesNotExist, &[])]);
        assert!(are_compatible(&absent, &absent));
        assert!(are_compatible(
            &absent,
            &requirements(&[("gpu", Operator::NotIn, &["1"])])
        ));
        assert!(!are_compatible(
            &absent,
            &requirements(&[("gpu", Operator::Exists, &[])])
        ));
    }
}
