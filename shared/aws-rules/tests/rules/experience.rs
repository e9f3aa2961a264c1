use aws_rules::{
    ProviderSettings,
    instance_types::{ResolveInput, Unavailable, instance_types},
};
use model::{
    Experience, InstanceType,
    experience::{FullSubnet, MeasuredMemory},
};
use serde_json::{Value, json};

use crate::world::{catalog, named, node_class};

const MIB: i64 = 1 << 20;

fn memory_of(changes: Value, measured: &[(&str, &str, i64)]) -> (i64, i64) {
    let class = node_class(changes);
    let measured: Vec<MeasuredMemory> = measured
        .iter()
        .map(|(kind, image, mib)| MeasuredMemory {
            instance_type: (*kind).to_owned(),
            image: (*image).to_owned(),
            bytes: mib * MIB,
            until: jiff::Timestamp::MAX,
        })
        .collect();
    let through = ResolveInput {
        node_class: &class,
        settings: &ProviderSettings::default(),
        measured_memory: &measured,
        placement_group: None,
    };
    let types = instance_types(&catalog(), through).unwrap();
    let m5_large = named(&types, "m5.large");
    let in_mib = |amount: i64| amount / MIB;
    (
        in_mib(m5_large.capacity.get("memory")),
        in_mib(m5_large.allocatable().get("memory")),
    )
}

#[test]
fn measured_memory_replaces_the_estimate() {
    assert_eq!(memory_of(json!({}), &[]), (7_577, 6_903));
    let measured = [
        ("m5.large", "ami-x86", 7_700),
        ("m5.xlarge", "ami-x86", 15_000),
    ];
    assert_eq!(memory_of(json!({}), &measured), (7_700, 7_026));
}

#[test]
fn memory_measured_with_another_image_is_ignored() {
    let measured = [("m5.large", "ami-x86", 7_700)];
    let newer = json!({ "status": { "amis": [{ "id": "ami-newer", "requirements": [
        { "key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"] },
    ]}]}});
    assert_eq!(memory_of(newer, &measured).0, 7_577);
    // The type is of architecture Arm only.
    assert_eq!(
        memory_of(json!({}), &[("m5.large", "ami-arm", 7_700)]).0,
        7_577
    );
}

fn zones(experience: &Experience, changes: Value) -> Vec<String> {
    let class = node_class(changes);
    let mut types: Vec<InstanceType> = crate::world::types_of(&class);
    Unavailable::new(experience).mark_unavailable(&mut types, &class);
    let mut zones: Vec<String> = named(&types, "m5.large")
        .offerings
        .iter()
        .filter(|offering| offering.available)
        .map(|offering| offering.zone.clone())
        .collect();
    zones.dedup();
    zones.sort();
    zones.dedup();
    zones
}

#[test]
fn zone_is_unavailable_only_when_all_its_subnets_are_full() {
    let full = Experience {
        full_subnets: vec![FullSubnet::at("subnet-b", jiff::Timestamp::MIN)],
        ..Experience::default()
    };
    assert_eq!(zones(&full, json!({})), ["us-east-1a", "us-east-1c"]);
    let another = json!({ "status": { "subnets": [
        { "id": "subnet-b", "zone": "us-east-1b" }, { "id": "subnet-b2", "zone": "us-east-1b" },
    ]}});
    assert_eq!(zones(&full, another), ["us-east-1b"]);
}

#[test]
fn zone_with_a_zonal_shift_is_unavailable() {
    let shifted = Experience {
        shifted_zones: ["use1-az6".to_owned()].into(),
        ..Experience::default()
    };
    assert_eq!(zones(&shifted, json!({})), ["us-east-1b", "us-east-1c"]);
}
