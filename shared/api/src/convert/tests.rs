use model::{
    PodKey, Resources,
    node_pool::{ConsolidateAfter, NodePool},
    pod::{HostPort, Pod, PodPhase, PodVolume},
    snapshot::{DaemonSet, PodDisruptionBudget},
    volume::{Storage, StorageClass},
};
use serde_json::{Value, json};

use super::*;
use crate::{karpenter, kubernetes};

fn pod(spec: Value) -> Pod {
    pod_with(json!({ "metadata": { "name": "web-0", "namespace": "shop" }, "spec": spec }))
}

fn pod_with(pod: Value) -> Pod {
    serde_json::from_value::<kubernetes::Pod>(pod)
        .unwrap()
        .into()
}

fn container(cpu: &str) -> Value {
    json!({ "name": "app", "resources": { "requests": { "cpu": cpu } } })
}

mod requests {
    use super::*;

    fn cpu(spec: Value) -> i64 {
        pod(spec).requests.get("cpu")
    }

    #[test]
    fn requests_add_containers_and_one_pod() {
        let pod = pod(json!({ "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } } },
            { "name": "b", "resources": { "requests": { "cpu": "1", "nvidia.com/gpu": 1 } } },
        ]}));
        let expected = [
            ("cpu", 1_500),
            ("memory", 1 << 30),
            ("nvidia.com/gpu", 1),
            ("pods", 1),
        ];
        assert_eq!(pod.requests, Resources::from(expected));
    }

    #[test]
    fn largest_init_container_counts_if_larger() {
        assert_eq!(
            cpu(
                json!({ "containers": [container("1")], "initContainers": [container("3"), container("2")] })
            ),
            3_000
        );
        assert_eq!(
            cpu(json!({ "containers": [container("4")], "initContainers": [container("3")] })),
            4_000
        );
    }

    #[test]
    fn sidecars_run_alongside_later_containers() {
        let sidecar = json!({ "name": "proxy", "restartPolicy": "Always", "resources": { "requests": { "cpu": "1" } } });
        // The ordinary init container runs next to the sidecar only if it starts later.
        assert_eq!(
            cpu(
                json!({ "containers": [container("1")], "initContainers": [sidecar, container("4")] })
            ),
            5_000
        );
        assert_eq!(
            cpu(
                json!({ "containers": [container("1")], "initContainers": [container("4"), sidecar] })
            ),
            4_000
        );
        assert_eq!(
            cpu(json!({ "containers": [container("2")], "initContainers": [sidecar, sidecar] })),
            4_000
        );
    }

    #[test]
    fn pod_level_resources_replace_those_of_containers() {
        let spec = json!({ "containers": [container("3")],
            "resources": { "requests": { "cpu": "2", "example.com/x": "1" }, "limits": { "cpu": "5", "memory": "1Gi" } } });
        let pod = pod(spec);
        assert_eq!(
            (pod.requests.get("cpu"), pod.requests.get("memory")),
            (2_000, 1 << 30)
        );
        assert_eq!(
            pod.requests.get("example.com/x"),
            0,
            "only cpu, memory and huge pages count at pod level"
        );
        assert_eq!(pod.limits.get("cpu"), 5_000);
    }

    #[test]
    fn pod_level_limit_is_request_if_containers_have_none() {
        let limits = json!({ "limits": { "cpu": "2" } });
        assert_eq!(
            cpu(json!({ "containers": [container("500m")], "resources": limits })),
            500
        );
        assert_eq!(
            cpu(json!({ "containers": [{ "name": "a" }], "resources": limits })),
            2_000
        );
    }

    #[test]
    fn overhead_is_added() {
        assert_eq!(
            cpu(json!({ "containers": [container("1")], "overhead": { "cpu": "250m" } })),
            1_250
        );
    }

    #[test]
    fn resizing_container_counts_with_its_allocated_resources() {
        let pod = pod_with(json!({
            "metadata": { "name": "a" },
            "spec": { "containers": [container("1")] },
            "status": { "containerStatuses": [{ "name": "app", "allocatedResources": { "cpu": "2" },
                                                "resources": { "requests": { "cpu": "1500m" } } }] },
        }));
        assert_eq!(pod.requests.get("cpu"), 2_000);
    }

    #[test]
    fn required_term_without_expressions_matches_no_node() {
        let with = |terms: serde_json::Value| {
            pod(json!({
                "containers": [container("1")],
                "affinity": { "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
                } },
            }))
        };
        assert_eq!(
            with(json!([{}])).problems,
            [
                "spec.affinity.nodeAffinity: a required term without expressions matches no node: expected matchExpressions"
            ]
        );
        let term = json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] });
        let beside = with(json!([{}, term]));
        assert_eq!(beside.problems, [""; 0]);
        assert_eq!(beside.node_affinity, with(json!([term])).node_affinity);
    }

    #[test]
    fn invalid_quantity_is_a_problem_of_its_pod_only() {
        let pod = pod(json!({ "containers": [
            { "name": "app", "resources": { "requests": { "cpu": "lots", "memory": "-1Gi", "pods": "0" } } },
        ]}));
        assert_eq!(
            pod.problems,
            [
                "container app: requests.cpu: \"lots\" is not a quantity: expected a number with an optional suffix such as 500m, 2, 1.5Gi or 1e3",
                "container app: requests.memory: \"-1Gi\" is negative: expected zero or more",
            ]
        );
    }

    #[test]
    fn daemon_set_pods_get_requests_from_limits() {
        let daemon_set: kubernetes::DaemonSet = serde_json::from_value(json!({
            "metadata": { "name": "logs", "namespace": "kube-system" },
            "spec": { "selector": {}, "template": { "metadata": { "labels": { "app": "logs" } }, "spec": {
                "containers": [{ "name": "a", "resources": { "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "100m" } } }],
                "initContainers": [{ "name": "i", "resources": { "limits": { "cpu": "2" } } }],
            }}},
        }))
        .unwrap();
        let daemon_set = DaemonSet::from(daemon_set);
        assert_eq!(
            daemon_set.pod.requests,
            Resources::from([("cpu", 2_000), ("memory", 1 << 30), ("pods", 1)])
        );
        assert_eq!(daemon_set.pod.key.namespace, "kube-system");
    }
}

mod pods {
    use super::*;

    #[test]
    fn placement_fields_are_converted() {
        let pod = pod_with(json!({
            "metadata": { "name": "web-0", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30,
                "ownerReferences": [
                    { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true },
                    { "apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "c" }] },
            "spec": {
                "containers": [{ "name": "a", "ports": [{ "containerPort": 80 }, { "hostPort": 8080 }, { "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP" }] }],
                "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data-web-0" } },
                            { "name": "tmp", "ephemeral": { "volumeClaimTemplate": { "spec": { "storageClassName": "gp3" } } } },
                            { "name": "conf", "configMap": { "name": "c" } }],
                "tolerations": [{ "operator": "Exists", "effect": "" }],
                "preemptionPolicy": "Never",
                "resourceClaims": [{ "name": "gpu" }],
                "schedulingGates": [{ "name": "wait" }],
            },
            "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
        }));
        assert_eq!(pod.key, PodKey::new("default", "web-0"));
        assert_eq!(
            (pod.phase, pod.unschedulable, pod.ready),
            (PodPhase::Pending, true, false)
        );
        assert_eq!(
            pod.owner.as_ref().map(|owner| owner.kind.as_str()),
            Some("ReplicaSet")
        );
        assert_eq!(
            pod.deletion.as_ref().map(|deletion| deletion.grace_seconds),
            Some(30)
        );
        let port = |ip: &str, port, protocol: &str| HostPort {
            ip: ip.into(),
            port,
            protocol: protocol.into(),
        };
        assert_eq!(
            pod.host_ports,
            [port("0.0.0.0", 8080, "TCP"), port("10.0.0.1", 53, "UDP")]
        );
        assert_eq!(
            pod.volumes,
            [
                PodVolume::Claim {
                    claim: "data-web-0".into()
                },
                PodVolume::Ephemeral {
                    volume: "tmp".into(),
                    storage_class: Some("gp3".into())
                },
            ]
        );
        assert!(pod.tolerations[0].effect.is_none() && pod.preemption_never && pod.resource_claims);
        assert_eq!(pod.scheduling_gates, ["wait"]);
        assert!(pod.problems.is_empty(), "{:?}", pod.problems);
    }

    #[test]
    fn sidecars_occupy_host_ports_and_other_init_containers_do_not() {
        let container = |name: &str, port: u16, restart_policy: Option<&str>| json!({ "name": name, "ports": [{ "hostPort": port }], "restartPolicy": restart_policy });
        let pod = pod(json!({
            "containers": [container("app", 80, None)],
            "initContainers": [container("proxy", 8080, Some("Always")), container("setup", 9090, None)],
        }));
        let ports: Vec<i32> = pod.host_ports.iter().map(|port| port.port).collect();
        assert_eq!(ports, [80, 8080]);
    }

    #[test]
    fn label_keys_of_pod_affinity_are_merged_into_the_selector() {
        let term = |expressions: Value| {
            json!({
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchExpressions": expressions },
                "matchLabelKeys": ["app", "absent"],
                "mismatchLabelKeys": ["tenant"],
            })
        };
        let with = |tenant: &str, expressions: Value| {
            let rules = json!({
                "requiredDuringSchedulingIgnoredDuringExecution": [term(expressions.clone())],
                "preferredDuringSchedulingIgnoredDuringExecution":
                    [{ "weight": 1, "podAffinityTerm": term(expressions) }],
            });
            pod_with(json!({
                "metadata": { "name": "a", "labels": { "app": "web", "tenant": tenant } },
                "spec": {
                    "containers": [container("1")],
                    "affinity": { "podAffinity": rules, "podAntiAffinity": rules },
                },
            }))
        };
        let exists = json!({ "key": "tenant", "operator": "Exists" });
        let merged = json!([
            exists,
            { "key": "app", "operator": "In", "values": ["web"] },
            { "key": "tenant", "operator": "NotIn", "values": ["a"] },
        ]);
        let selectors = |pod: &Pod| {
            let rules = [&pod.pod_affinity, &pod.pod_anti_affinity];
            let terms = rules.into_iter().flat_map(|rules| {
                let preferred = rules.preferred.iter().map(|(_, term)| term);
                rules.required.iter().chain(preferred)
            });
            let selectors = terms.map(|term| term.selector.clone().unwrap());
            selectors.collect::<Vec<_>>()
        };
        let expected = super::super::selector::label_selector(
            serde_json::from_value(json!({ "matchExpressions": merged })).unwrap(),
        );
        let expected = vec![expected.unwrap(); 4];
        assert_eq!(selectors(&with("a", json!([exists]))), expected);
        // The API server has merged the pods of a cluster, and does not follow later changes of their labels.
        for tenant in ["a", "changed"] {
            assert_eq!(selectors(&with(tenant, merged.clone())), expected);
        }
    }

    #[test]
    fn daemon_set_pod_is_recognized_without_controller_flag() {
        let owned = |kind: &str, api_version: &str| {
            pod_with(json!({
                "metadata": { "name": "a", "ownerReferences": [
                    { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true },
                    { "apiVersion": api_version, "kind": kind, "name": "y", "uid": "y" }] },
                "spec": { "containers": [] },
            }))
            .owner
            .as_ref()
            .map(|owner| owner.kind.clone())
        };
        assert_eq!(owned("DaemonSet", "apps/v1").as_deref(), Some("DaemonSet"));
        assert_eq!(owned("Node", "v1").as_deref(), Some("Node"));
        assert_eq!(owned("Job", "batch/v1").as_deref(), Some("ReplicaSet"));
    }

    #[test]
    fn unsupported_values_are_named() {
        let pod = pod(json!({
            "containers": [],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchExpressions": [{ "key": "zone", "operator": "Is", "values": ["a"] }] }] } } },
            "tolerations": [{ "key": "x", "operator": "Like" }, { "key": "x", "effect": "Never" }],
            "topologySpreadConstraints": [
                { "maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" },
                { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Maybe" }],
        }));
        assert_eq!(
            pod.problems,
            [
                "spec.affinity.nodeAffinity: operator \"Is\" of zone: expected In, NotIn, Exists, DoesNotExist, Gt or Lt",
                "spec.topologySpreadConstraints: maxSkew 0: expected a number greater than zero",
                "spec.topologySpreadConstraints: whenUnsatisfiable \"Maybe\": expected DoNotSchedule or ScheduleAnyway",
                "spec.tolerations: operator \"Like\": expected Equal, Exists, Gt or Lt",
                "spec.tolerations: effect \"Never\": expected NoSchedule, PreferNoSchedule or NoExecute",
            ]
        );
    }

    #[test]
    fn invalid_label_selector_selects_nothing() {
        let pod = pod(json!({ "containers": [], "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Like" }] } }] }));
        assert_eq!(pod.topology_spread[0].selector, None);
    }
}

mod node_pools {
    use super::*;

    fn node_pool(change: impl FnOnce(&mut Value)) -> NodePool {
        let mut manifest = json!({
            "metadata": { "name": "default", "uid": "u" },
            "spec": {
                "limits": { "cpu": "100", "nodes": "10" },
                "weight": 10,
                "template": {
                    "metadata": { "labels": { "team": "a" } },
                    "spec": {
                        "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"], "minValues": 1 }],
                        "taints": [{ "key": "dedicated", "effect": "NoSchedule" }],
                        "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
                    },
                },
                "disruption": { "consolidateAfter": "1m30s" },
            },
        });
        change(&mut manifest);
        serde_json::from_value::<karpenter::NodePool>(manifest)
            .unwrap()
            .into()
    }

    #[test]
    fn valid_node_pool_is_ready() {
        let pool = node_pool(|_| {});
        assert_eq!(pool.not_ready, None);
        assert_eq!(
            pool.limits,
            Resources::from([("cpu", 100_000), ("nodes", 10)])
        );
        assert_eq!((pool.weight, pool.replicas), (10, None));
        assert_eq!(
            pool.disruption.consolidate_after,
            ConsolidateAfter::Seconds(90)
        );
        assert_eq!(pool.disruption.budgets[0].nodes, "10%");
        let budget = json!({ "nodes": "1" });
        for without in [json!({}), json!({ "budgets": [budget] })] {
            let pool = node_pool(|pool| pool["spec"]["disruption"] = without);
            let at_once = ConsolidateAfter::Seconds(0);
            assert_eq!(pool.disruption.consolidate_after, at_once);
        }
        assert_eq!(pool.template.expire_after.as_deref(), Some("720h"));
        assert_eq!(pool.template.requirements[0].min_values, Some(1));
    }

    #[test]
    fn invalid_node_pool_names_its_problems() {
        let pool = node_pool(|pool| {
            pool["spec"]["template"]["spec"]["requirements"][0]["operator"] = "Is".into();
            pool["spec"]["limits"]["cpu"] = "many".into();
        });
        let why = pool.not_ready.unwrap();
        assert!(
            why.contains(
                "spec.template.spec.requirements[0].operator: \"Is\" is not allowed: expected "
            ),
            "{why}"
        );
        assert!(
            why.contains("spec.limits.cpu: \"many\" is not a quantity"),
            "{why}"
        );
    }

    #[test]
    fn status_conditions_of_node_pool_count() {
        let condition = |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let unready = node_pool(|pool| {
            pool["status"] = json!({ "conditions": [
                condition("Ready", "False", "UnhealthyDependents"),
                condition("NodeClassReady", "False", "NodeClassNotFound")] });
        });
        assert_eq!(
            unready.not_ready.as_deref(),
            Some("condition NodeClassReady is False: NodeClassNotFound")
        );
        let ready = node_pool(|pool| {
            pool["status"] = json!({ "conditions": [condition("Ready", "True", "Ready")] })
        });
        assert_eq!(ready.not_ready, None);
    }

    #[test]
    fn budget_with_empty_reasons_is_dropped() {
        let pool = node_pool(|pool| {
            pool["spec"]["disruption"]["budgets"] =
                json!([{ "nodes": "0", "reasons": [] }, { "nodes": "1", "reasons": ["Drifted"] }]);
        });
        let budgets = pool.disruption.budgets;
        assert_eq!(budgets.len(), 1);
        assert_eq!(budgets[0].reasons, ["Drifted"]);
    }
}

#[test]
fn pdb_with_outdated_status_allows_no_disruption() {
    let budget = |observed: i64| {
        let budget: kubernetes::PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": { "name": "web", "generation": 3 },
            "spec": { "maxUnavailable": "50%" },
            "status": { "observedGeneration": observed, "disruptionsAllowed": 2 },
        }))
        .unwrap();
        PodDisruptionBudget::from(budget)
    };
    assert_eq!(budget(2).disruptions_allowed, 0);
    assert_eq!(budget(3).disruptions_allowed, 2);
    assert_eq!(budget(3).max_unavailable.as_deref(), Some("50%"));
}

#[test]
fn storage_keeps_placement_restrictions() {
    let read = |json: Value| serde_json::from_value(json).unwrap();
    let storage = Storage::from(StorageObjects {
        classes: vec![read(json!({
            "metadata": { "name": "gp3", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }] }))],
        csi_nodes: vec![serde_json::from_value(json!({ "metadata": { "name": "n1" }, "spec": { "drivers": [
            { "name": "ebs.csi.aws.com", "allocatable": { "count": 25 } }, { "name": "efs.csi.aws.com" }] } })).unwrap()],
        ..StorageObjects::default()
    });
    let [
        StorageClass {
            is_default,
            wait_for_first_consumer,
            allowed_topologies,
            ..
        },
    ] = storage.classes.as_slice()
    else {
        panic!("{storage:?}")
    };
    assert!(*is_default && *wait_for_first_consumer);
    assert_eq!(allowed_topologies[0]["zone"], ["a", "b"]);
    assert_eq!(
        storage.attach_limits[&"n1".into()],
        [("ebs.csi.aws.com".to_owned(), 25)].into()
    );
}
