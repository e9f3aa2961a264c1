use serde_json::{Value, json};

use super::ApiServer;
use crate::{
    error::{ApiError, ApiResult},
    json,
    store::{ObjectKey, TableId},
};

const PRIORITY_CLASSES: TableId = TableId::named("priorityclasses.scheduling.k8s.io");

/// Default toleration of nodes that are not ready or unreachable, in seconds.
const NOT_READY_TOLERATION_SECONDS: i64 = 300;

/// Sets the defaults of the pod specification at a path: of a pod or of a template.
pub(super) fn fill(value: &mut Value, path: &[&str]) {
    let spec = json::object_mut(value, path);
    for (field, default) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        spec.entry(field).or_insert(default);
    }
    for list in ["containers", "initContainers"] {
        let list: Vec<&str> = path.iter().copied().chain([list]).collect();
        for container in json::items_mut(value, &list) {
            fill_container(container);
        }
    }
}

fn fill_container(container: &mut Value) {
    let image = json::text(container, &["image"]).to_owned();
    let is_latest = match image.rsplit_once(':') {
        Some((_, tag)) => tag == "latest",
        None => true,
    };
    let policy = if is_latest { "Always" } else { "IfNotPresent" };
    json::set_default(container, &["imagePullPolicy"], policy);
    json::set_default(
        container,
        &["terminationMessagePath"],
        "/dev/termination-log",
    );
    json::set_default(container, &["terminationMessagePolicy"], "File");
    json::set_default(container, &["resources"], json!({}));
    for port in json::items_mut(container, &["ports"]) {
        json::set_default(port, &["protocol"], "TCP");
    }
    // A limit without a request sets the request too.
    let limits: Vec<(String, Value)> = json::at(container, &["resources", "limits"])
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, quantity)| (name.clone(), quantity.clone()))
        .collect();
    for (name, quantity) in limits {
        json::set_default(container, &["resources", "requests", &name], quantity);
    }
}

/// Additions of admission to a new pod: priority, service account, tolerations of not-ready and unreachable nodes.
pub(super) fn admit(server: &ApiServer, pod: &mut Value) -> ApiResult<()> {
    json::set_default(pod, &["spec", "serviceAccountName"], "default");
    json::set_default(pod, &["spec", "enableServiceLinks"], true);
    json::set_default(pod, &["spec", "preemptionPolicy"], "PreemptLowerPriority");
    let class = json::text(pod, &["spec", "priorityClassName"]).to_owned();
    let classes = || server.store.all(&PRIORITY_CLASSES);
    let class = if class.is_empty() {
        let default = classes().find(|class| json::flag(class.value(), &["globalDefault"]));
        default.cloned()
    } else {
        let found = server
            .store
            .get(&PRIORITY_CLASSES, &ObjectKey::new("", class.as_str()));
        if found.is_none() {
            let name = json::text(pod, &["metadata", "name"]);
            return Err(ApiError::new(
                403,
                "Forbidden",
                format!(
                    "pods \"{name}\" is forbidden: no PriorityClass with name {class} was found"
                ),
            ));
        }
        found.cloned()
    };
    let priority = class.map_or(0, |class| {
        json::integer(class.value(), &["value"]).unwrap_or(0)
    });
    json::set(pod, &["spec", "priority"], priority);
    tolerate_unready_nodes(pod);
    Ok(())
}

fn tolerate_unready_nodes(pod: &mut Value) {
    let Some(tolerations) = json::array_mut(pod, &["spec", "tolerations"]) else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|toleration| {
            let own = json::text(toleration, &["key"]);
            let effect = json::text(toleration, &["effect"]);
            (own.is_empty() || own == key) && matches!(effect, "" | "NoExecute")
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": NOT_READY_TOLERATION_SECONDS,
            }));
        }
    }
}

/// Initial status of a new pod.
pub(super) fn start(pod: &mut Value) {
    let class = qos_class(pod);
    json::set(
        pod,
        &["status"],
        json!({"phase": "Pending", "qosClass": class}),
    );
}

fn qos_class(pod: &Value) -> &'static str {
    let containers = || {
        ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| json::items(pod, &["spec", list]))
    };
    let amounts = |container: &Value, kind: &str| json::at(container, &["resources", kind]).clone();
    let asks_nothing = containers().all(|container| {
        ["requests", "limits"].iter().all(|kind| {
            amounts(container, kind)
                .as_object()
                .is_none_or(|map| map.is_empty())
        })
    });
    let is_guaranteed = containers().all(|container| {
        let limits = amounts(container, "limits");
        ["cpu", "memory"].iter().all(|name| {
            !json::at(&limits, &[name]).is_null()
                && json::at(&limits, &[name]) == json::at(&amounts(container, "requests"), &[name])
        })
    });
    if asks_nothing {
        "BestEffort"
    } else if is_guaranteed {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
