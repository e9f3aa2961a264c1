use std::{collections::BTreeMap, sync::Arc};

use model::{
    resources::Resources,
    taint::{Taint, TaintEffect},
};

use super::pod_info::{PodInfo, effect, quantities};
use crate::{json, store::Object};

/// Node attributes that the scheduler reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) is_cordoned: bool,
    pub(crate) allocatable: Resources,
}

/// Node with the pods and resources on it.
#[derive(Clone, Debug)]
pub(super) struct NodeState {
    pub(super) info: NodeInfo,
    pub(super) used: Resources,
    pub(super) pods: Vec<Arc<PodInfo>>,
    /// Volumes attached and attachable, by CSI driver.
    pub(super) volumes: BTreeMap<String, VolumeUse>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct VolumeUse {
    pub(super) limit: Option<i64>,
    pub(super) used: i64,
}

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

impl NodeInfo {
    pub(crate) fn of(node: &Object) -> Self {
        let value = node.value();
        let is_cordoned = json::flag(value, &["spec", "unschedulable"]);
        let mut taints: Vec<Taint> = json::items(value, &["spec", "taints"])
            .iter()
            .filter_map(|taint| {
                Some(Taint {
                    key: json::text(taint, &["key"]).to_owned(),
                    value: json::text(taint, &["value"]).to_owned(),
                    effect: effect(json::text(taint, &["effect"]))?,
                })
            })
            .collect();
        if is_cordoned && !taints.iter().any(|taint| taint.key == UNSCHEDULABLE) {
            taints.push(Taint {
                key: UNSCHEDULABLE.to_owned(),
                value: String::new(),
                effect: TaintEffect::NoSchedule,
            });
        }
        Self {
            name: node.name().to_owned(),
            labels: node.labels().clone(),
            taints,
            is_cordoned,
            allocatable: quantities(json::at(value, &["status", "allocatable"])),
        }
    }
}

impl NodeState {
    pub(super) fn new(info: NodeInfo) -> Self {
        Self {
            info,
            used: Resources::default(),
            pods: Vec::new(),
            volumes: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, pod: Arc<PodInfo>) {
        self.used.add(&pod.requests);
        self.pods.push(pod);
    }

    /// Names of the resources that the node lacks for a pod.
    pub(super) fn missing<'p>(&self, pod: &'p PodInfo) -> Vec<&'p str> {
        pod.requests
            .iter()
            .filter(|(name, amount)| {
                *amount > 0
                    && amount.saturating_add(self.used.get(name)) > self.info.allocatable.get(name)
            })
            .map(|(name, _)| name)
            .collect()
    }

    /// Sum of the free shares of CPU and memory after placing a pod, in permille each: emptier nodes score higher.
    pub(super) fn spare_permille(&self, pod: &PodInfo) -> i64 {
        ["cpu", "memory"]
            .iter()
            .map(|name| {
                let total = self.info.allocatable.get(name);
                let free = total - self.used.get(name) - pod.requests.get(name);
                i64::try_from(i128::from(free) * 1000 / i128::from(total.max(1))).unwrap_or(0)
            })
            .sum()
    }
}
