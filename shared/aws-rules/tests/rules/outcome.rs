use api::{EC2NodeClass, LaunchBuilder};
use aws_rules::{
    LaunchRefusal, ProviderSettings,
    instance_types::Unavailable,
    launch::{Builder, launched_claim, observations, reading, refusal},
};
use model::{
    CapacityType, NanosPerHour, Resources,
    launch::{FleetResponse, Launched, OfferingFailure},
    plan::{ExpectedOffering, Launch},
};
use serde_json::json;

use crate::world::{
    TestClaim, ZONES, claim, cluster, launch, launch_from, named, node_class, types_of,
};

fn failure(code: &str, subnet: Option<&str>) -> OfferingFailure {
    OfferingFailure {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        subnet: subnet.map(str::to_owned),
        code: code.into(),
        message: "no".into(),
    }
}

fn answer(failures: &[OfferingFailure]) -> FleetResponse {
    FleetResponse {
        instances: Vec::new(),
        failures: failures.to_vec(),
    }
}

fn zone_id(zone: &str) -> String {
    let mut zones = ZONES.iter();
    zones.find(|(name, _)| *name == zone).unwrap().1.to_owned()
}

#[test]
fn claim_gets_the_labels_and_resources_of_its_instance() {
    let class = node_class(json!({}));
    let types = types_of(&class);
    let claim = claim().types(&["m6idn.32xlarge"]);
    let launched = Launched {
        instance: "i-1".into(),
        instance_type: "m6idn.32xlarge".into(),
        zone: "us-east-1b".into(),
        capacity_type: CapacityType::Spot,
        image: "ami-x86".into(),
        subnet: Some("subnet-b".into()),
    };
    let got = launched_claim(
        &class,
        claim.get(),
        named(&types, "m6idn.32xlarge"),
        &launched,
    );
    assert_eq!(got.provider_id, "aws:///us-east-1b/i-1");
    assert_eq!(got.image_id, "ami-x86");
    for (key, value) in [
        ("topology.kubernetes.io/zone", "us-east-1b"),
        ("topology.k8s.aws/zone-id", "use1-az1"),
        ("karpenter.sh/capacity-type", "spot"),
        ("karpenter.sh/nodepool", "default"),
        ("karpenter.k8s.aws/instance-tenancy", "default"),
        ("karpenter.k8s.aws/instance-size", "32xlarge"),
        ("kubernetes.io/arch", "amd64"),
    ] {
        assert_eq!(
            got.labels.get(key).map(String::as_str),
            Some(value),
            "{key}"
        );
    }
    let annotation = "karpenter.k8s.aws/instance-profile-name";
    assert_eq!(got.annotations[annotation], "demo_profile");
    assert_eq!(got.capacity.get("cpu"), 128_000);
    assert_eq!(
        got.capacity.get("vpc.amazonaws.com/efa"),
        0,
        "devices that were not asked for are not attached"
    );
}

#[test]
fn capacity_errors_are_remembered_for_their_scope() {
    let request = launch(&node_class(json!({})), &claim().types(&["m5.large"])).unwrap();
    let learned = |failure: OfferingFailure| observations(&request, &answer(&[failure]), zone_id);
    let offering = learned(failure("InsufficientInstanceCapacity", None)).offerings;
    let offering: Vec<_> = offering
        .into_iter()
        .map(|o| (o.capacity_type, o.zone_id))
        .collect();
    assert_eq!(offering, [(CapacityType::Spot, "use1-az6".to_owned())]);

    let full = learned(failure(
        "InsufficientFreeAddressesInSubnet",
        Some("subnet-a"),
    ));
    assert_eq!(full.full_subnets, ["subnet-a".to_owned()].into());
    assert!(
        full.offerings.is_empty(),
        "a full subnet says nothing about its zone"
    );

    let no_role = learned(failure(
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        None,
    ));
    assert!(no_role.no_spot_role && no_role.offerings.is_empty());
    assert!(
        learned(failure("InvalidParameterValue", None))
            .offerings
            .is_empty()
    );
}

#[test]
fn claim_is_given_up_only_if_all_failures_are_lack_of_capacity() {
    let capacity = failure("InsufficientInstanceCapacity", None);
    let denied = failure("UnauthorizedOperation", None);
    let gives_up = |failures: &[OfferingFailure]| match refusal(failures) {
        LaunchRefusal::InsufficientCapacity { .. } => true,
        LaunchRefusal::Create { reason, .. } => {
            assert_eq!(reason, "Unauthorized");
            false
        }
        other @ LaunchRefusal::NodeClassNotReady { .. } => panic!("{other:?}"),
    };
    assert!(gives_up(&[]));
    assert!(gives_up(&[capacity.clone(), capacity.clone()]));
    assert!(!gives_up(&[capacity, denied]));
}

#[test]
fn unavailable_offerings_have_the_scope_of_the_failure() {
    let short = answer(&[failure("InsufficientInstanceCapacity", None)]);
    let marked = |changes: serde_json::Value, wanted: TestClaim, answer: &FleetResponse| {
        let request = launch(&node_class(changes), &wanted.types(&["m5.large"])).unwrap();
        let reading = reading(&request, answer, zone_id);
        let marked = reading.unavailable.into_iter();
        let marked = marked.map(|key| (key.capacity_type, key.zone_id, key.scope));
        (marked.collect::<Vec<_>>(), reading.warning)
    };
    let plain = marked(json!({}), claim(), &short).0;
    assert_eq!(plain, [(CapacityType::Spot, "use1-az6".to_owned(), None)]);

    let full = answer(&[failure(
        "InsufficientFreeAddressesInSubnet",
        Some("subnet-a"),
    )]);
    assert_eq!(
        marked(json!({}), claim(), &full).0,
        [],
        "a full subnet is nobody else's business"
    );

    let no_role = answer(&[failure(
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        None,
    )]);
    let (all_spot, warning) = marked(json!({}), claim(), &no_role);
    assert_eq!(
        all_spot.len(),
        ZONES.len(),
        "no zone has spot for this account"
    );
    assert!(warning.unwrap().message.contains("spot.amazonaws.com"));
}

/// A NodeClass whose account has the reservations cr-1 and cr-2, of the same type and zone.
fn with_two_reservations() -> EC2NodeClass {
    let reservation = |id: &str| {
        json!({
            "id": id, "availabilityZone": "us-east-1a", "instanceType": "m5.large", "ownerID": "1",
            "instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active",
        })
    };
    node_class(
        json!({ "status": { "capacityReservations": [reservation("cr-1"), reservation("cr-2")] } }),
    )
}

#[test]
fn exhausted_reservation_is_not_tried_again_and_others_are() {
    let class = with_two_reservations();
    let mut types = types_of(&class);
    let mut unavailable = Unavailable {
        reservations: [("cr-1".to_owned(), 5), ("cr-2".to_owned(), 3)].into(),
        ..Unavailable::default()
    };
    unavailable.mark_unavailable(&mut types, &class);
    let wanted = claim().types(&["m5.large"]).capacity(&["reserved"]);
    let request = launch_from(&class, &wanted, &types, &Default::default()).unwrap();
    let spent = answer(&[failure("ReservationCapacityExceeded", None)]);
    unavailable.offerings = reading(&request, &spent, zone_id).unavailable;
    let scopes: Vec<_> = unavailable
        .offerings
        .iter()
        .map(|key| key.scope.as_deref())
        .collect();
    assert_eq!(scopes, [Some("cr-1")]);
    unavailable.mark_unavailable(&mut types, &class);
    let reserved = named(&types, "m5.large").offerings.iter();
    let left: Vec<_> = reserved
        .filter(|offering| offering.available)
        .filter_map(|offering| Some(offering.reservation.as_ref()?.id.as_str()))
        .collect();
    assert_eq!(left, ["cr-2"]);
}

#[test]
fn exhausted_reservation_is_distinguished_from_other_failures() {
    let class = |state: &str| {
        node_class(json!({ "status": { "capacityReservations": [{
            "id": "cr-1", "availabilityZone": "us-east-1a", "instanceType": "m5.large", "ownerID": "1",
            "instanceMatchCriteria": "targeted", "reservationType": "default", "state": state,
        }] } }))
    };
    let seen = |state: &str, left: u32, shifted: bool| {
        let class = class(state);
        let mut types = types_of(&class);
        let zone_ids = types
            .iter()
            .flat_map(|instance_type| &instance_type.offerings);
        let zone_ids = zone_ids.map(|offering| offering.zone_id.clone());
        let unavailable = Unavailable {
            reservations: [("cr-1".to_owned(), left)].into(),
            zone_ids: zone_ids.filter(|_| shifted).collect(),
            ..Unavailable::default()
        };
        // Observations of a launch take effect on types that are marked already.
        unavailable.mark_unavailable(&mut types, &class);
        unavailable.mark_unavailable(&mut types, &class);
        let mut offerings = named(&types, "m5.large").offerings.iter();
        let own = offerings
            .find(|offering| offering.reservation.is_some())
            .unwrap();
        (own.available, own.reservation.as_ref().unwrap().is_full)
    };
    assert_eq!(seen("active", 3, false), (true, false));
    assert_eq!(seen("active", 0, false), (false, true));
    assert_eq!(seen("expiring", 0, false), (false, false));
    assert_eq!(seen("active", 0, true), (false, false));
}

#[test]
fn claim_names_the_reservation_of_the_instance_or_else_of_the_request() {
    let class = with_two_reservations();
    let mut types = types_of(&class);
    let left = Unavailable {
        reservations: [("cr-1".to_owned(), 5), ("cr-2".to_owned(), 3)].into(),
        ..Unavailable::default()
    };
    left.mark_unavailable(&mut types, &class);
    let builder = Builder {
        cluster: cluster(),
        settings: ProviderSettings::default(),
    };
    let wanted = claim().types(&["m5.large"]).capacity(&["reserved"]);
    let wanted = wanted.get();
    let wanted = Launch {
        name: "a".into(),
        node_pool: "default".into(),
        node_pool_uid: "default-uid".into(),
        labels: wanted.labels.clone(),
        annotations: wanted.annotations.clone(),
        spec: wanted.spec.clone(),
        pods: Vec::new(),
        instance_types: vec!["m5.large".into()],
        cheapest: ExpectedOffering {
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::Reserved,
            zone: "us-east-1a".into(),
            price: NanosPerHour(0),
            capacity: Resources::default(),
        },
    };
    let launched = Launched {
        instance: "i-1".into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Reserved,
        image: "ami-x86".into(),
        subnet: None,
    };
    let named = |shown: Option<&str>| {
        let kind = named(&types, "m5.large");
        let claim = builder.launched(&wanted, &class, kind, &launched, shown);
        claim.labels["karpenter.k8s.aws/capacity-reservation-id"].clone()
    };
    assert_eq!(named(None), "cr-1");
    assert_eq!(named(Some("cr-2")), "cr-2");
}
