//! Small clusters of four node sizes, and the plans for them.

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, NanosPerHour, NodePoolName, Offering, Resources,
    catalog::Overhead,
    labels,
    pod::{Pod, PodShape},
    requirement::{Requirement, Requirements},
    selector::{LabelSelector, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy},
    volume::Storage,
};

use super::super::{
    RearrangeRequest, RemovableNode, ReplacementGroup, cluster_model::ClusterModel,
};
use crate::{
    BaselineCluster, Effort, ExistingNode, Host, Input, Options, Pool, SimulatedRemoval,
    SolveResult,
    test_cluster::{offering, selecting},
};

pub(super) use crate::test_cluster::CENT;

pub(super) const ZONES: [&str; 3] = ["a", "b", "c"];
/// Name, cores and cents per hour. Larger nodes are cheaper per core.
pub(super) const SIZES: [(&str, i64, i64); 4] =
    [("xs", 1, 6), ("s", 2, 10), ("m", 4, 19), ("l", 8, 36)];

pub(in super::super) struct SmallCluster {
    pub(super) types: Vec<InstanceType>,
    /// Names and weights, in descending order of weight. All nodes are of the first.
    pub(super) pools: Vec<(NodePoolName, i32)>,
    pub(super) nodes: Vec<SmallNode>,
    pub(super) pods: Vec<Pod>,
}

pub(super) struct SmallNode {
    pub(super) name: String,
    pub(super) cores: i64,
    pub(super) cents: i64,
    pub(super) is_spot: bool,
    pub(super) cooling_down: bool,
    pub(super) labels: BTreeMap<String, String>,
}

impl SmallCluster {
    pub(in super::super) fn new() -> Self {
        Self {
            types: SIZES
                .map(|(name, cores, cents)| {
                    instance_type(name, cores, cents, CapacityType::OnDemand)
                })
                .into(),
            pools: vec![("default".into(), 0)],
            nodes: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// Adds a node of a type, with one pod per request in millicores.
    pub(in super::super) fn node(mut self, kind: &str, zone: &str, pods: &[i64]) -> Self {
        let (_, cores, cents) = SIZES.into_iter().find(|known| known.0 == kind).unwrap();
        let name = format!("n-{}", self.nodes.len());
        let labels = [
            (labels::HOSTNAME, name.as_str()),
            (labels::ZONE, zone),
            (labels::INSTANCE_TYPE, kind),
            (labels::CAPACITY_TYPE, "on-demand"),
            (labels::NODE_POOL, "default"),
        ];
        for millicores in pods {
            let shape = PodShape {
                labels: [("app".to_owned(), "web".to_owned())].into(),
                requests: [("cpu", *millicores), ("pods", 1)].into(),
                ..PodShape::default()
            };
            let mut pod = Pod {
                shape: shape.into(),
                node_name: Some(name.as_str().into()),
                ..Pod::default()
            };
            pod.key.namespace = "default".to_owned();
            pod.key.name = format!("p-{:03}", self.pods.len());
            pod.uid = pod.key.name.as_str().into();
            self.pods.push(pod);
        }
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.nodes.push(SmallNode {
            name,
            cores,
            cents,
            is_spot: false,
            cooling_down: false,
            labels: labels.into(),
        });
        self
    }

    pub(super) fn with(mut self, change: impl Fn(&mut PodShape)) -> Self {
        for pod in &mut self.pods {
            let mut shape = PodShape::clone(&pod.shape);
            change(&mut shape);
            pod.shape = shape.into();
        }
        self
    }

    pub(super) fn on(&self, node: usize) -> impl Iterator<Item = usize> {
        let name = self.nodes[node].name.clone();
        let pods = self.pods.iter().enumerate();
        let own = pods.filter(move |(_, pod)| pod.node_name.as_ref().unwrap().0 == name);
        own.map(|(at, _)| at).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn candidates(&self) -> Vec<RemovableNode> {
        let nodes = self.nodes.iter().enumerate();
        let candidates = nodes.map(|(at, node)| RemovableNode {
            node: at,
            pods: self.on(at).collect(),
            price: NanosPerHour(node.cents * CENT),
            instance_type: node.labels[labels::INSTANCE_TYPE].as_str().into(),
            disturbance: NanosPerHour(0),
            least_saving: NanosPerHour(0),
            is_spot: node.is_spot,
            budget: 0,
        });
        candidates.collect()
    }

    pub(super) fn with_baseline<T>(&self, visit: impl FnOnce(&BaselineCluster<'_>) -> T) -> T {
        let storage = Storage::default();
        let nodes = self.nodes.iter().enumerate().map(|(at, node)| {
            let own = self.on(at).map(|pod| &self.pods[pod]);
            let own: Vec<&Pod> = own.collect();
            let used: i64 = own.iter().map(|pod| pod.shape.requests.get("cpu")).sum();
            let count = i64::try_from(own.len()).unwrap();
            ExistingNode {
                name: &node.name,
                hostname: &node.name,
                labels: &node.labels,
                taints: Vec::new(),
                initialized: true,
                registered: true,
                cooling_down: node.cooling_down,
                available: [("cpu", node.cores * 1_000 - used), ("pods", 100 - count)].into(),
                daemon_requests: Resources::default(),
                pods: own,
                attach_limits: None,
                devices: Vec::new(),
            }
        });
        let hosts = self.nodes.iter().enumerate().map(|(at, node)| Host {
            name: &node.name,
            labels: &node.labels,
            taints: &[],
            pods: self.on(at).map(|pod| &self.pods[pod]).collect(),
        });
        let pools = self.pools.iter().map(|(name, weight)| Pool {
            name,
            weight: *weight,
            labels: [(labels::NODE_POOL.to_owned(), name.0.clone())].into(),
            requirements: &[],
            taints: &[],
            types: &self.types,
            surcharge: NanosPerHour(0),
            remaining: Resources::default(),
        });
        let input = Input {
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
            pods: self.pods.iter().collect(),
            moved: Vec::new(),
            pools: pools.collect(),
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            daemons: Vec::new(),
            namespaces: &[],
            storage: &storage,
            devices: None,
        };
        visit(&BaselineCluster::new(input, 0, None))
    }

    pub(in super::super) fn with_model<T>(&self, visit: impl FnOnce(&ClusterModel) -> T) -> T {
        let candidates = self.candidates();
        self.with_baseline(|baseline| {
            visit(&ClusterModel::new(&mut baseline.solver(), &candidates).unwrap())
        })
    }

    pub(super) fn planned<'q>(
        &self,
        change: impl Fn(&mut Vec<RemovableNode>, &mut RearrangeRequest<'q>),
    ) -> Vec<ReplacementGroup> {
        let plans = self.plans(&[0], change);
        plans.into_iter().next().unwrap_or_default()
    }

    /// Plans at these prices per eviction, in cents.
    pub(super) fn plans<'q>(
        &self,
        cents: &[i64],
        change: impl Fn(&mut Vec<RemovableNode>, &mut RearrangeRequest<'q>),
    ) -> Vec<Vec<ReplacementGroup>> {
        let mut candidates = self.candidates();
        let mut request = RearrangeRequest {
            removable: &[],
            together_max: &[usize::MAX],
            replacements_max: 3,
            spot_to_spot: false,
            attempts: 4_000,
        };
        change(&mut candidates, &mut request);
        let request = RearrangeRequest {
            removable: &candidates,
            ..request
        };
        let mut prices = cents.iter().map(|cents| NanosPerHour(cents * CENT));
        let (first, mut plans) = (prices.next().unwrap(), Vec::new());
        self.with_baseline(|baseline| {
            baseline.rearrange(&request, first, |plan| {
                plans.push(plan);
                prices.next()
            });
        });
        plans
    }

    /// Result of the scheduler when the nodes of a group are removed.
    pub(super) fn solve_removal(&self, group: &ReplacementGroup) -> SolveResult {
        let pods: Vec<usize> = group.removed.iter().flat_map(|at| self.on(*at)).collect();
        self.with_baseline(|baseline| {
            baseline.without(&SimulatedRemoval {
                pods: &pods,
                moved: &vec![true; pods.len()],
                nodes: &group.removed.iter().copied().collect(),
                remaining: vec![Resources::default(); self.pools.len()],
                wanted: &group.wanted,
            })
        })
    }

    pub(super) fn saved(&self, group: &ReplacementGroup) -> i64 {
        let before: i64 = group.removed.iter().map(|at| self.nodes[*at].cents).sum();
        let new = self.solve_removal(group).new_nodes;
        before - new.iter().map(|node| node.choices[0].price.0).sum::<i64>() / CENT
    }
}

pub(super) fn instance_type(
    name: &str,
    cores: i64,
    cents: i64,
    capacity_type: CapacityType,
) -> InstanceType {
    let mut requirements = Requirements::default();
    for (key, values) in [
        (labels::INSTANCE_TYPE, vec![name]),
        (labels::ZONE, ZONES.to_vec()),
        (labels::CAPACITY_TYPE, vec![capacity_type.as_str()]),
    ] {
        let values = values.into_iter().map(str::to_owned);
        requirements.add(Requirement::new(key, Operator::In, values));
    }
    let offerings = ZONES.map(|zone| Offering {
        capacity_type,
        ..offering(zone, cents)
    });
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements,
        capacity: [("cpu", cores * 1_000), ("pods", 100)].into(),
        overhead: Overhead::default(),
        offerings: offerings.to_vec(),
    }
}

pub(super) fn selecting_web() -> LabelSelector {
    selecting("web")
}
