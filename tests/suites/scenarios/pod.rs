//! Pods in short form and their manifests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::shorthand;

/// A pod, or `count` equal pods. Every field has a default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Pod {
    /// Name of the pod; with `count`, the prefix of `-0`, `-1` and so on.
    pub(crate) name: String,
    namespace: Option<String>,
    pub(crate) count: Option<usize>,
    cpu: Option<Value>,
    memory: Option<Value>,
    /// Requests of resources other than CPU and memory.
    requests: BTreeMap<String, Value>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
    /// Required node affinity: a list of terms, each a list of requirements.
    affinity: Vec<Vec<String>>,
    /// Preferred node affinity as `weight: requirement`.
    prefer: BTreeMap<String, String>,
    tolerations: Vec<String>,
    spread: Vec<Spread>,
    /// Required pod affinity.
    near: Vec<Peers>,
    /// Required pod anti-affinity.
    apart: Vec<Peers>,
    host_port: Option<u16>,
    /// Names of the PersistentVolumeClaims that the pod mounts.
    volumes: Vec<String>,
    /// Node that the pod runs on; a pod without one is pending.
    pub(crate) node: Option<String>,
    gated: bool,
    /// Creation time, for scenarios in which the pod's age matters.
    created: Option<String>,
    /// Fields that replace those of the pod's `spec`, for settings without a short form.
    spec: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spread {
    by: String,
    #[serde(default = "max_skew_one")]
    max_skew: i32,
    #[serde(default)]
    min_domains: Option<i32>,
    /// Whether the constraint is `ScheduleAnyway` instead of `DoNotSchedule`.
    #[serde(default)]
    soft: bool,
    #[serde(default)]
    honor_taints: bool,
    #[serde(default)]
    match_label_keys: Vec<String>,
    /// Labels that select the counted pods; by default the pod's own labels.
    #[serde(default)]
    of: Option<BTreeMap<String, String>>,
}

fn max_skew_one() -> i32 {
    1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Peers {
    of: BTreeMap<String, String>,
    by: String,
}

/// Default creation time of pods: an hour before the snapshot, so that no rule depends on their age.
const CREATED: &str = "2026-01-01T11:00:00Z";

impl Pod {
    pub(crate) fn manifests(&self) -> Vec<Value> {
        match self.count {
            None => vec![self.manifest(&self.name)],
            Some(count) => (0..count)
                .map(|index| self.manifest(&format!("{}-{index}", self.name)))
                .collect(),
        }
    }

    fn manifest(&self, name: &str) -> Value {
        let mut status = json!({ "phase": "Pending" });
        if self.node.is_some() {
            status = json!({ "phase": "Running", "startTime": CREATED, "conditions": [
                { "type": "Ready", "status": "True" }] });
        } else if !self.gated {
            status["conditions"] =
                json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
        }
        json!({
            "metadata": {
                "name": name,
                "namespace": self.namespace.as_deref().unwrap_or("default"),
                "uid": format!("{name}-uid"),
                "creationTimestamp": self.created.as_deref().unwrap_or(CREATED),
                "labels": self.labels(),
                "annotations": self.annotations,
            },
            "spec": self.spec(),
            "status": status,
        })
    }

    /// The pod template of a DaemonSet with these pods.
    pub(crate) fn template(&self) -> Value {
        json!({ "metadata": { "labels": self.labels() }, "spec": self.spec() })
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels
            .entry("app".to_owned())
            .or_insert_with(|| self.name.clone());
        labels
    }

    fn spec(&self) -> Value {
        let mut requests: BTreeMap<&str, Value> = self
            .requests
            .iter()
            .map(|(name, amount)| (name.as_str(), amount.clone()))
            .collect();
        requests.insert("cpu", self.cpu.clone().unwrap_or_else(|| json!("100m")));
        requests.insert(
            "memory",
            self.memory.clone().unwrap_or_else(|| json!("100Mi")),
        );
        let ports: Vec<Value> = self
            .host_port
            .iter()
            .map(|port| json!({ "containerPort": port, "hostPort": port }))
            .collect();
        let volumes: Vec<Value> = self
            .volumes
            .iter()
            .map(|claim| json!({ "name": claim, "persistentVolumeClaim": { "claimName": claim } }))
            .collect();
        let mut spec = json!({
            "containers": [{ "name": "app", "resources": { "requests": requests }, "ports": ports }],
            "nodeSelector": self.node_selector.iter().map(|(alias, value)| (shorthand::key(alias), value)).collect::<BTreeMap<_, _>>(),
            "tolerations": self.tolerations.iter().map(|text| shorthand::toleration(text)).collect::<Vec<_>>(),
            "topologySpreadConstraints": self.spread.iter().map(|spread| self.spread(spread)).collect::<Vec<_>>(),
            "affinity": {
                "nodeAffinity": self.node_affinity(),
                "podAffinity": peers(&self.near),
                "podAntiAffinity": peers(&self.apart),
            },
            "volumes": volumes,
            "schedulingGates": if self.gated { json!([{ "name": "scenario" }]) } else { json!([]) },
        });
        if let Value::Object(fields) = &mut spec {
            fields.extend(
                self.node
                    .iter()
                    .map(|node| ("nodeName".to_owned(), json!(node))),
            );
            fields.extend(self.spec.clone());
        }
        spec
    }

    fn node_affinity(&self) -> Value {
        let mut affinity = Map::new();
        let requirements = |texts: &[String]| {
            texts
                .iter()
                .map(|text| shorthand::requirement(text))
                .collect::<Vec<_>>()
        };
        let terms: Vec<Value> = self
            .affinity
            .iter()
            .map(|term| json!({ "matchExpressions": requirements(term) }))
            .collect();
        if !terms.is_empty() {
            affinity.insert(
                "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
                json!({ "nodeSelectorTerms": terms }),
            );
        }
        let preferred: Vec<Value> = self
            .prefer
            .iter()
            .map(|(weight, text)| json!({ "weight": weight.parse::<i32>().unwrap_or(1), "preference": { "matchExpressions": [shorthand::requirement(text)] } }))
            .collect();
        affinity.insert(
            "preferredDuringSchedulingIgnoredDuringExecution".to_owned(),
            json!(preferred),
        );
        affinity.into()
    }

    fn spread(&self, spread: &Spread) -> Value {
        let labels = spread.of.clone().unwrap_or_else(|| self.labels());
        let mut constraint = json!({
            "maxSkew": spread.max_skew,
            "topologyKey": shorthand::key(&spread.by),
            "whenUnsatisfiable": if spread.soft { "ScheduleAnyway" } else { "DoNotSchedule" },
            "labelSelector": { "matchLabels": labels },
            "matchLabelKeys": spread.match_label_keys,
        });
        if let Value::Object(fields) = &mut constraint {
            fields.extend(
                spread
                    .min_domains
                    .map(|least| ("minDomains".to_owned(), json!(least))),
            );
            if spread.honor_taints {
                fields.insert("nodeTaintsPolicy".to_owned(), "Honor".into());
            }
        }
        constraint
    }
}

fn peers(peers: &[Peers]) -> Value {
    let terms: Vec<Value> = peers
        .iter()
        .map(|peers| json!({ "topologyKey": shorthand::key(&peers.by), "labelSelector": { "matchLabels": peers.of } }))
        .collect();
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms })
}
