//! A small cluster with a valid plan that exercises every rule.

mod plan;
mod pods;

pub(crate) use plan::*;
pub(crate) use pods::*;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, PodKey, Resources, Snapshot,
    catalog::{Overhead, Reservation},
    labels::{CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, NODE_POOL, REGISTERED, ZONE},
    node::{ConditionStatus, Node, Ready},
    node_claim::{Condition, NodeClaim, NodeClassRef},
    node_pool::{Budget, NodePool},
    pod::PodVolume,
    requirement::Requirements,
    selector::{NodeSelectorRequirement, Operator},
    snapshot::{
        DaemonSet, MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings,
    },
    volume::{Storage, Volume, VolumeClaim},
};

pub(crate) const GIB: i64 = 1 << 30;
pub(crate) const RESERVATION_LABEL: &str = "karpenter.k8s.aws/capacity-reservation-id";
pub(crate) const FAMILY: &str = "karpenter.k8s.aws/instance-family";
pub(crate) const EBS: &str = "ebs.csi.aws.com";

pub(crate) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub(crate) fn hours_ago(hours: i64) -> Timestamp {
    now() - SignedDuration::from_hours(hours)
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn wants(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.into(),
        operator,
        values: strings(values),
        min_values: None,
    }
}

pub(crate) fn one_of(key: &str, values: &[&str]) -> NodeSelectorRequirement {
    wants(key, Operator::In, values)
}

/// Instance type `family.size` with this many cores, twice as many GiB, and ten cents per core and hour; spot costs
/// half.
pub(crate) fn instance_type(name: &str, cores: i64) -> InstanceType {
    let family = name.split('.').next().unwrap();
    let known = [
        one_of(INSTANCE_TYPE, &[name]),
        one_of(FAMILY, &[family]),
        one_of(ZONE, &["a", "b", "c"]),
        one_of(CAPACITY_TYPE, &["spot", "on-demand", "reserved"]),
        one_of("kubernetes.io/arch", &["amd64"]),
    ];
    let mut offerings = Vec::new();
    for zone in ["a", "b", "c"] {
        for capacity_type in [CapacityType::Spot, CapacityType::OnDemand] {
            let price = cores
                * if capacity_type == CapacityType::Spot {
                    50_000_000
                } else {
                    100_000_000
                };
            offerings.push(offering(capacity_type, zone, price, None));
        }
    }
    if name == "m.large" {
        let reservation = Reservation {
            id: "cr-1".into(),
            capacity: 1,
            is_full: false,
        };
        offerings.push(offering(
            CapacityType::Reserved,
            "a",
            1_000,
            Some(reservation),
        ));
    }
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.into(),
        requirements: Requirements::from_selector(&known),
        capacity: Resources::from([
            ("cpu", cores * 1_000),
            ("memory", cores * 2 * GIB),
            ("pods", 20),
        ]),
        overhead: Overhead {
            kube_reserved: Resources::from([("cpu", 100)]),
            ..Overhead::default()
        },
        offerings,
    }
}

fn offering(
    capacity_type: CapacityType,
    zone: &str,
    price: i64,
    reservation: Option<Reservation>,
) -> Offering {
    Offering {
        unpriced: false,
        capacity_type,
        zone: zone.into(),
        zone_id: String::new(),
        price: NanosPerHour(price),
        available: true,
        reservation,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    }
}

pub(crate) fn node_pool(name: &str) -> NodePool {
    let mut pool = NodePool {
        name: name.into(),
        uid: format!("{name}-uid").into(),
        ..NodePool::default()
    };
    pool.template.node_class = NodeClassRef {
        group: "karpenter.k8s.aws".into(),
        kind: "EC2NodeClass".into(),
        name: "default".into(),
    };
    pool.template.requirements = vec![one_of("kubernetes.io/arch", &["amd64"])];
    pool.disruption.budgets = vec![Budget {
        nodes: "2".into(),
        ..Budget::default()
    }];
    pool
}

fn condition(kind: &str) -> Condition {
    Condition {
        kind: kind.into(),
        status: ConditionStatus::True,
        reason: kind.into(),
        message: String::new(),
        last_transition: hours_ago(2),
        observed_generation: None,
    }
}

/// Adds a ready `m.large` node of NodePool `default` in this zone, with its NodeClaim.
pub(crate) fn add_node(snapshot: &mut Snapshot, name: &str, zone: &str) {
    let provider_id = format!("aws:///{zone}/i-{name}");
    let of_type = instance_type("m.large", 8);
    let labels = labels(&[
        (NODE_POOL, "default"),
        (ZONE, zone),
        (INSTANCE_TYPE, "m.large"),
        (FAMILY, "m"),
        (CAPACITY_TYPE, "on-demand"),
        ("kubernetes.io/arch", "amd64"),
        (REGISTERED, "true"),
        (INITIALIZED, "true"),
    ]);
    snapshot.nodes.push(Node {
        name: name.into(),
        uid: format!("{name}-uid").into(),
        provider_id: provider_id.clone(),
        labels: labels.clone(),
        capacity: of_type.capacity.clone(),
        allocatable: of_type.allocatable(),
        ready: Ready {
            status: ConditionStatus::True,
            since: Some(hours_ago(2)),
        },
        ..Node::default()
    });
    let mut claim = NodeClaim {
        name: format!("claim-{name}").as_str().into(),
        uid: format!("claim-{name}-uid").into(),
        resource_version: "1".into(),
        labels,
        created_at: Some(hours_ago(3)),
        ..NodeClaim::default()
    };
    claim.spec.expire_after = Some("720h".into());
    claim.status.provider_id = provider_id;
    claim.status.node_name = Some(name.into());
    claim.status.conditions = ["Launched", "Registered", "Initialized", "Consolidatable"]
        .map(condition)
        .into();
    snapshot.node_claims.push(claim);
    snapshot.pods.push(owned_by_daemon_set(running(
        &format!("logs-{name}"),
        100,
        name,
    )));
}

pub(crate) fn settings() -> Settings {
    Settings {
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        reserved_offering_mode: ReservedOfferingMode::Strict,
        optimize: Optimize::Cost,
        feature_gates: BTreeMap::new(),
        well_known_labels: vec![FAMILY.into(), RESERVATION_LABEL.into()],
        restricted_domains: Vec::new(),
        reservation_id_label: RESERVATION_LABEL.into(),
        preference_worth: Settings::preference_worth(),
        node_price: NanosPerHour(0),
        default_topology_spread: Vec::new(),
        registration_timeout: None,
        legacy_node_repair: false,
        device_claims: false,
    }
}

/// A cluster with four nodes: `n-1` in zone a and `n-2` in zone b run pods, `n-3` is being drained, `n-4` is empty.
pub(crate) fn snapshot() -> Snapshot {
    let types = Arc::new(vec![
        instance_type("c.medium", 4),
        instance_type("c.large", 8),
        instance_type("m.medium", 4),
        instance_type("m.large", 8),
    ]);
    let mut default = node_pool("default");
    default.limits = Resources::from([("cpu", 120_000), ("nodes", 30)]);
    let mut dedicated = node_pool("dedicated");
    dedicated.template.taints = vec![taint("dedicated")];
    dedicated.template.labels = labels(&[("team", "a")]);
    let mut diverse = node_pool("diverse");
    diverse.template.requirements.push(NodeSelectorRequirement {
        min_values: Some(2),
        ..wants(FAMILY, Operator::Exists, &[])
    });
    let node_pools = vec![default, dedicated, diverse];
    let mut snapshot = Snapshot {
        generation: 1,
        instance_types: node_pools
            .iter()
            .map(|pool| (pool.name.clone(), Arc::clone(&types)))
            .collect(),
        node_pools,
        daemon_sets: vec![DaemonSet {
            key: PodKey::new("default", "logs"),
            pod: owned_by_daemon_set(but(pending("logs-template", 100), |pod| {
                pod.tolerations = vec![tolerates("")];
            })),
        }],
        storage: storage(),
        ..Snapshot::empty("demo".into(), now(), settings())
    };
    for (name, zone) in [("n-1", "a"), ("n-2", "b"), ("n-3", "c"), ("n-4", "c")] {
        add_node(&mut snapshot, name, zone);
    }
    drain(&mut snapshot, "claim-n-3");
    add_pods(&mut snapshot);
    snapshot
}

fn drain(snapshot: &mut Snapshot, claim: &str) {
    let claim = snapshot
        .node_claims
        .iter_mut()
        .find(|node_claim| node_claim.name.as_str() == claim)
        .unwrap();
    claim.deleted_at = Some(now());
    claim.finalizers = vec!["karpenter.sh/termination".into()];
    claim.annotations = labels(&[(
        "karpenter.sh/nodeclaim-termination-timestamp",
        "2026-01-01T12:00:30Z",
    )]);
}

fn storage() -> Storage {
    let claim = |name: &str, volume: &str| VolumeClaim {
        namespace: "default".into(),
        name: name.into(),
        volume: Some(volume.into()),
        bind_completed: true,
        ..VolumeClaim::default()
    };
    let volume = |name: &str, zone: &str| Volume {
        name: name.into(),
        driver: Some(EBS.into()),
        node_affinity: vec![model::pod::NodeSelectorTerm {
            match_expressions: vec![one_of(ZONE, &[zone])],
            match_fields: Vec::new(),
        }],
        ..Volume::default()
    };
    Storage {
        claims: vec![
            claim("data-web", "pv-web"),
            claim("data-db", "pv-db"),
            claim("data-small", "pv-small"),
        ],
        volumes: vec![
            volume("pv-web", "a"),
            volume("pv-db", "b"),
            volume("pv-small", "a"),
        ],
        attach_limits: BTreeMap::from([("n-1".into(), BTreeMap::from([(EBS.to_owned(), 2)]))]),
        ..Storage::default()
    }
}

fn claims(name: &str) -> Vec<PodVolume> {
    vec![PodVolume::Claim { claim: name.into() }]
}
