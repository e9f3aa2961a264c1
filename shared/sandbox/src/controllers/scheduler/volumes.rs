use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    node_info::{NodeInfo, NodeState, VolumeUse},
    pod_info::PodInfo,
};
use crate::{
    controllers::{CLAIMS, CSI_NODES, Client, STORAGE_CLASSES, VOLUMES, volumes::provision},
    error::ApiResult,
    json,
    store::{Object, ObjectKey},
};

/// PersistentVolumeClaims, PersistentVolumes and StorageClasses during one run of the scheduler.
pub(super) struct Volumes {
    claims: BTreeMap<ObjectKey, Arc<Object>>,
    volumes: BTreeMap<String, Arc<Object>>,
    classes: BTreeMap<String, Arc<Object>>,
    csi_nodes: BTreeMap<String, Arc<Object>>,
}

/// Requirements of a pod's volumes on a node.
#[derive(Default)]
pub(super) struct VolumeRequirements {
    /// Existing volumes: each is reachable from nodes with one of these label sets.
    bound: Vec<Vec<BTreeMap<String, Vec<String>>>>,
    /// Volumes to provision: each on a node with one of these label sets; an empty list means any node.
    unbound: Vec<Vec<BTreeMap<String, Vec<String>>>>,
    /// Attachments needed, by CSI driver.
    attachments: BTreeMap<String, i64>,
}

impl Volumes {
    pub(super) fn of(client: &Client<'_>) -> Self {
        let by_name = |table| {
            let objects = client.all(table).into_iter();
            objects
                .map(|object| (object.name().to_owned(), object))
                .collect()
        };
        Self {
            claims: client
                .all(&CLAIMS)
                .into_iter()
                .map(|claim| (claim.key(), claim))
                .collect(),
            volumes: by_name(&VOLUMES),
            classes: by_name(&STORAGE_CLASSES),
            csi_nodes: by_name(&CSI_NODES),
        }
    }

    pub(super) fn set_limits(&self, nodes: &mut BTreeMap<String, NodeState>) {
        for (name, csi_node) in &self.csi_nodes {
            let Some(node) = nodes.get_mut(name) else {
                continue;
            };
            for driver in json::items(csi_node.value(), &["spec", "drivers"]) {
                let limit = json::integer(driver, &["allocatable", "count"]);
                let name = json::text(driver, &["name"]).to_owned();
                node.volumes.insert(name, VolumeUse { limit, used: 0 });
            }
        }
    }

    fn claim(&self, pod: &PodInfo, name: &str) -> Option<&Arc<Object>> {
        self.claims
            .get(&ObjectKey::new(pod.namespace.as_str(), name))
    }

    fn volume_of(&self, claim: &Object) -> Option<&Arc<Object>> {
        self.volumes
            .get(json::text(claim.value(), &["spec", "volumeName"]))
    }

    fn class_of(&self, claim: &Object) -> Option<&Arc<Object>> {
        self.classes
            .get(json::text(claim.value(), &["spec", "storageClassName"]))
    }

    fn driver(&self, claim: &Object) -> Option<String> {
        let bound = self
            .volume_of(claim)
            .map(|volume| json::text(volume.value(), &["spec", "csi", "driver"]));
        let class = || Some(json::text(self.class_of(claim)?.value(), &["provisioner"]));
        bound
            .or_else(class)
            .filter(|driver| !driver.is_empty())
            .map(str::to_owned)
    }

    /// Returns the requirements of a pod's claims, or the reason why no node can satisfy them.
    pub(super) fn demand(&self, pod: &PodInfo) -> Result<VolumeRequirements, String> {
        let mut demand = VolumeRequirements::default();
        for name in &pod.claims {
            let claim = self
                .claim(pod, name)
                .ok_or_else(|| format!("persistentvolumeclaim \"{name}\" not found"))?;
            if let Some(driver) = self.driver(claim) {
                *demand.attachments.entry(driver).or_default() += 1;
            }
            if let Some(volume) = self.volume_of(claim) {
                let path = ["spec", "nodeAffinity", "required", "nodeSelectorTerms"];
                let terms = json::items(volume.value(), &path);
                if !terms.is_empty() {
                    demand.bound.push(
                        terms
                            .iter()
                            .map(|t| labels(t, "matchExpressions"))
                            .collect(),
                    );
                }
                continue;
            }
            let class = self.class_of(claim);
            let waits = class.is_some_and(|class| {
                json::text(class.value(), &["volumeBindingMode"]) == "WaitForFirstConsumer"
            });
            if !waits {
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
            let topologies = class
                .map(|class| json::items(class.value(), &["allowedTopologies"]))
                .unwrap_or_default();
            if !topologies.is_empty() {
                let terms = topologies
                    .iter()
                    .map(|term| labels(term, "matchLabelExpressions"));
                demand.unbound.push(terms.collect());
            }
        }
        Ok(demand)
    }

    /// Counts a pod's attachments on its node.
    pub(super) fn occupy(&self, node: &mut NodeState, pod: &PodInfo) {
        for name in &pod.claims {
            let driver = self.claim(pod, name).and_then(|claim| self.driver(claim));
            if let Some(driver) = driver {
                node.volumes.entry(driver).or_default().used += 1;
            }
        }
    }

    /// Provisions the volumes with `WaitForFirstConsumer` where the pod will run.
    pub(super) fn bind(
        &mut self,
        client: &mut Client<'_>,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> ApiResult<()> {
        for name in &pod.claims {
            let Some(claim) = self.claim(pod, name).cloned() else {
                continue;
            };
            if self.volume_of(&claim).is_some() {
                continue;
            }
            if let Some(class) = self.class_of(&claim).cloned() {
                provision(client, &claim, &class, Some(&node.labels))?;
                if let Some(claim) = client.get(&CLAIMS, &claim.key()) {
                    let volume = json::text(claim.value(), &["spec", "volumeName"]);
                    if let Some(volume) = client.get(&VOLUMES, &ObjectKey::new("", volume)) {
                        self.volumes.insert(volume.name().to_owned(), volume);
                    }
                    self.claims.insert(claim.key(), claim);
                }
            }
        }
        Ok(())
    }
}

impl VolumeRequirements {
    pub(super) fn refusal(&self, node: &NodeState) -> Option<&'static str> {
        let too_many = self.attachments.iter().any(|(driver, needed)| {
            node.volumes.get(driver).is_some_and(|volumes| {
                volumes
                    .limit
                    .is_some_and(|limit| volumes.used + needed > limit)
            })
        });
        if too_many {
            return Some("node(s) exceed max volume count");
        }
        let admits = |terms: &Vec<BTreeMap<String, Vec<String>>>| {
            terms.iter().any(|term| {
                term.iter().all(|(key, values)| {
                    node.info
                        .labels
                        .get(key)
                        .is_some_and(|own| values.contains(own))
                })
            })
        };
        if !self.bound.iter().all(admits) {
            return Some("node(s) had volume node affinity conflict");
        }
        if !self.unbound.iter().all(admits) {
            return Some("node(s) didn't find available persistent volumes to bind");
        }
        None
    }
}

/// Label values that a topology term allows.
fn labels(term: &Value, field: &str) -> BTreeMap<String, Vec<String>> {
    json::items(term, &[field])
        .iter()
        .map(|expression| {
            let values = json::items(expression, &["values"])
                .iter()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect();
            (json::text(expression, &["key"]).to_owned(), values)
        })
        .collect()
}
