use std::collections::BTreeMap;

use aws_rules::node_class::{
    Drift, DriftUnknown, InstanceFacts, drift, drift_of_instance, instance_of, static_hash,
};
use model::{
    CapacityType,
    launch::{Instance, InstanceState},
    node_claim::NodeClaim,
};
use serde_json::{Value, json};

use crate::world::{named, node_class, types_of};

fn hash(spec: Value) -> String {
    static_hash(&node_class(json!({ "spec": spec })), "Y2EK").unwrap()
}

#[test]
fn static_hash_is_equal_for_equivalent_specs() {
    let root = |size: &str, more: Value| {
        let mut mapping = json!({ "deviceName": "/dev/xvda", "ebs": { "volumeSize": size } });
        mapping
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "blockDeviceMappings": [mapping, { "deviceName": "/dev/xvdb" }] })
    };
    let reserved = |cpu: &str| json!({ "kubelet": { "kubeReserved": { "cpu": cpu } } });
    let same = [
        (
            json!({}),
            json!({ "subnetSelectorTerms": [{ "id": "subnet-9" }] }),
        ),
        (json!({}), json!({ "amiFamily": "AL2023" })),
        (json!({}), json!({ "kubelet": {} })),
        (
            root("20Gi", json!({})),
            root("20480Mi", json!({ "rootVolume": false })),
        ),
        (reserved("100m"), reserved("0.1")),
    ];
    for (before, after) in same {
        assert_eq!(
            hash(before.clone()),
            hash(after.clone()),
            "{before} {after}"
        );
    }
    let other = [
        json!({ "amiFamily": "Custom" }),
        json!({ "userData": "" }),
        json!({ "detailedMonitoring": false }),
        json!({ "tags": { "a": "1" } }),
        json!({ "networkInterfaces": [] }),
        root("20Gi", json!({})),
        root("21Gi", json!({})),
        reserved("100m"),
    ];
    let mut seen = BTreeMap::from([(hash(json!({})), json!({}))]);
    for spec in other {
        assert_eq!(seen.insert(hash(spec.clone()), spec), None);
    }
    let class = node_class(json!({}));
    assert_ne!(static_hash(&class, "b3RoZXI="), static_hash(&class, "Y2EK"));
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.status.image_id = "ami-x86".into();
    claim
}

fn instance() -> InstanceFacts {
    InstanceFacts {
        security_groups: ["sg-1".to_owned(), "sg-2".to_owned()].into(),
        subnet: "subnet-a".to_owned(),
        reservation: None,
    }
}

fn judged(
    changes: Value,
    claim: &NodeClaim,
    instance: &InstanceFacts,
    group: Option<&str>,
) -> Result<Option<Drift>, DriftUnknown> {
    let class = node_class(changes);
    let types = types_of(&node_class(json!({})));
    drift(
        &class,
        group,
        claim,
        Some(instance),
        Some(named(&types, "m5.large")),
    )
}

#[test]
fn node_drifts_when_a_resolved_resource_changes() {
    let plain = |changes| judged(changes, &claim(), &instance(), None);
    assert_eq!(plain(json!({})), Ok(None));
    let newer = json!({ "status": { "amis": [{ "id": "ami-new", "requirements": [] }] } });
    assert_eq!(plain(newer), Ok(Some(Drift::Ami)));
    let fewer = json!({ "status": { "securityGroups": [{ "id": "sg-1" }] } });
    assert_eq!(plain(fewer), Ok(Some(Drift::SecurityGroup)));
    let moved = InstanceFacts {
        subnet: "subnet-z".to_owned(),
        ..instance()
    };
    assert_eq!(
        judged(json!({}), &claim(), &moved, None),
        Ok(Some(Drift::Subnet))
    );
    let reserved = InstanceFacts {
        reservation: Some("cr-1".to_owned()),
        ..instance()
    };
    let lost = judged(json!({}), &claim(), &reserved, None);
    assert_eq!(lost, Ok(Some(Drift::CapacityReservation)));
    let grouped = judged(json!({}), &claim(), &instance(), Some("pg-1"));
    assert_eq!(grouped, Ok(Some(Drift::PlacementGroup)));
}

#[test]
fn static_hashes_are_compared_first_and_only_with_equal_versions() {
    let hashes = |hash: &str, version: &str| json!({ "karpenter.k8s.aws/ec2nodeclass-hash": hash, "karpenter.k8s.aws/ec2nodeclass-hash-version": version });
    let of_class = json!({ "metadata": { "annotations": hashes("1", "whittle-v2") }, "status": { "securityGroups": [{ "id": "sg-9" }] } });
    for (hash, version, expected) in [
        ("2", "whittle-v2", Drift::NodeClass),
        ("2", "v6", Drift::SecurityGroup),
        ("1", "whittle-v2", Drift::SecurityGroup),
    ] {
        let mut claim = claim();
        claim.annotations = serde_json::from_value(hashes(hash, version)).unwrap();
        let found = judged(of_class.clone(), &claim, &instance(), None);
        assert_eq!(found, Ok(Some(expected)), "{hash} {version}");
    }
}

#[test]
fn drift_is_unknown_without_a_resolved_node_class() {
    for (changes, part) in [
        (json!({ "status": { "amis": [] } }), "no AMI"),
        (
            json!({ "status": { "securityGroups": [] } }),
            "no security groups",
        ),
        (json!({ "status": { "subnets": [] } }), "no subnets"),
    ] {
        let unknown = judged(changes, &claim(), &instance(), None).unwrap_err();
        assert!(unknown.to_string().contains(part), "{unknown}");
    }
    let unknown = judged(json!({}), &NodeClaim::default(), &instance(), None);
    assert!(matches!(unknown, Err(DriftUnknown::NoImage(_))));
}

#[test]
fn provider_id_names_its_instance() {
    assert_eq!(instance_of("aws:///us-east-1a/i-0123"), Some("i-0123"));
    for text in [
        "garbage",
        "aws:///i-0123",
        "aws:///us-east-1a/m-1",
        "kwok://a/i-1",
    ] {
        assert_eq!(instance_of(text), None, "{text}");
    }
}

#[test]
fn partially_described_instance_is_not_judged() {
    let class = node_class(json!({}));
    let types = types_of(&class);
    let mut claim = claim();
    claim.name = "default-a".into();
    claim
        .labels
        .insert("node.kubernetes.io/instance-type".into(), "m5.large".into());
    let described = |groups: &[&str]| Instance {
        id: "i-1".into(),
        state: InstanceState::Running,
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        zone_id: String::new(),
        capacity_type: CapacityType::OnDemand,
        image: String::new(),
        subnet: Some("subnet-a".into()),
        security_groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        reservation: None,
        private_dns: None,
        launched_at: None,
        tags: BTreeMap::new(),
        state_reason: None,
    };
    let judged = |claim: &NodeClaim, instance: Option<&Instance>| {
        drift_of_instance(&class, &types, claim, instance)
    };
    let drifted = |reason: &str| Ok(Some(reason.to_owned()));
    let unknown = Err(DriftUnknown::NoInstance("default-a".into()));
    assert_eq!(
        judged(&claim, Some(&described(&["sg-1", "sg-2"]))),
        Ok(None)
    );
    let other = described(&["sg-1"]);
    assert_eq!(judged(&claim, Some(&other)), drifted("SecurityGroupDrift"));
    assert_eq!(judged(&claim, Some(&described(&[]))), unknown);
    assert_eq!(judged(&claim, None), unknown);
    claim.status.image_id = "ami-old".into();
    assert_eq!(
        judged(&claim, None),
        drifted("AMIDrift"),
        "the objects show it"
    );
}
