//! Checks of the pre-flight, one function per finding.

use serde_json::{Map, Value};

use crate::{
    finding::{Finding, found},
    import::group::Group,
    objects::{Objects, name},
};

/// Maximum length of a label's value, and of the name in its key.
const LABEL_MAX: usize = 63;

pub(super) fn all(objects: &Objects, groups: &[Group], pools: &[Value]) -> Vec<Finding> {
    found([
        budgets(objects),
        labels(objects),
        single_replicas(objects),
        bare(objects),
        local_storage(objects),
        not_to_evict(objects),
        gone_labels(objects),
        old_labels(objects),
        without_requests(objects),
        daemons(objects, pools),
        competing_autoscalers(objects, groups),
    ])
}

fn budgets(objects: &Objects) -> Finding {
    let blocks = |budget: &&Value| {
        let zero = |field: &str| {
            let value = budget.pointer(field);
            value.is_some_and(|value| value == 0 || value == "0" || value == "0%")
        };
        let all = budget
            .pointer("/spec/minAvailable")
            .is_some_and(|value| value == "100%");
        let now = budget
            .pointer("/status/disruptionsAllowed")
            .is_some_and(|value| value == 0);
        let equals = same_as_replicas(objects, budget);
        zero("/spec/maxUnavailable") || all || now || equals
    };
    Finding::new(
        "PodDisruptionBudgets that allow no disruption",
        objects
            .of_kind("PodDisruptionBudget")
            .filter(blocks)
            .map(name)
            .collect(),
        "allow one disruption (maxUnavailable: 1), or run one more replica than minAvailable",
    )
}

/// Whether `minAvailable` equals the workload's replicas.
fn same_as_replicas(objects: &Objects, budget: &Value) -> bool {
    let (Some(least), Some(selector)) = (
        budget.pointer("/spec/minAvailable").and_then(Value::as_i64),
        budget
            .pointer("/spec/selector/matchLabels")
            .and_then(Value::as_object),
    ) else {
        return false;
    };
    let namespace = |object: &Value| object.pointer("/metadata/namespace").cloned();
    let workloads = ["Deployment", "StatefulSet"]
        .into_iter()
        .flat_map(|kind| objects.of_kind(kind));
    let mut selected = workloads.filter(|workload| {
        let labels = workload
            .pointer("/spec/template/metadata/labels")
            .and_then(Value::as_object);
        namespace(workload) == namespace(budget)
            && labels.is_some_and(|labels| {
                selector
                    .iter()
                    .all(|(key, value)| labels.get(key) == Some(value))
            })
    });
    selected.any(|workload| replicas(workload) <= least)
}

fn replicas(workload: &Value) -> i64 {
    workload
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1)
}

fn labels(objects: &Objects) -> Finding {
    let is_long = |(key, value): (&String, &Value)| {
        let name = key.rsplit('/').next().unwrap_or_default();
        name.len() > LABEL_MAX || value.as_str().is_some_and(|value| value.len() > LABEL_MAX)
    };
    let mut long = Vec::new();
    for (object, template) in objects.templates() {
        for place in ["/metadata/labels", "/spec/nodeSelector"] {
            let map = template.pointer(place).and_then(Value::as_object);
            for pair in map
                .into_iter()
                .flat_map(Map::iter)
                .filter(|pair| is_long(*pair))
            {
                long.push(format!("{object}: {}", pair.0));
            }
        }
    }
    Finding::new(
        "labels longer than 63 characters",
        long,
        "shorten them: no node and no pod can carry them",
    )
}

fn single_replicas(objects: &Objects) -> Finding {
    let workloads = ["Deployment", "StatefulSet"]
        .into_iter()
        .flat_map(|kind| objects.of_kind(kind));
    Finding::new(
        "workloads of one replica, which are unavailable while they move",
        workloads
            .filter(|workload| replicas(workload) == 1)
            .map(name)
            .collect(),
        "run two replicas with a PodDisruptionBudget, or accept the gap",
    )
}

fn bare(objects: &Objects) -> Finding {
    let is_static = |pod: &&Value| {
        pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror")
            .is_some()
    };
    Finding::new(
        "pods without a controller, which nothing creates again",
        objects
            .bare_pods()
            .filter(|pod| !is_static(pod))
            .map(name)
            .collect(),
        "create them by a Deployment or a Job, or annotate them karpenter.sh/do-not-disrupt: \"true\" and move them by hand",
    )
}

fn volumes(template: &Value) -> impl Iterator<Item = &Value> {
    template
        .pointer("/spec/volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn local_storage(objects: &Objects) -> Finding {
    let is_local = |volume: &Value| {
        let empty = volume
            .get("emptyDir")
            .is_some_and(|dir| dir.get("medium").and_then(Value::as_str) != Some("Memory"));
        empty || volume.get("hostPath").is_some()
    };
    let local = objects.templates().into_iter().filter(|(name, template)| {
        !name.starts_with("DaemonSet ") && volumes(template).any(is_local)
    });
    Finding::new(
        "pods with storage on their node, which does not move with them",
        local.map(|(name, _)| name).collect(),
        "make sure that what is in emptyDir and hostPath may be lost, or use a PersistentVolumeClaim",
    )
}

fn annotation<'a>(template: &'a Value, key: &str) -> Option<&'a str> {
    template
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

fn not_to_evict(objects: &Objects) -> Finding {
    let keeps = |template: &Value| {
        annotation(template, "cluster-autoscaler.kubernetes.io/safe-to-evict") == Some("false")
    };
    let found = objects
        .templates()
        .into_iter()
        .filter(|(_, template)| keeps(template));
    Finding::new(
        "pods with cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"",
        found.map(|(name, _)| name).collect(),
        "annotate them karpenter.sh/do-not-disrupt: \"true\", too",
    )
}

/// Keys of labels that pods require of nodes.
fn asked(template: &Value) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let selector = template
        .pointer("/spec/nodeSelector")
        .and_then(Value::as_object);
    keys.extend(selector.into_iter().flat_map(|map| map.keys().cloned()));
    let terms = template.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
    let terms = terms.and_then(Value::as_array).into_iter().flatten();
    let expressions = terms
        .filter_map(|term| term.get("matchExpressions")?.as_array())
        .flatten();
    keys.extend(
        expressions.filter_map(|expression| Some(expression.get("key")?.as_str()?.to_owned())),
    );
    keys
}

fn asking(objects: &Objects, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (name, template) in objects.templates() {
        let keys = asked(template).into_iter().filter(|key| is_meant(key));
        found.extend(keys.map(|key| format!("{name}: {key}")));
    }
    found
}

fn gone_labels(objects: &Objects) -> Finding {
    Finding::new(
        "pods that select labels of the group's nodes alone",
        asking(objects, |key| {
            key.starts_with("eks.amazonaws.com/") || key.starts_with("alpha.eksctl.io/")
        }),
        "select karpenter.sh/nodepool or a label of the NodePool instead",
    )
}

fn old_labels(objects: &Objects) -> Finding {
    Finding::new(
        "pods that select labels that nodes no longer have",
        asking(objects, |key| {
            key.starts_with("beta.kubernetes.io/")
                || key.starts_with("failure-domain.beta.kubernetes.io/")
        }),
        "select the stable keys: kubernetes.io/arch, kubernetes.io/os, node.kubernetes.io/instance-type, topology.kubernetes.io/zone",
    )
}

fn without_requests(objects: &Objects) -> Finding {
    let silent = |template: &Value| {
        let containers = template
            .pointer("/spec/containers")
            .and_then(Value::as_array);
        containers
            .into_iter()
            .flatten()
            .any(|container| container.pointer("/resources/requests").is_none())
    };
    let found = objects
        .templates()
        .into_iter()
        .filter(|(_, template)| silent(template));
    Finding::new(
        "containers without requests, for which nodes are launched too small",
        found.map(|(name, _)| name).collect(),
        "set requests, or a LimitRange with defaults in the namespace",
    )
}

/// DaemonSets that a pool's taint keeps off its nodes.
fn daemons(objects: &Objects, pools: &[Value]) -> Finding {
    let mut kept_away = Vec::new();
    for pool in pools {
        let pool_name = pool
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let taints = pool
            .pointer("/spec/template/spec/taints")
            .and_then(Value::as_array);
        for taint in taints.into_iter().flatten() {
            let key = taint.get("key").and_then(Value::as_str).unwrap_or_default();
            for set in objects
                .of_kind("DaemonSet")
                .filter(|set| !tolerates(set, key))
            {
                kept_away.push(format!(
                    "{}: taint {key} of NodePool {pool_name}",
                    name(set)
                ));
            }
        }
    }
    Finding::new(
        "DaemonSets that do not tolerate a NodePool's taint",
        kept_away,
        "add the toleration, if the DaemonSet is for these nodes",
    )
}

fn tolerates(set: &Value, key: &str) -> bool {
    let tolerations = set
        .pointer("/spec/template/spec/tolerations")
        .and_then(Value::as_array);
    tolerations.into_iter().flatten().any(|toleration| {
        let of = toleration.get("key").and_then(Value::as_str);
        of.is_none_or(|of| of == key)
    })
}

fn competing_autoscalers(objects: &Objects, groups: &[Group]) -> Finding {
    const AUTOSCALERS: [&str; 3] = [
        "cluster-autoscaler",
        "karpenter",
        "aws-node-termination-handler",
    ];
    let runs = |workload: &&Value| {
        let name = workload
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        replicas(workload) > 0
            && AUTOSCALERS
                .iter()
                .any(|autoscaler| name.contains(autoscaler))
    };
    let running = ["Deployment", "DaemonSet"]
        .into_iter()
        .flat_map(|kind| objects.of_kind(kind));
    let running = running.filter(runs).map(name).collect();
    let remedy = match groups.len() {
        0 | 1 => "scale it to 0 before this group is moved",
        _ => {
            "take the group out of its discovery tags before it is moved, and scale it to 0 with the last one"
        }
    };
    Finding::new("other programs that add or drain nodes", running, remedy)
}
