//! Workloads whose requests nodes cannot satisfy, and other programs that manage nodes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pools::{any_windows, startup_taints};
use crate::{
    finding::Finding,
    objects::{Objects, name, short_name, text},
    plan::counted,
};

pub(super) fn checks(objects: &Objects) -> Vec<Finding> {
    vec![
        pending_daemons(objects),
        without_requests(objects),
        pod_eni(objects),
        in_tree_volumes(objects),
        late_volume_limits(objects),
        old_annotations(objects),
        competing_autoscalers(objects),
        windows_builds(objects),
    ]
}

/// Pending pods of DaemonSets. Such a pod is bound to its node: no other node helps.
fn pending_daemons(objects: &Objects) -> Finding {
    let owned = |pod: &&Value| text(pod, "/metadata/ownerReferences/0/kind") == "DaemonSet";
    let waits = |pod: &&Value| {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| {
            text(condition, "/type") == "PodScheduled"
                && text(condition, "/reason") == "Unschedulable"
        })
    };
    let mut waiting: BTreeMap<String, usize> = BTreeMap::new();
    for pod in objects.of_kind("Pod").filter(owned).filter(waits) {
        let (space, set) = (
            text(pod, "/metadata/namespace"),
            text(pod, "/metadata/ownerReferences/0/name"),
        );
        *waiting
            .entry(format!("DaemonSet {space}/{set}"))
            .or_default() += 1;
    }
    let rows = waiting.into_iter();
    Finding::new(
        "11. DaemonSets whose pods do not fit on their nodes",
        rows.map(|(set, pods)| match pods {
            1 => format!("{set}: 1 pod waits"),
            many => format!("{set}: {many} pods wait"),
        })
        .collect(),
        "give the DaemonSet a priorityClassName above that of the pods there, which are then moved",
    )
}

fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let containers = template.pointer("/spec/containers");
    containers.and_then(Value::as_array).into_iter().flatten()
}

/// Workloads without requests, by namespace, where a LimitRange would help.
fn without_requests(objects: &Objects) -> Finding {
    let silent = |pod: &&Value| {
        let mut containers = containers(pod);
        containers.any(|container| container.pointer("/resources/requests").is_none())
    };
    let mut spaces: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in objects.of_kind("Pod").filter(silent) {
        *spaces.entry(text(pod, "/metadata/namespace")).or_default() += 1;
    }
    let rows = spaces.into_iter();
    Finding::new(
        "12. pods without requests, for which nodes are bought too small",
        rows.map(|(space, pods)| format!("namespace {space}: {}", counted(pods, "pod")))
            .collect(),
        "set requests, or a LimitRange with defaults in the namespace",
    )
}

const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
const TRUNK: &str = "vpc.amazonaws.com~1has-trunk-attached";

fn pod_eni(objects: &Objects) -> Finding {
    let asks = |pod: &Value| {
        let limits = |container: &Value| {
            container
                .pointer("/resources/limits")?
                .get(POD_ENI)
                .cloned()
        };
        containers(pod).any(|container| limits(container).is_some())
    };
    let labelled = |pool: &&Value| {
        let place = format!("/spec/template/metadata/labels/{TRUNK}");
        pool.pointer(&place).is_some()
    };
    let pools = objects.of_kind("NodePool").filter(|pool| !labelled(pool));
    let asked = objects.of_kind("Pod").any(asks);
    Finding::new(
        "13. NodePools for pods with security groups of their own, whose first pods wait for half an hour",
        pools.filter(|_| asked).map(short_name).collect(),
        "put vpc.amazonaws.com/has-trunk-attached: \"false\" into spec.template.metadata.labels",
    )
}

fn in_tree_volumes(objects: &Objects) -> Finding {
    let classes = objects.of_kind("StorageClass");
    let classes = classes.filter(|class| text(class, "/provisioner") == "kubernetes.io/aws-ebs");
    let volumes = objects.of_kind("PersistentVolume");
    let volumes = volumes.filter(|volume| volume.pointer("/spec/awsElasticBlockStore").is_some());
    Finding::new(
        "14. volumes of the in-tree plugin, which says no limit of a node",
        classes.chain(volumes).map(short_name).collect(),
        "use a StorageClass of ebs.csi.aws.com",
    )
}

fn late_volume_limits(objects: &Objects) -> Finding {
    const TAINT: &str = "ebs.csi.aws.com/agent-not-ready";
    let mut sets = objects.of_kind("DaemonSet");
    let driver = sets.any(|set| text(set, "/metadata/name") == "ebs-csi-node");
    let pools = objects.of_kind("NodePool");
    let pools = pools.filter(|pool| !startup_taints(pool).any(|key| key == TAINT));
    Finding::new(
        "15. NodePools whose nodes take pods before the EBS driver says how many volumes they attach",
        pools.filter(|_| driver).map(short_name).collect(),
        "add the startup taint ebs.csi.aws.com/agent-not-ready:NoExecute; the driver takes it away",
    )
}

fn old_annotations(objects: &Objects) -> Finding {
    const OLD: [&str; 2] = ["do-not-evict", "do-not-consolidate"];
    let has = |object: &&Value, name: &str| {
        let place = format!("/metadata/annotations/karpenter.sh~1{name}");
        object.pointer(&place).is_some()
    };
    let all = ["Pod", "Node"].into_iter();
    let all = all.flat_map(|kind| objects.of_kind(kind));
    let old = all.filter(|object| OLD.iter().any(|name| has(object, name)));
    Finding::new(
        "26. annotations that have no effect any more",
        old.map(short_name).collect(),
        "write karpenter.sh/do-not-disrupt: \"true\"; whittle convert does it in manifests",
    )
}

fn competing_autoscalers(objects: &Objects) -> Finding {
    const AUTOSCALERS: [&str; 3] = [
        "aws-node-termination-handler",
        "cluster-autoscaler",
        "karpenter",
    ];
    let runs = |workload: &&Value| {
        let replicas = workload.pointer("/spec/replicas").and_then(Value::as_i64);
        let name = text(workload, "/metadata/name");
        replicas != Some(0)
            && AUTOSCALERS
                .iter()
                .any(|autoscaler| name.contains(autoscaler))
    };
    let kinds = ["Deployment", "DaemonSet"].into_iter();
    let all = kinds.flat_map(|kind| objects.of_kind(kind));
    Finding::new(
        "35. other programs that add or drain nodes",
        all.filter(runs).map(name).collect(),
        "uninstall them, or keep them from nodes of NodePools: docs/node-termination-handler.md has NTH's options. A Karpenter \
         that runs beside shadow mode is as it should be: scale it to 0 before mode is active",
    )
}

fn windows_builds(objects: &Objects) -> Finding {
    let on_windows = |template: &Value| {
        let selector = template.pointer("/spec/nodeSelector");
        let of = |key: &str| selector.and_then(|all| all.get(key));
        of("kubernetes.io/os").is_some_and(|os| os == "windows")
            && of("node.kubernetes.io/windows-build").is_none()
    };
    let templates = objects.templates().into_iter();
    let found = templates.filter(|(_, template)| on_windows(template));
    let windows = any_windows(objects);
    Finding::new(
        "20. Windows pods that do not say for which build their images are",
        found.filter(|_| windows).map(|(name, _)| name).collect(),
        "select node.kubernetes.io/windows-build in the pod",
    )
}
