use model::{
    CapacityType, Resources,
    plan::ExpectedOffering,
    taint::{Taint, TaintEffect},
};

use super::*;
use crate::fixtures;

/// Launch for pod `web` with every field that a node copies.
fn launch() -> Launch {
    let mut launch = fixtures::intent("new").launch;
    launch.labels = [("team".to_owned(), "a".to_owned())].into();
    launch
        .labels
        .insert(labels::NODE_POOL.to_owned(), "default".to_owned());
    launch.annotations = [("note".to_owned(), "mine".to_owned())].into();
    launch.spec.taints = vec![Taint {
        key: "gpu".to_owned(),
        value: String::new(),
        effect: TaintEffect::NoSchedule,
    }];
    launch.cheapest = ExpectedOffering {
        instance_type: "small".to_owned(),
        capacity_type: CapacityType::Spot,
        zone: "b".to_owned(),
        price: NanosPerHour(7),
        capacity: Resources::from([("cpu", 2_000)]),
    };
    launch
}

/// One instance type, offered by zone and capacity type.
fn snapshot() -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    let offering = |capacity_type, price| model::Offering {
        unpriced: false,
        capacity_type,
        zone: "b".to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(price),
        available: true,
        reservation: None,
        requirements: model::requirement::Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    let kind = |name: &str, cpu: i64, price: i64| InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements: model::requirement::Requirements::default(),
        capacity: Resources::from([("cpu", cpu)]),
        overhead: model::catalog::Overhead::default(),
        offerings: vec![
            offering(CapacityType::OnDemand, 2 * price),
            offering(CapacityType::Spot, price),
        ],
    };
    let types = vec![kind("large", 8_000, 70), kind("small", 2_000, 7)];
    snapshot
        .instance_types
        .insert("default".into(), std::sync::Arc::new(types));
    snapshot
}

#[test]
fn launch_becomes_a_ready_and_consolidatable_node() {
    let (mut snapshot, launch) = (snapshot(), launch());
    assert_eq!(join(&mut snapshot, &launch), "new".into());
    let now = snapshot.now;
    let cpu = Resources::from([("cpu", 2_000)]);
    let own = [
        (INSTANCE_TYPE, "small"),
        (ZONE, "b"),
        (CAPACITY_TYPE, "spot"),
    ];
    let own = own.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut labels: BTreeMap<String, String> = launch.labels.clone();
    labels.extend(own);
    let claim = NodeClaim {
        name: "new".into(),
        uid: "new".into(),
        labels: labels.clone(),
        annotations: launch.annotations.clone(),
        created_at: Some(now),
        spec: launch.spec.clone(),
        status: NodeClaimStatus {
            provider_id: "made-up:///new".to_owned(),
            node_name: Some("new".into()),
            capacity: cpu.clone(),
            allocatable: cpu.clone(),
            conditions: snapshot.node_claims[0].status.conditions.clone(),
            ..NodeClaimStatus::default()
        },
        ..NodeClaim::default()
    };
    for kind in [LAUNCHED, REGISTERED, INITIALIZED, READY, CONSOLIDATABLE] {
        assert!(claim.is_true(kind), "{kind}");
    }
    let of_node = [
        (HOSTNAME, "new"),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ];
    labels.extend(of_node.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let node = Node {
        name: "new".into(),
        uid: "new".into(),
        provider_id: "made-up:///new".to_owned(),
        labels,
        taints: launch.spec.taints.clone(),
        capacity: cpu.clone(),
        allocatable: cpu,
        ready: Ready {
            status: ConditionStatus::True,
            since: Some(now),
        },
        created_at: Some(now),
        ..Node::default()
    };
    assert_eq!(snapshot.node_claims, [claim]);
    assert_eq!(snapshot.nodes, [node]);
    assert_eq!(cost(&snapshot), NanosPerHour(7));
}
