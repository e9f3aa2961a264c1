//! Small clusters: nodes with pods, one NodePool with nodes in the first two zones, and the resulting placements.

use std::collections::BTreeMap;

use model::{
    NanosPerHour, NodePoolName, Resources, labels,
    pod::{Pod, PodAffinityTerm, TopologySpread, WhenUnsatisfiable},
    selector::{LabelSelector, NodeSelectorRequirement, Operator},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy},
    taint::Taint,
    volume::Storage,
};
use scheduling::{Effort, ExistingNode, Host, Input, Options, Pool, SolveResult, solve};

use super::{ZONES, asking, instance_types};

pub(crate) struct Cluster {
    pub(crate) nodes: Vec<ClusterNode>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) types: Vec<model::InstanceType>,
    pub(crate) requirements: Vec<NodeSelectorRequirement>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) limits: Resources,
    pub(crate) daemons: Vec<Pod>,
    pub(crate) storage: Storage,
    pub(crate) options: Options<'static>,
}

pub(crate) struct ClusterNode {
    name: String,
    labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    free: i64,
    pub(crate) pods: Vec<Pod>,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            pods: Vec::new(),
            types: instance_types(),
            requirements: vec![entry(labels::ZONE, &ZONES[..2])],
            taints: Vec::new(),
            limits: Resources::default(),
            daemons: Vec::new(),
            storage: Storage::default(),
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

    /// Adds a node with this many free millicores, and its pods.
    pub(crate) fn node(mut self, labels: &[(&str, &str)], free: i64, pods: Vec<Pod>) -> Self {
        let name = format!("n-{:02}", self.nodes.len());
        let mut all: BTreeMap<String, String> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        all.insert(labels::HOSTNAME.to_owned(), name.clone());
        let pods = pods.into_iter().enumerate().map(|(at, mut pod)| {
            pod.key.name = format!("{name}-{at}");
            pod.node_name = Some(name.as_str().into());
            pod
        });
        self.nodes.push(ClusterNode {
            pods: pods.collect(),
            labels: all,
            taints: Vec::new(),
            free,
            name,
        });
        self
    }

    /// Adds a pod to place.
    pub(crate) fn pod(mut self, mut pod: Pod) -> Self {
        pod.key.name = format!("pod-{:02}", self.pods.len());
        pod.uid = pod.key.name.as_str().into();
        self.pods.push(pod);
        self
    }

    pub(crate) fn with_input<T>(&self, visit: impl FnOnce(&Input<'_>) -> T) -> T {
        let name = NodePoolName::from("default");
        let nodes = self.nodes.iter().map(|node| ExistingNode {
            name: &node.name,
            hostname: &node.name,
            labels: &node.labels,
            taints: node.taints.iter().collect(),
            initialized: true,
            registered: true,
            cooling_down: false,
            available: [("cpu", node.free), ("pods", 20)].into(),
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
            options: self.options.clone(),
            pods: self.pods.iter().collect(),
            moved: Vec::new(),
            pools: vec![Pool {
                name: &name,
                labels: BTreeMap::from([(labels::NODE_POOL.to_owned(), name.0.clone())]),
                requirements: &self.requirements,
                taints: &self.taints,
                types: &self.types,
                surcharge: NanosPerHour(0),
                weight: 0,
                remaining: self.limits.clone(),
            }],
            nodes: nodes.collect(),
            hosts: hosts.collect(),
            daemons: self.daemons.iter().collect(),
            namespaces: &[],
            storage: &self.storage,
            devices: None,
        })
    }

    pub(crate) fn result(&self) -> SolveResult {
        self.with_input(solve)
    }

    /// Place of each pod: the name of its node, the number of its new node, or none.
    pub(crate) fn places(&self) -> Vec<String> {
        self.places_in(&self.result(), self.pods.len())
    }

    pub(crate) fn places_in(&self, result: &SolveResult, pods: usize) -> Vec<String> {
        let place = |pod: usize| {
            let existing = result.existing.iter();
            let existing = existing.map(|(at, pods)| (self.nodes[*at].name.clone(), pods));
            let new = result.new_nodes.iter().enumerate();
            let new = new.map(|(at, node)| (format!("new-{at}"), &node.pods));
            let place = existing.chain(new).find(|(_, pods)| pods.contains(&pod));
            place.map_or("nowhere".to_owned(), |(name, _)| name)
        };
        (0..pods).map(place).collect()
    }
}

pub(crate) fn entry(key: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

/// Pod of an application.
pub(crate) fn app(name: &str, millicores: i64) -> Pod {
    let mut pod = asking([("cpu", millicores), ("pods", 1)].into());
    pod.labels.insert("app".to_owned(), name.to_owned());
    pod.key.namespace = "default".to_owned();
    pod
}

pub(crate) fn in_zone(zone: &str, mut pod: Pod) -> Pod {
    pod.node_selector
        .insert(labels::ZONE.to_owned(), zone.to_owned());
    pod
}

fn selecting(app: &str) -> LabelSelector {
    LabelSelector {
        match_labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
        ..LabelSelector::default()
    }
}

pub(crate) fn term(key: &str, app: &str) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: key.to_owned(),
        selector: Some(selecting(app)),
        ..PodAffinityTerm::default()
    }
}

/// Spread with a skew of one over the pods of an application.
pub(crate) fn spread(key: &str, app: &str) -> TopologySpread {
    TopologySpread {
        topology_key: key.to_owned(),
        max_skew: 1,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        selector: Some(selecting(app)),
        min_domains: None,
        node_affinity_policy: None,
        node_taints_policy: None,
        match_label_keys: Vec::new(),
    }
}
