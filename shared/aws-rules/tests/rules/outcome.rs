use aws_rules::{
    LaunchRefusal,
    launch::{launched_claim, lessons, verdict},
};
use model::{
    CapacityType,
    launch::{FleetAnswer, Launched, OfferingFailure},
};
use serde_json::json;

use crate::world::{ZONES, claim, launch, named, node_class, types_of};

fn failure(code: &str, subnet: Option<&str>) -> OfferingFailure {
    OfferingFailure {
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        subnet: subnet.map(str::to_owned),
        code: code.into(),
        message: "no".into(),
    }
}

fn answer(failures: &[OfferingFailure]) -> FleetAnswer {
    FleetAnswer {
        instances: Vec::new(),
        failures: failures.to_vec(),
    }
}

fn zone_id(zone: &str) -> String {
    let mut zones = ZONES.iter();
    zones.find(|(name, _)| *name == zone).unwrap().1.to_owned()
}

#[test]
fn a_claim_gets_the_labels_and_resources_of_its_instance() {
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
fn capacity_errors_are_remembered_for_what_they_are_about() {
    let request = launch(&node_class(json!({})), &claim().types(&["m5.large"])).unwrap();
    let learned = |failure: OfferingFailure| lessons(&request, &answer(&[failure]), zone_id);
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
fn only_capacity_gives_a_claim_up() {
    let capacity = failure("InsufficientInstanceCapacity", None);
    let denied = failure("UnauthorizedOperation", None);
    let gives_up = |failures: &[OfferingFailure]| match verdict(&answer(failures)) {
        Some(LaunchRefusal::InsufficientCapacity { .. }) => true,
        Some(LaunchRefusal::Create { reason, .. }) => {
            assert_eq!(reason, "Unauthorized");
            false
        }
        other => panic!("{other:?}"),
    };
    assert!(gives_up(&[]));
    assert!(gives_up(&[capacity.clone(), capacity.clone()]));
    assert!(!gives_up(&[capacity, denied]));
}
