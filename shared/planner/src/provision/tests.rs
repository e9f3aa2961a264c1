//! Provisioning of pending pods, end to end.

use std::{collections::BTreeMap, sync::Arc};

use jiff::SignedDuration;
use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, Resources,
    caps::Caps,
    catalog::Overhead,
    ledger::{Pause, PauseScope},
    plan::{BufferCapacity, Launch},
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
    snapshot::CapacityBuffer,
};

use super::*;
use crate::fixtures;

const FAMILY: &str = "karpenter.k8s.aws/instance-family";

fn one_of(key: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

fn kind(name: &str, cpu: i64, price: i64) -> InstanceType {
    let requirements = [
        ("node.kubernetes.io/instance-type", name),
        (FAMILY, "m5"),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("topology.kubernetes.io/zone", "a"),
    ];
    let requirements =
        requirements.map(|(key, value)| Requirement::new(key, Operator::In, [value.to_owned()]));
    let mut of_kind = Requirements::default();
    for requirement in requirements {
        of_kind.add(requirement);
    }
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements: of_kind,
        capacity: Resources::from([("cpu", cpu), ("pods", 20)]),
        overhead: Overhead::default(),
        offerings: vec![Offering {
            unpriced: false,
            capacity_type: CapacityType::OnDemand,
            zone: "a".to_owned(),
            zone_id: String::new(),
            price: NanosPerHour(price),
            available: true,
            reservation: None,
            requirements: Requirements::default(),
            capacity_override: None,
            overhead_override: None,
        }],
    }
}

/// A pending pod with this cpu request.
fn waiting(name: &str, cpu: i64) -> Pod {
    let mut pod = Pod {
        key: PodKey::new("default", name),
        unschedulable: true,
        ..Pod::default()
    };
    pod.requests = Resources::from([("cpu", cpu), ("pods", 1)]);
    pod
}

/// NodePools `default`, with two instance types and two teams, and `other`, an equal one of lower weight.
fn world(pods: Vec<Pod>) -> Snapshot {
    let mut snapshot = fixtures::snapshot();
    snapshot.settings.well_known_labels = vec![FAMILY.to_owned()];
    for (name, weight) in [("default", 2), ("other", 1)] {
        let mut pool = fixtures::pool(name, 0);
        pool.weight = weight;
        pool.template.requirements = vec![one_of("team", &["a", "b"])];
        snapshot.node_pools.push(pool);
        let types = Arc::new(vec![kind("small", 2_000, 100), kind("large", 8_000, 400)]);
        snapshot.instance_types.insert(name.into(), types);
    }
    snapshot.pods = pods;
    snapshot
}

fn launches(plan: &Plan) -> Vec<(&Launch, &str)> {
    let actions = plan.actions.iter();
    let launches =
        actions.filter_map(|planned| Some((planned.action.launch()?, planned.because.as_str())));
    launches.collect()
}

#[test]
fn node_gets_the_remaining_custom_labels() {
    let mut pod = waiting("web", 100);
    pod.node_selector = BTreeMap::from([
        ("team".to_owned(), "b".to_owned()),
        (FAMILY.to_owned(), "m5".to_owned()),
        ("topology.kubernetes.io/zone".to_owned(), "a".to_owned()),
    ]);
    let plan = provision(&world(vec![pod]), Share::WHOLE);
    let labels = &launches(&plan)[0].0.labels;
    assert_eq!(labels.get("team").map(String::as_str), Some("b"));
    let reported: Vec<&str> = labels.keys().map(String::as_str).collect();
    let others = [
        FAMILY,
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ];
    assert!(
        others.iter().all(|key| !reported.contains(key)),
        "{reported:?}"
    );
}

#[test]
fn sufficient_type_is_missing_for_availability_not_size() {
    let because = |cpu, available| {
        let mut snapshot = world(vec![waiting("web", cpu)]);
        for types in snapshot.instance_types.values_mut() {
            Arc::make_mut(types)[0].offerings[0].available = available;
        }
        let plan = provision(&snapshot, Share::WHOLE);
        let [(_, because)] = launches(&plan)[..] else {
            panic!("{plan:?}")
        };
        because.to_owned()
    };
    let sold_out = because(2_000, false);
    assert!(
        sold_out.contains("what is on offer (no small"),
        "{sold_out}"
    );
    let too_small = because(2_001, true);
    assert!(too_small.contains("2001m cpu (small"), "{too_small}");
}

#[test]
fn unplaced_pods_name_paused_and_capped_node_pools() {
    let reported = |change: fn(&mut Snapshot)| -> Vec<(Option<String>, bool)> {
        let mut snapshot = world(vec![waiting("huge", 9_000)]);
        change(&mut snapshot);
        let plan = provision(&snapshot, Share::WHOLE);
        let reasons = plan.unplaced[0].reasons.iter();
        let of_other = reasons
            .filter(|refusal| refusal.text.contains("pause") || refusal.text.contains("cap"));
        of_other
            .map(|refusal| {
                (
                    refusal.node_pool.as_ref().map(|pool| pool.0.clone()),
                    refusal.limited,
                )
            })
            .collect()
    };
    assert_eq!(reported(|_| {}), []);
    let paused = reported(|snapshot| {
        let now = snapshot.now;
        snapshot.pauses = vec![Pause {
            scope: PauseScope::NodePool("other".into()),
            owner: "ann".into(),
            level: PauseLevel::All,
            reason: "a release".into(),
            since: now,
            until: now + SignedDuration::from_hours(1),
        }];
    });
    assert_eq!(paused, [(Some("other".to_owned()), false)]);
    let capped = reported(|snapshot| {
        let annotations = &mut snapshot.node_pools[1].annotations;
        annotations.insert(Caps::ANNOTATION.to_owned(), "0".to_owned());
    });
    assert_eq!(capped, [(Some("other".to_owned()), true)]);
}

/// Adds CapacityBuffer `spare` of one pod.
fn with_buffer(mut snapshot: Snapshot, cpu: i64) -> Snapshot {
    snapshot.capacity_buffers = vec![CapacityBuffer {
        key: PodKey::new("default", "spare"),
        uid: "u".into(),
        pod: Some(Box::new(waiting("template", cpu))),
        replicas: Some(1),
        ..CapacityBuffer::default()
    }];
    let gates = &mut snapshot.settings.feature_gates;
    gates.insert("CapacityBuffer".to_owned(), true);
    snapshot
}

#[test]
fn buffer_has_room_once_existing_nodes_fit_its_pods() {
    let rooms = |snapshot: &Snapshot| provision(snapshot, Share::WHOLE).buffers;
    let key = PodKey::new("default", "spare");
    let mut snapshot = with_buffer(world(Vec::new()), 1_000);
    assert_eq!(
        rooms(&snapshot),
        [(key.clone(), BufferCapacity::Insufficient)].into()
    );
    let claim = fixtures::claim("a", &[]);
    let mut node = fixtures::node("n-1", &claim);
    let initialized = "karpenter.sh/initialized".to_owned();
    node.labels.insert(initialized, "true".to_owned());
    snapshot.nodes = vec![node];
    snapshot.node_claims = vec![claim];
    assert_eq!(rooms(&snapshot), [(key, BufferCapacity::Available)].into());
}

#[test]
fn virtual_pods_are_never_reported() {
    let snapshot = with_buffer(world(vec![waiting("web", 1_000)]), 1_000);
    let share = Share {
        pods: 0,
        ..Share::WHOLE
    };
    let plan = provision(&snapshot, share);
    let postponed = plan.postponed.iter().map(|pod| pod.key.name.as_str());
    assert_eq!(postponed.collect::<Vec<_>>(), ["web"]);
    assert_eq!(plan.buffers, BTreeMap::new());

    let mut closed = snapshot;
    closed.node_pools.clear();
    let plan = provision(&closed, Share::WHOLE);
    let refused = plan.unplaced.iter().map(|left| left.pod.key.name.as_str());
    assert_eq!(refused.collect::<Vec<_>>(), ["web"]);
}

#[test]
fn unplaced_pods_name_the_cap_on_all_node_pools() {
    let is_limited = |change: fn(&mut Snapshot)| {
        let mut snapshot = world(vec![waiting("web", 100)]);
        change(&mut snapshot);
        let plan = provision(&snapshot, Share::WHOLE);
        let [reason] = &plan.unplaced[0].reasons[..] else {
            panic!("{plan:?}")
        };
        reason.limited
    };
    assert!(is_limited(|snapshot| snapshot.caps.nodes = Some(0)));
    assert!(!is_limited(|snapshot| snapshot.node_pools.clear()));
}
