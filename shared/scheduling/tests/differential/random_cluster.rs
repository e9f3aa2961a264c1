//! Small random clusters with a few NodePools, nodes and pods, over eight instance types in three zones.

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, NanosPerHour, NodePoolName, Offering, Resources,
    catalog::Overhead,
    labels,
    pod::{NodeSelectorTerm, Pod, PodAffinityTerm, PodShape, TopologySpread, WhenUnsatisfiable},
    requirement::{Requirement, Requirements},
    resources::NODES,
    selector::{LabelSelector, NodeSelectorRequirement, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode},
    taint::{Taint, TaintEffect, Toleration, TolerationOperator},
    volume::Storage,
};
use proptest::{prelude::*, sample::select, sample::subsequence};
use scheduling::{Effort, ExistingNode, Host, Input, Options, Pool};

const ZONES: [&str; 3] = ["a", "b", "c"];
const ARCHS: [&str; 2] = ["amd64", "arm64"];
const CAPACITY_TYPES: [CapacityType; 2] = [CapacityType::OnDemand, CapacityType::Spot];
const TEAM: &str = "example.com/team";

#[derive(Clone, Debug)]
pub(crate) struct RandomCluster {
    types: Vec<InstanceType>,
    pools: Vec<RandomPool>,
    nodes: Vec<RandomNode>,
    pods: Vec<Pod>,
}

#[derive(Clone, Debug)]
struct RandomPool {
    name: NodePoolName,
    team: Option<&'static str>,
    requirements: Vec<NodeSelectorRequirement>,
    taints: Vec<Taint>,
    limits: Resources,
}

#[derive(Clone, Debug)]
struct RandomNode {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    initialized: bool,
    available: Resources,
    pods: Vec<Pod>,
}

impl RandomCluster {
    /// Variant whose anti-affinity is by zone instead of by host.
    pub(crate) fn apart_by_zone(mut self) -> Self {
        let bound = self.nodes.iter_mut().flat_map(|node| &mut node.pods);
        for pod in self.pods.iter_mut().chain(bound) {
            for term in &mut pod.pod_anti_affinity.required {
                labels::ZONE.clone_into(&mut term.topology_key);
            }
        }
        self
    }

    /// Builds the input and passes it to `visit`.
    pub(crate) fn with_input<T>(&self, visit: impl FnOnce(&Input<'_>) -> T) -> T {
        let storage = Storage::default();
        let pools = self.pools.iter().map(|pool| Pool {
            name: &pool.name,
            labels: pool.labels(),
            requirements: &pool.requirements,
            taints: &pool.taints,
            types: &self.types,
            surcharge: NanosPerHour(0),
            weight: 0,
            remaining: pool.limits.clone(),
        });
        let nodes = self.nodes.iter().map(|node| ExistingNode {
            name: &node.name,
            hostname: &node.name,
            labels: &node.labels,
            taints: node.taints.iter().collect(),
            initialized: node.initialized,
            registered: true,
            cooling_down: false,
            available: node.available.clone(),
            daemon_requests: Resources::default(),
            pods: node.pods.iter().collect(),
            attach_limits: None,
            devices: Vec::new(),
        });
        let hosts = self.nodes.iter().map(|node| Host {
            name: &node.name,
            labels: &node.labels,
            taints: &node.taints,
            pods: node.pods.iter().collect(),
        });
        visit(&Input {
            options: Options {
                preference_policy: PreferencePolicy::Respect,
                min_values_policy: MinValuesPolicy::Strict,
                reserved: Some(ReservedOfferingMode::Strict),
                optimize: Optimize::Upstream,
                effort: Effort::Best,
                preference_worth: model::snapshot::Settings::preference_worth(),
                well_known_labels: &[],
                reservation_id_label: "",
            },
            pods: self.pods.iter().collect(),
            moved: Vec::new(),
            pools: pools.collect(),
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            daemons: Vec::new(),
            namespaces: &[],
            storage: &storage,
            devices: None,
        })
    }
}

impl RandomPool {
    fn labels(&self) -> BTreeMap<String, String> {
        let team = self.team.map(|team| (TEAM.to_owned(), team.to_owned()));
        let name = (labels::NODE_POOL.to_owned(), self.name.0.clone());
        team.into_iter().chain([name]).collect()
    }
}

pub(crate) fn cluster() -> impl Strategy<Value = RandomCluster> {
    let parts = (
        types(),
        prop::collection::vec(pool(), 1..4),
        prop::collection::vec(node(), 0..3),
        prop::collection::vec(pod(), 1..14),
    );
    parts.prop_map(|(types, mut pools, mut nodes, mut pods)| {
        for (at, pool) in pools.iter_mut().enumerate() {
            pool.name = NodePoolName(format!("pool-{at}"));
        }
        for (at, node) in nodes.iter_mut().enumerate() {
            node.name = format!("node-{at}");
            node.labels
                .insert(labels::HOSTNAME.to_owned(), node.name.clone());
            for (n, pod) in node.pods.iter_mut().enumerate() {
                name(pod, &format!("bound-{at}-{n}"));
                pod.node_name = Some(node.name.as_str().into());
            }
        }
        for (at, pod) in pods.iter_mut().enumerate() {
            name(pod, &format!("pod-{at:02}"));
        }
        RandomCluster {
            types,
            pools,
            nodes,
            pods,
        }
    })
}

fn name(pod: &mut Pod, name: &str) {
    pod.key.namespace = "default".to_owned();
    pod.key.name = name.to_owned();
    pod.uid = name.into();
}

/// One, two, four and eight cores of two architectures, with random sold-out offerings.
fn types() -> impl Strategy<Value = Vec<InstanceType>> {
    let offerings = ARCHS.len() * 4 * ZONES.len() * CAPACITY_TYPES.len();
    prop::collection::vec(prop::bool::weighted(0.8), offerings).prop_map(|available| {
        let mut available = available.into_iter().enumerate();
        let sizes = ARCHS
            .into_iter()
            .flat_map(|arch| [1, 2, 4, 8].map(|cores| (arch, cores)));
        let types = sizes.map(|(arch, cores): (&str, i64)| {
            let name = format!("{arch}.{cores}");
            let mut requirements = Requirements::default();
            let zones = ZONES.map(str::to_owned);
            requirements.add(Requirement::new(labels::ZONE, Operator::In, zones));
            let kinds = CAPACITY_TYPES.map(|kind| kind.to_string());
            requirements.add(Requirement::new(labels::CAPACITY_TYPE, Operator::In, kinds));
            for (key, value) in [(labels::INSTANCE_TYPE, name.as_str()), (labels::ARCH, arch)] {
                requirements.add(Requirement::new(key, Operator::In, [value.to_owned()]));
            }
            let places = ZONES
                .iter()
                .flat_map(|zone| CAPACITY_TYPES.map(|kind| (*zone, kind)));
            let offerings = places
                .zip(available.by_ref())
                .map(|((zone, kind), (n, available))| {
                    let discount = if kind == CapacityType::Spot { 3 } else { 1 };
                    Offering {
                        unpriced: false,
                        capacity_type: kind,
                        zone: zone.to_owned(),
                        zone_id: String::new(),
                        // All prices are distinct.
                        price: NanosPerHour(
                            cores * 30_000_000 / discount + i64::try_from(n).unwrap(),
                        ),
                        available,
                        reservation: None,
                        requirements: Requirements::default(),
                        capacity_override: None,
                        overhead_override: None,
                    }
                });
            let offerings = offerings.collect();
            InstanceType {
                ebs_attach_limit: None,
                devices: Vec::new(),
                name,
                requirements,
                capacity: [
                    ("cpu", cores * 1_000),
                    ("memory", cores * 2_000),
                    ("pods", 4),
                ]
                .into(),
                overhead: Overhead {
                    kube_reserved: [("cpu", 100)].into(),
                    ..Overhead::default()
                },
                offerings,
            }
        });
        types.collect()
    })
}

fn pool() -> impl Strategy<Value = RandomPool> {
    let zones = prop::option::weighted(0.3, subsequence(ZONES.to_vec(), 1..3));
    let archs = prop::option::weighted(0.3, select(ARCHS.to_vec()));
    let kinds = prop::option::weighted(0.4, select(vec!["spot", "on-demand"]));
    let team = prop::option::weighted(0.4, select(vec!["x", "y"]));
    let limits = prop::option::weighted(
        0.3,
        select(vec![("cpu", 6_000), (NODES, 2), ("memory", 9_000)]),
    );
    (zones, archs, kinds, team, taints(), limits).prop_map(
        |(zones, arch, kind, team, taints, limits)| {
            let requirement =
                |key, value: Option<&str>| value.map(|value| entry(key, Operator::In, &[value]));
            let zones = zones.map(|zones| entry(labels::ZONE, Operator::In, &zones));
            let requirements = [
                zones,
                requirement(labels::ARCH, arch),
                requirement(labels::CAPACITY_TYPE, kind),
            ];
            RandomPool {
                name: NodePoolName::from(""),
                team,
                requirements: requirements.into_iter().flatten().collect(),
                taints,
                limits: limits.map_or_else(Resources::default, |limit| [limit].into()),
            }
        },
    )
}

fn node() -> impl Strategy<Value = RandomNode> {
    let where_ = (select(ZONES.to_vec()), select(ARCHS.to_vec()));
    let pods = prop::collection::vec(pod(), 0..3);
    (where_, 0_i64..5_000, any::<bool>(), taints(), pods).prop_map(
        |((zone, arch), cpu, initialized, taints, pods)| {
            let labels = [(labels::ZONE, zone), (labels::ARCH, arch)];
            RandomNode {
                name: String::new(),
                labels: labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
                taints,
                initialized,
                available: [("cpu", cpu), ("memory", 2 * cpu), ("pods", 3)].into(),
                pods,
            }
        },
    )
}

fn taints() -> impl Strategy<Value = Vec<Taint>> {
    let taint = Taint {
        key: "dedicated".to_owned(),
        value: "x".to_owned(),
        effect: TaintEffect::NoSchedule,
    };
    prop::option::weighted(0.3, Just(taint)).prop_map(|taint| taint.into_iter().collect())
}

fn pod() -> impl Strategy<Value = Pod> {
    let amounts = (
        select(vec![100, 500, 900, 1_500, 3_000, 9_000]),
        0_i64..6_000,
    );
    let app = select(vec!["web", "db"]);
    (amounts, app, any::<bool>(), rules()).prop_map(|((cpu, memory), app, tolerates, rules)| {
        let shape = PodShape {
            labels: [("app".to_owned(), app.to_owned())].into(),
            requests: [("cpu", cpu), ("memory", memory), ("pods", 1)].into(),
            ..PodShape::default()
        };
        let mut pod = Pod {
            shape: shape.into(),
            ..Pod::default()
        };
        if tolerates {
            pod.tolerations.push(Toleration {
                key: "dedicated".to_owned(),
                operator: TolerationOperator::Exists,
                value: String::new(),
                effect: None,
                toleration_seconds: None,
            });
        }
        let selector = LabelSelector {
            match_labels: pod.labels.clone(),
            ..LabelSelector::default()
        };
        match rules {
            Rules::None => {}
            Rules::Selector(key, value) => {
                pod.node_selector.insert(key.to_owned(), value.to_owned());
            }
            Rules::Affinity(entry) => pod.node_affinity.required.push(NodeSelectorTerm {
                match_expressions: vec![entry],
                match_fields: Vec::new(),
            }),
            Rules::Alone => pod.pod_anti_affinity.required.push(PodAffinityTerm {
                topology_key: labels::HOSTNAME.to_owned(),
                selector: Some(selector),
                ..PodAffinityTerm::default()
            }),
            Rules::Spread(max_skew) => pod.topology_spread.push(TopologySpread {
                topology_key: labels::ZONE.to_owned(),
                max_skew,
                when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
                selector: Some(selector),
                min_domains: None,
                node_affinity_policy: None,
                node_taints_policy: None,
                match_label_keys: Vec::new(),
            }),
        }
        pod
    })
}

#[derive(Clone, Debug)]
enum Rules {
    None,
    Selector(&'static str, &'static str),
    Affinity(NodeSelectorRequirement),
    Alone,
    Spread(i32),
}

fn rules() -> impl Strategy<Value = Rules> {
    let selectors = vec![
        (labels::ZONE, "a"),
        (labels::ZONE, "b"),
        (labels::ARCH, "arm64"),
        (labels::CAPACITY_TYPE, "spot"),
        (labels::INSTANCE_TYPE, "amd64.4"),
        (TEAM, "x"),
        (TEAM, "nobody"),
    ];
    let entries = vec![
        entry(labels::ZONE, Operator::NotIn, &["a"]),
        entry(labels::ZONE, Operator::In, &["b", "c"]),
        entry(labels::ARCH, Operator::NotIn, &["arm64"]),
        entry(TEAM, Operator::Exists, &[]),
    ];
    prop_oneof![
        4 => Just(Rules::None),
        2 => select(selectors).prop_map(|(key, value)| Rules::Selector(key, value)),
        2 => select(entries).prop_map(Rules::Affinity),
        2 => Just(Rules::Alone),
        3 => (1..3).prop_map(Rules::Spread),
    ]
}

fn entry(key: &str, operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}
