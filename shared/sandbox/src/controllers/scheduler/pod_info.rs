use std::collections::{BTreeMap, BTreeSet};

use model::{
    resources::{PODS, Resources},
    taint::{TaintEffect, Toleration, TolerationOperator},
};
use serde_json::Value;

use super::node_info::NodeInfo;
use crate::{digest::digest, json, selectors::LabelSelector, server::parse_time, store::Object};

/// Pod attributes that the scheduler reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodInfo {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) requests: Resources,
    pub(crate) node_name: String,
    pub(crate) is_terminating: bool,
    pub(super) node_selector: BTreeMap<String, String>,
    /// Alternative terms, one of which must match; `None` matches every node.
    pub(super) node_affinity: Option<Vec<NodeTerm>>,
    pub(super) preferred_nodes: Vec<(i64, NodeTerm)>,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) ports: BTreeSet<HostPort>,
    pub(super) spread: Vec<Spread>,
    pub(super) affinity: Vec<PodTerm>,
    pub(super) anti_affinity: Vec<PodTerm>,
    pub(super) claims: Vec<String>,
    pub(super) gates: usize,
    pub(super) priority: i64,
    pub(super) created_second: i64,
    pub(super) scheduler: String,
    /// Hash of all attributes that the scheduler reads: pods of equal shape are interchangeable.
    pub(super) shape: u64,
}

/// Term of a node selector; every condition must match.
#[derive(Clone, Debug)]
pub(super) struct NodeTerm {
    labels: Vec<Condition>,
    fields: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Condition {
    key: String,
    operator: String,
    values: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPort {
    port: i64,
    protocol: String,
    address: String,
}

/// Topology spread constraint with `whenUnsatisfiable: DoNotSchedule`.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    pub(super) topology_key: String,
    pub(super) max_skew: i64,
    pub(super) min_domains: usize,
    pub(super) selector: LabelSelector,
    pub(super) honors_affinity: bool,
    pub(super) honors_taints: bool,
}

/// Required term of pod affinity or anti-affinity.
#[derive(Clone, Debug)]
pub(super) struct PodTerm {
    pub(super) topology_key: String,
    selector: Option<LabelSelector>,
    namespaces: Vec<String>,
    namespace_selector: Option<LabelSelector>,
}

const ALL_ADDRESSES: &str = "0.0.0.0";

impl PodInfo {
    pub(crate) fn of(pod: &Object) -> Self {
        Self {
            is_terminating: pod.is_terminating(),
            ..Self::of_spec(pod.value())
        }
    }

    pub(crate) fn of_spec(pod: &Value) -> Self {
        let spec = json::at(pod, &["spec"]);
        let labels: BTreeMap<String, String> = json::strings(pod, &["metadata", "labels"])
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let namespace = json::text(pod, &["metadata", "namespace"]).to_owned();
        let affinity = json::at(spec, &["affinity"]);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let pod_terms = |kind: &str| -> Vec<PodTerm> {
            json::items(affinity, &[kind, required])
                .iter()
                .map(|term| PodTerm::of(term, &namespace, &labels))
                .collect()
        };
        let node_terms = json::at(affinity, &["nodeAffinity", required]);
        let created = parse_time(json::text(pod, &["metadata", "creationTimestamp"]));
        Self {
            name: json::text(pod, &["metadata", "name"]).to_owned(),
            requests: requests(spec),
            node_name: json::text(spec, &["nodeName"]).to_owned(),
            is_terminating: false,
            node_selector: json::strings(spec, &["nodeSelector"])
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            node_affinity: (!node_terms.is_null()).then(|| {
                let terms = json::items(node_terms, &["nodeSelectorTerms"]);
                terms.iter().map(NodeTerm::of).collect()
            }),
            preferred_nodes: json::items(
                affinity,
                &[
                    "nodeAffinity",
                    "preferredDuringSchedulingIgnoredDuringExecution",
                ],
            )
            .iter()
            .map(|preferred| {
                let weight = json::integer(preferred, &["weight"]).unwrap_or(0);
                (weight, NodeTerm::of(json::at(preferred, &["preference"])))
            })
            .collect(),
            tolerations: json::items(spec, &["tolerations"])
                .iter()
                .map(toleration)
                .collect(),
            ports: ports(spec),
            spread: json::items(spec, &["topologySpreadConstraints"])
                .iter()
                .filter(|constraint| {
                    json::text(constraint, &["whenUnsatisfiable"]) == "DoNotSchedule"
                })
                .map(|constraint| Spread::of(constraint, &labels))
                .collect(),
            affinity: pod_terms("podAffinity"),
            anti_affinity: pod_terms("podAntiAffinity"),
            claims: claims(pod),
            gates: json::items(spec, &["schedulingGates"]).len(),
            priority: json::integer(spec, &["priority"]).unwrap_or(0),
            created_second: created.map_or(0, |created| created.as_second()),
            scheduler: json::text(spec, &["schedulerName"]).to_owned(),
            shape: digest(&[&namespace, &spec.to_string(), &format!("{labels:?}")]),
            namespace,
            labels,
        }
    }

    /// Names of the PersistentVolumeClaims that the pod uses.
    pub(crate) fn claims(&self) -> &[String] {
        &self.claims
    }

    /// Returns whether a node's labels, name and taints admit the pod.
    pub(crate) fn is_admitted_by(&self, node: &NodeInfo) -> bool {
        self.matches_node(node) && self.untolerated_taint(node).is_none()
    }

    /// Returns whether the node satisfies the pod's node selector and required node affinity.
    pub(super) fn matches_node(&self, node: &NodeInfo) -> bool {
        let selected = self
            .node_selector
            .iter()
            .all(|(key, value)| node.labels.get(key) == Some(value));
        selected
            && self
                .node_affinity
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// First taint of a node that the pod does not tolerate.
    pub(super) fn untolerated_taint<'n>(
        &self,
        node: &'n NodeInfo,
    ) -> Option<&'n model::taint::Taint> {
        node.taints
            .iter()
            .filter(|taint| taint.effect != TaintEffect::PreferNoSchedule)
            .find(|taint| !self.tolerates(taint))
    }

    pub(super) fn tolerates(&self, taint: &model::taint::Taint) -> bool {
        self.tolerations
            .iter()
            .any(|toleration| toleration.tolerates(taint))
    }

    /// Toleration of a `NoExecute` taint: `None` if it is not tolerated, `Some(None)` without a time limit.
    pub(crate) fn tolerance_seconds(&self, key: &str, value: &str) -> Option<Option<i64>> {
        let taint = model::taint::Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: TaintEffect::NoExecute,
        };
        let tolerating = self.tolerations.iter().filter(|own| own.tolerates(&taint));
        let limits: Vec<Option<i64>> = tolerating.map(|own| own.toleration_seconds).collect();
        match limits.as_slice() {
            [] => None,
            limits => Some(limits.iter().copied().flatten().min()),
        }
    }

    /// Returns whether placement depends on where other pods run.
    pub(super) fn depends_on_other_pods(&self) -> bool {
        !self.spread.is_empty() || !self.affinity.is_empty() || !self.claims.is_empty()
    }
}

impl NodeTerm {
    fn of(term: &Value) -> Self {
        let conditions = |field: &str| {
            json::items(term, &[field])
                .iter()
                .map(|condition| Condition {
                    key: json::text(condition, &["key"]).to_owned(),
                    operator: json::text(condition, &["operator"]).to_owned(),
                    values: texts(json::items(condition, &["values"])),
                })
                .collect()
        };
        Self {
            labels: conditions("matchExpressions"),
            fields: conditions("matchFields"),
        }
    }

    /// A term without conditions matches no node.
    pub(super) fn matches(&self, node: &NodeInfo) -> bool {
        let has_conditions = !self.labels.is_empty() || !self.fields.is_empty();
        has_conditions
            && self.labels.iter().all(|condition| {
                condition.holds(node.labels.get(&condition.key).map(String::as_str))
            })
            && self.fields.iter().all(|condition| {
                condition.key == "metadata.name" && condition.holds(Some(&node.name))
            })
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|own| own == value);
        let integers = || {
            let bound = self.values.first()?.parse::<i64>().ok()?;
            Some((value?.parse::<i64>().ok()?, bound))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => integers().is_some_and(|(value, bound)| value > bound),
            "Lt" => integers().is_some_and(|(value, bound)| value < bound),
            _ => false,
        }
    }
}

impl HostPort {
    pub(super) fn clashes(&self, other: &Self) -> bool {
        let same_address = self.address == other.address
            || self.address == ALL_ADDRESSES
            || other.address == ALL_ADDRESSES;
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

impl Spread {
    fn of(constraint: &Value, labels: &BTreeMap<String, String>) -> Self {
        let mut selector = json::at(constraint, &["labelSelector"]).clone();
        with_label_keys(&mut selector, constraint, labels, "matchLabelKeys", "In");
        let number = |field: &str| json::integer(constraint, &[field]).unwrap_or(1);
        Self {
            topology_key: json::text(constraint, &["topologyKey"]).to_owned(),
            max_skew: number("maxSkew"),
            min_domains: usize::try_from(number("minDomains")).unwrap_or(1),
            selector: LabelSelector::of_object(&selector),
            honors_affinity: json::text(constraint, &["nodeAffinityPolicy"]) != "Ignore",
            honors_taints: json::text(constraint, &["nodeTaintsPolicy"]) == "Honor",
        }
    }
}

impl PodTerm {
    fn of(term: &Value, own_namespace: &str, labels: &BTreeMap<String, String>) -> Self {
        let mut selector = json::at(term, &["labelSelector"]).clone();
        with_label_keys(&mut selector, term, labels, "matchLabelKeys", "In");
        with_label_keys(&mut selector, term, labels, "mismatchLabelKeys", "NotIn");
        let namespace_selector = json::at(term, &["namespaceSelector"]);
        let mut namespaces = texts(json::items(term, &["namespaces"]));
        if namespaces.is_empty() && namespace_selector.is_null() {
            namespaces.push(own_namespace.to_owned());
        }
        Self {
            topology_key: json::text(term, &["topologyKey"]).to_owned(),
            selector: (!selector.is_null()).then(|| LabelSelector::of_object(&selector)),
            namespaces,
            namespace_selector: (!namespace_selector.is_null())
                .then(|| LabelSelector::of_object(namespace_selector)),
        }
    }

    /// Returns whether the term selects this pod.
    pub(super) fn selects(
        &self,
        pod: &PodInfo,
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> bool {
        let by_label = || {
            let labels = namespaces.get(&pod.namespace);
            self.namespace_selector
                .as_ref()
                .zip(labels)
                .is_some_and(|(selector, labels)| selector.matches(labels))
        };
        let in_namespace = self.namespaces.contains(&pod.namespace) || by_label();
        in_namespace
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// Adds the pod's own values of `matchLabelKeys` to a selector.
fn with_label_keys(
    selector: &mut Value,
    source: &Value,
    labels: &BTreeMap<String, String>,
    field: &str,
    operator: &str,
) {
    for key in texts(json::items(source, &[field])) {
        if let Some(value) = labels.get(&key)
            && let Some(expressions) = json::array_mut(selector, &["matchExpressions"])
        {
            expressions.push(serde_json::json!({
                "key": key, "operator": operator, "values": [value],
            }));
        }
    }
}

fn texts(items: &[Value]) -> Vec<String> {
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

fn toleration(toleration: &Value) -> Toleration {
    Toleration {
        key: json::text(toleration, &["key"]).to_owned(),
        operator: match json::text(toleration, &["operator"]) {
            "Exists" => TolerationOperator::Exists,
            "Gt" => TolerationOperator::Gt,
            "Lt" => TolerationOperator::Lt,
            _ => TolerationOperator::Equal,
        },
        value: json::text(toleration, &["value"]).to_owned(),
        effect: effect(json::text(toleration, &["effect"])),
        toleration_seconds: json::integer(toleration, &["tolerationSeconds"]),
    }
}

pub(super) fn effect(text: &str) -> Option<TaintEffect> {
    match text {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

/// Host ports of ordinary containers and sidecars.
fn ports(spec: &Value) -> BTreeSet<HostPort> {
    let sidecars = json::items(spec, &["initContainers"])
        .iter()
        .filter(|container| json::text(container, &["restartPolicy"]) == "Always");
    json::items(spec, &["containers"])
        .iter()
        .chain(sidecars)
        .flat_map(|container| json::items(container, &["ports"]))
        .filter_map(|port| {
            Some(HostPort {
                port: json::integer(port, &["hostPort"]).filter(|port| *port > 0)?,
                protocol: match json::text(port, &["protocol"]) {
                    "" => "TCP".to_owned(),
                    protocol => protocol.to_owned(),
                },
                address: match json::text(port, &["hostIP"]) {
                    "" => ALL_ADDRESSES.to_owned(),
                    address => address.to_owned(),
                },
            })
        })
        .collect()
}

fn claims(pod: &Value) -> Vec<String> {
    json::items(pod, &["spec", "volumes"])
        .iter()
        .filter_map(|volume| {
            let claim = json::text(volume, &["persistentVolumeClaim", "claimName"]);
            if !claim.is_empty() {
                return Some(claim.to_owned());
            }
            let pod = json::text(pod, &["metadata", "name"]);
            let name = json::text(volume, &["name"]);
            (!json::at(volume, &["ephemeral"]).is_null()).then(|| format!("{pod}-{name}"))
        })
        .collect()
}

/// Resource requests of a pod: containers and sidecars together, or the highest demand during its init containers.
fn requests(spec: &Value) -> Resources {
    let mut running = Resources::default();
    for container in json::items(spec, &["containers"]) {
        running.add(&amounts(container));
    }
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for container in json::items(spec, &["initContainers"]) {
        let own = amounts(container);
        if json::text(container, &["restartPolicy"]) == "Always" {
            sidecars.add(&own);
            starting.raise_to(&sidecars);
        } else {
            let mut moment = sidecars.clone();
            moment.add(&own);
            starting.raise_to(&moment);
        }
    }
    running.add(&sidecars);
    running.raise_to(&starting);
    for (name, amount) in amounts(spec).iter() {
        running.set(name, amount);
    }
    running.add(&quantities(json::at(spec, &["overhead"])));
    running.set(PODS, 1);
    running
}

fn amounts(container: &Value) -> Resources {
    quantities(json::at(container, &["resources", "requests"]))
}

/// Parses a map of quantities; malformed ones were rejected when the object was written.
pub(crate) fn quantities(list: &Value) -> Resources {
    let mut resources = Resources::default();
    for (name, quantity) in json::strings(list, &[]) {
        if resources.set_quantity(name, quantity).is_err() {
            resources.set(name, i64::MAX);
        }
    }
    resources
}
