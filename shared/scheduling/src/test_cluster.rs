//! Fixture of unit tests: a small cluster with one NodePool, or several equal ones, and perhaps existing nodes.

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, NanosPerHour, NodePoolName, Offering, Resources,
    catalog::{Overhead, Reservation},
    devices::{Device, DeviceObjects},
    labels,
    pod::{Pod, PodAffinityTerm, PodShape},
    requirement::{Requirement, Requirements},
    selector::{LabelSelector, NodeSelectorRequirement, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy},
    taint::{Taint, TaintEffect, Toleration, TolerationOperator},
    volume::Storage,
};

use crate::{Effort, ExistingNode, Host, Input, Options, Pool, SolveResult, solve};

pub(crate) const ZONES: [&str; 2] = ["a", "b"];
pub(crate) const CENT: i64 = 10_000_000;

/// Cluster whose fields each test changes as it needs.
pub(crate) struct TestCluster {
    pub(crate) types: Vec<InstanceType>,
    pub(crate) pools: Vec<NodePoolName>,
    /// Requirements of every NodePool.
    pub(crate) requirements: Vec<NodeSelectorRequirement>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) limits: Resources,
    pub(crate) nodes: Vec<TestNode>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) daemons: Vec<Pod>,
    pub(crate) storage: Storage,
    pub(crate) devices: Option<DeviceObjects>,
    pub(crate) well_known_labels: Vec<String>,
    pub(crate) options: Options<'static>,
}

/// Existing node.
pub(crate) struct TestNode {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) available: Resources,
    pub(crate) daemon_requests: Resources,
    pub(crate) pods: Vec<Pod>,
    pub(crate) devices: Vec<Device>,
}

impl TestCluster {
    pub(crate) fn new(types: Vec<InstanceType>, pods: Vec<Pod>) -> Self {
        Self {
            types,
            pools: vec!["default".into()],
            requirements: Vec::new(),
            taints: Vec::new(),
            limits: Resources::default(),
            nodes: Vec::new(),
            pods,
            daemons: Vec::new(),
            storage: Storage::default(),
            devices: None,
            well_known_labels: Vec::new(),
            options: Options {
                preference_policy: PreferencePolicy::Respect,
                min_values_policy: MinValuesPolicy::Strict,
                reserved: None,
                optimize: Optimize::Upstream,
                effort: Effort::Best,
                preference_worth: model::snapshot::Settings::preference_worth(),
                well_known_labels: &[],
                reservation_id_label: "",
            },
        }
    }

    pub(crate) fn with_input<T>(&self, visit: impl FnOnce(&Input<'_>) -> T) -> T {
        let pools = self.pools.iter().map(|name| Pool {
            name,
            weight: 0,
            labels: [(labels::NODE_POOL.to_owned(), name.0.clone())].into(),
            requirements: &self.requirements,
            taints: &self.taints,
            types: &self.types,
            surcharge: NanosPerHour(0),
            remaining: self.limits.clone(),
        });
        let nodes = self.nodes.iter().map(|node| ExistingNode {
            name: &node.name,
            hostname: &node.name,
            labels: &node.labels,
            taints: node.taints.iter().collect(),
            initialized: true,
            registered: true,
            cooling_down: false,
            available: node.available.clone(),
            daemon_requests: node.daemon_requests.clone(),
            pods: node.pods.iter().collect(),
            attach_limits: None,
            devices: node.devices.iter().collect(),
        });
        let hosts = self.nodes.iter().map(|node| Host {
            name: &node.name,
            labels: &node.labels,
            taints: &node.taints,
            pods: node.pods.iter().collect(),
        });
        let mut options: Options<'_> = self.options.clone();
        options.well_known_labels = &self.well_known_labels;
        visit(&Input {
            options,
            pods: self.pods.iter().collect(),
            moved: Vec::new(),
            pools: pools.collect(),
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            daemons: self.daemons.iter().collect(),
            namespaces: &[],
            storage: &self.storage,
            devices: self.devices.as_ref(),
        })
    }

    pub(crate) fn solve(&self) -> SolveResult {
        self.with_input(solve)
    }
}

impl TestNode {
    /// Empty node in the first zone.
    pub(crate) fn new(name: &str, available: Resources) -> Self {
        let labels = [(labels::HOSTNAME, name), (labels::ZONE, ZONES[0])];
        Self {
            name: name.to_owned(),
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            taints: Vec::new(),
            available,
            daemon_requests: Resources::default(),
            pods: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// Binds a pod; `available` already excludes its requests.
    pub(crate) fn running(mut self, mut pod: Pod) -> Self {
        pod.node_name = Some(self.name.as_str().into());
        self.pods.push(pod);
        self
    }
}

/// Instance type with this many cores and gigabytes at this many cents per hour.
pub(crate) fn instance_type(name: &str, cores: i64, gigabytes: i64, cents: i64) -> InstanceType {
    let mut requirements = Requirements::default();
    for (key, values) in [
        (labels::INSTANCE_TYPE, vec![name]),
        (labels::ZONE, ZONES.to_vec()),
    ] {
        let values = values.into_iter().map(str::to_owned);
        requirements.add(Requirement::new(key, Operator::In, values));
    }
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements,
        capacity: [
            ("cpu", cores * 1_000),
            ("memory", gigabytes << 30),
            ("pods", 100),
        ]
        .into(),
        overhead: Overhead::default(),
        offerings: ZONES.map(|zone| offering(zone, cents)).to_vec(),
    }
}

/// On-demand offering.
pub(crate) fn offering(zone: &str, cents: i64) -> Offering {
    Offering {
        unpriced: false,
        capacity_type: CapacityType::OnDemand,
        zone: zone.to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(cents * CENT),
        available: true,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    }
}

/// Offering of a reservation with one instance, which costs next to nothing.
pub(crate) fn reserved(id: &str, zone: &str) -> Offering {
    Offering {
        capacity_type: CapacityType::Reserved,
        price: NanosPerHour(1),
        reservation: Some(Reservation {
            id: id.to_owned(),
            capacity: 1,
            is_full: false,
        }),
        ..offering(zone, 0)
    }
}

pub(crate) fn pods(name: &str, number: usize, millicores: i64, gigabytes: i64) -> Vec<Pod> {
    let made = (0..number).map(|n| {
        let shape = PodShape {
            labels: [("app".to_owned(), name.to_owned())].into(),
            requests: [
                ("cpu", millicores),
                ("memory", gigabytes << 30),
                ("pods", 1),
            ]
            .into(),
            ..PodShape::default()
        };
        let mut pod = Pod {
            shape: shape.into(),
            ..Pod::default()
        };
        pod.key.namespace = "default".to_owned();
        pod.key.name = format!("{name}-{n:03}");
        pod.uid = pod.key.name.as_str().into();
        pod
    });
    made.collect()
}

pub(crate) fn pod(name: &str, millicores: i64) -> Pod {
    pods(name, 1, millicores, 0).remove(0)
}

pub(crate) fn selecting(app: &str) -> LabelSelector {
    LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        ..LabelSelector::default()
    }
}

/// Affinity or anti-affinity term for the pods of an application.
pub(crate) fn near(app: &str, key: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: Some(selecting(app)),
        ..PodAffinityTerm::default()
    }
}

/// Entry of a node selector term or of a NodePool's requirements.
pub(crate) fn wanting(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

pub(crate) fn taint(effect: TaintEffect) -> Taint {
    Taint {
        key: "dedicated".to_owned(),
        value: String::new(),
        effect,
    }
}

/// Toleration of every taint.
pub(crate) fn toleration() -> Toleration {
    Toleration {
        key: String::new(),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: None,
        toleration_seconds: None,
    }
}
