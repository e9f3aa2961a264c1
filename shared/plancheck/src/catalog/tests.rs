use model::{CapacityType, NanosPerHour, catalog::Overhead, requirement::Requirements};

use super::*;

const RESERVATION: &str = "karpenter.k8s.aws/capacity-reservation-id";

/// An instance type with this requirement on the label `team`, and one offering.
fn of_type(team: Option<(Operator, &str)>) -> InstanceType {
    let mut requirements = Requirements::default();
    if let Some((operator, value)) = team {
        requirements.add(Requirement::new("team", operator, [value.to_owned()]));
    }
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: "m5.large".to_owned(),
        requirements,
        capacity: Resources::default(),
        overhead: Overhead::default(),
        offerings: vec![Offering {
            unpriced: false,
            capacity_type: CapacityType::OnDemand,
            zone: "us-east-1a".to_owned(),
            zone_id: String::new(),
            price: NanosPerHour(1),
            available: true,
            reservation: None,
            requirements: Requirements::default(),
            capacity_override: None,
            overhead_override: None,
        }],
    }
}

#[test]
fn type_is_suitable_if_values_overlap_or_both_accept_absence() {
    let own = [
        None,
        Some((Operator::In, "a")),
        Some((Operator::NotIn, "a")),
        Some((Operator::DoesNotExist, "")),
    ];
    let types = own.map(of_type);
    let catalog = Catalog::new(&types, RESERVATION);
    let suitable = |operator, value: &str| {
        let wanted = Requirement::new("team", operator, [value.to_owned()]);
        let found = catalog.suitable(&wanted);
        [0, 1, 2, 3].map(|index| found.contains(index))
    };
    assert_eq!(suitable(Operator::In, "a"), [true, true, false, false]);
    assert_eq!(suitable(Operator::In, "b"), [true, false, true, false]);
    assert_eq!(suitable(Operator::NotIn, "a"), [true, false, true, true]);
    let none = Requirement::new("team", Operator::DoesNotExist, []);
    let found = catalog.suitable(&none);
    let found = [0, 1, 2, 3].map(|index| found.contains(index));
    assert_eq!(found, [true, false, true, true]);
}

#[test]
fn label_values_of_types_are_listed_open_or_silent() {
    let own = [
        None,
        Some((Operator::In, "a")),
        Some((Operator::NotIn, "a")),
    ];
    let types = own.map(of_type);
    let catalog = Catalog::new(&types, RESERVATION);
    let values = catalog.values("team");
    let each = |bits: &Bits| [0, 1, 2].map(|index| bits.contains(index));
    let listed = values.listed.iter().map(|(value, at)| (*value, each(at)));
    assert_eq!(listed.collect::<Vec<_>>(), [("a", [false, true, false])]);
    assert_eq!(each(&values.silent), [true, false, false]);
    assert_eq!(each(&values.open), [false, false, true]);
    assert!(catalog.knows("team") && !catalog.knows("else"));
}

#[test]
fn offerings_specify_zone_capacity_type_and_reservation() {
    let types = [of_type(None)];
    let catalog = Catalog::new(&types, RESERVATION);
    let said = |key| catalog.of_offering(catalog.offering(0).unwrap(), key);
    assert_eq!(said(labels::ZONE), Some(Some("us-east-1a")));
    assert_eq!(said(labels::CAPACITY_TYPE), Some(Some("on-demand")));
    assert_eq!(said(RESERVATION), Some(None), "it is in none");
    assert_eq!(said(labels::ZONE_ID), None, "the provider has none");
    assert_eq!(said("team"), None);
    for key in [labels::ZONE, labels::CAPACITY_TYPE, RESERVATION] {
        assert!(catalog.knows(key), "{key}");
    }
}

#[test]
fn requirements_satisfied_by_absence_are_negative() {
    let of = |operator, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned());
        let requirement = Requirement::new("team", operator, values);
        (is_absence(&requirement), is_negative(&requirement))
    };
    assert_eq!(of(Operator::DoesNotExist, &[]), (true, true));
    assert_eq!(of(Operator::NotIn, &["a"]), (false, true));
    assert_eq!(of(Operator::In, &["a"]), (false, false));
    assert_eq!(of(Operator::Exists, &[]), (false, false));
}
