use api::names::annotation::{DELETION_COST_WRITTEN, POD_DELETION_COST};
use jiff::Timestamp;
use model::{
    PodKey,
    node_claim::{NodeClaim, NodeClaimStatus},
    node_pool::{Budget, NodePool},
    pod::{Owner, PodShape},
};

use super::*;

const GIB: i64 = 1 << 30;

fn snapshot() -> Snapshot {
    let entry = serde_json::json!({"type": "endpoint", "endpoint": "https://127.0.0.1"});
    let settings = crate::Entry::read(&entry).unwrap().settings;
    let mut snapshot = Snapshot::empty("demo".into(), Timestamp::UNIX_EPOCH, settings);
    snapshot.node_pools = vec![NodePool {
        name: "default".into(),
        limits: Resources::from([(CPU, 100_000)]),
        ..NodePool::default()
    }];
    snapshot
}

fn node(name: &str, instance_type: &str) -> Node {
    let labels = [
        (NODE_POOL, "default"),
        (CAPACITY_TYPE, "spot"),
        (ZONE, "us-east-1a"),
        (ARCH, "amd64"),
        (INSTANCE_TYPE, instance_type),
    ];
    let amounts = Resources::from([(CPU, 3_920), (MEMORY, 14 * GIB), (PODS, 58)]);
    Node {
        name: name.into(),
        provider_id: format!("aws:///us-east-1a/i-{name}"),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        capacity: amounts.clone(),
        allocatable: amounts,
        ..Node::default()
    }
}

fn pod(name: &str, node: Option<&str>, phase: PodPhase) -> Pod {
    Pod {
        key: PodKey::new("default", name),
        node_name: node.map(Into::into),
        phase,
        shape: PodShape {
            requests: Resources::from([(CPU, 980), (MEMORY, GIB), (PODS, 1)]),
            ..PodShape::default()
        }
        .into(),
        ..Pod::default()
    }
}

/// `{label=value} value` of each series of a metric.
fn of_metric(gauges: &[Series], name: &str) -> Vec<String> {
    let own = gauges.iter().filter(|series| series.name == name);
    let own = own.map(|series| {
        let labels = series
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        format!("{} {}", labels.collect::<Vec<_>>().join(","), series.value)
    });
    own.collect()
}

const GROUP_LABELS: &str =
    "arch=amd64,capacity_type=spot,instance_type=m5.xlarge,managed=true,nodepool=default";

#[test]
fn nodes_with_equal_labels_are_summed_in_base_units() {
    let mut snapshot = snapshot();
    snapshot.nodes = vec![node("a", "m5.xlarge"), node("b", "m5.xlarge")];
    snapshot.pods = vec![
        pod("web-0", Some("a"), PodPhase::Running),
        pod("web-1", Some("b"), PodPhase::Running),
        pod("done", Some("b"), PodPhase::Succeeded),
    ];
    let gauges = cluster_gauges(&snapshot);
    let zone = "zone=us-east-1a";
    assert_eq!(
        of_metric(&gauges, "karpenter_nodes_allocatable"),
        [
            format!("{GROUP_LABELS},resource_type=cpu,{zone} 7.84"),
            format!("{GROUP_LABELS},resource_type=memory,{zone} 30064771072"),
            format!("{GROUP_LABELS},resource_type=pods,{zone} 116"),
        ]
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_nodes_total_pod_requests"),
        [
            format!("{GROUP_LABELS},resource_type=cpu,{zone} 1.96"),
            format!("{GROUP_LABELS},resource_type=memory,{zone} 2147483648"),
            format!("{GROUP_LABELS},resource_type=pods,{zone} 2"),
        ],
        "a pod that is over requests nothing"
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_cluster_utilization_percent")[0],
        "resource_type=cpu 25"
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_cluster_state_node_count"),
        [" 2"]
    );
}

#[test]
fn pods_are_counted_by_phase_and_node_labels() {
    let mut snapshot = snapshot();
    let other = Node {
        name: "other".into(),
        ..Node::default()
    };
    snapshot.nodes = vec![node("a", "m5.xlarge"), other];
    snapshot.pods = vec![
        pod("system", Some("other"), PodPhase::Running),
        pod("web-0", Some("a"), PodPhase::Running),
        pod("web-1", Some("a"), PodPhase::Running),
        pod("web-2", None, PodPhase::Pending),
    ];
    assert_eq!(
        of_metric(&cluster_gauges(&snapshot), "karpenter_pods_state"),
        [
            "managed=false,phase=Pending,scheduled=false 1".to_owned(),
            format!("{GROUP_LABELS},phase=Running,scheduled=true,zone=us-east-1a 2"),
            "managed=false,phase=Running,scheduled=true 1".to_owned(),
        ]
    );
}

#[test]
fn node_pool_without_nodes_has_usage_and_limits() {
    let gauges = cluster_gauges(&snapshot());
    assert_eq!(
        of_metric(&gauges, "karpenter_nodepools_limit"),
        ["nodepool=default,resource_type=cpu 100"]
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_nodepools_usage"),
        [
            "nodepool=default,resource_type=cpu 0",
            "nodepool=default,resource_type=memory 0",
            "nodepool=default,resource_type=pods 0",
        ]
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_cluster_state_node_count"),
        [" 0"]
    );
}

#[test]
fn resources_are_named_in_snake_case() {
    let mut snapshot = snapshot();
    snapshot.node_pools[0].limits = Resources::from([("ephemeral-storage", 5)]);
    assert_eq!(
        of_metric(&cluster_gauges(&snapshot), "karpenter_nodepools_limit"),
        ["nodepool=default,resource_type=ephemeral_storage 5"]
    );
}

#[test]
fn too_many_groups_drop_the_instance_type_label() {
    let mut snapshot = snapshot();
    let numbers = 0..=GROUPS_MAX;
    snapshot.nodes = numbers
        .map(|number| node(&format!("n{number}"), &format!("t{number}")))
        .collect();
    let allocatable = of_metric(&cluster_gauges(&snapshot), "karpenter_nodes_allocatable");
    let all = 58 * snapshot.nodes.len();
    let pods = format!(
        "arch=amd64,capacity_type=spot,managed=true,nodepool=default,resource_type=pods,zone=us-east-1a {all}"
    );
    assert_eq!(allocatable.len(), 3, "{allocatable:?}");
    assert!(allocatable.contains(&pods), "{allocatable:?}");
}

#[test]
fn nodes_with_pending_deletion_costs_are_counted_while_the_gate_is_on() {
    let name = "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes";
    let written = |gate: bool, nodes: usize| {
        let mut snapshot = snapshot();
        let gates = &mut snapshot.settings.feature_gates;
        gates.insert(planner::POD_DELETION_COST_GATE.to_owned(), gate);
        for at in 0..nodes {
            let own = node(&format!("n{at}"), "m5.xlarge");
            snapshot.node_claims.push(NodeClaim {
                name: format!("c{at}").as_str().into(),
                labels: own.labels.clone(),
                status: NodeClaimStatus {
                    provider_id: own.provider_id.clone(),
                    ..NodeClaimStatus::default()
                },
                ..NodeClaim::default()
            });
            let mut web = pod(
                &format!("web-{at}"),
                Some(own.name.as_str()),
                PodPhase::Running,
            );
            web.owner = Some(Owner {
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: "web".to_owned(),
                uid: "web".into(),
            });
            let mut shape = (*web.shape).clone();
            for key in [POD_DELETION_COST, DELETION_COST_WRITTEN] {
                shape.annotations.insert(key.to_owned(), "-1".to_owned());
            }
            web.shape = shape.into();
            snapshot.nodes.push(own);
            snapshot.pods.push(web);
        }
        of_metric(&cluster_gauges(&snapshot), name)
    };
    // None of the nodes may be emptied, so the written costs are to be removed.
    assert_eq!(written(true, 60), ["nodepool=default 10"]);
    assert_eq!(written(true, 0), ["nodepool=default 0"]);
    assert_eq!(written(false, 60), [""; 0]);
}

#[test]
fn eligible_nodes_and_node_pool_cost_are_published() {
    let gauges = cluster_gauges(&snapshot());
    assert_eq!(
        of_metric(&gauges, "karpenter_voluntary_disruption_eligible_nodes"),
        [
            "reason=unhealthy 0",
            "reason=empty 0",
            "reason=drifted 0",
            "reason=underutilized 0"
        ]
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_nodepools_cost_total"),
        ["nodepool=default 0"]
    );
}

#[test]
fn budgets_are_published_by_reason() {
    let mut snapshot = snapshot();
    let only_empty = Budget {
        nodes: "3".to_owned(),
        reasons: vec!["Empty".to_owned()],
        ..Budget::default()
    };
    snapshot.node_pools[0].disruption.budgets = vec![only_empty];
    let gauges = cluster_gauges(&snapshot);
    assert_eq!(
        of_metric(&gauges, "karpenter_nodepools_allowed_disruptions"),
        [
            "nodepool=default,reason=unhealthy 2147483647",
            "nodepool=default,reason=empty 3",
            "nodepool=default,reason=drifted 2147483647",
            "nodepool=default,reason=underutilized 2147483647",
        ]
    );
    assert_eq!(
        of_metric(&gauges, "karpenter_nodepools_nodes_consuming_budgets"),
        [
            "nodepool=default,reason=unhealthy 0",
            "nodepool=default,reason=empty 0",
            "nodepool=default,reason=drifted 0",
            "nodepool=default,reason=underutilized 0",
        ]
    );
}

#[test]
fn pending_pods_are_counted_by_cause_and_zone() {
    let by_zone = [
        (EffectiveZone::Only("us-east-1a".to_owned()), 2),
        (EffectiveZone::Flexible, 3),
        (EffectiveZone::Conflicting, 1),
    ];
    let gauges = waiting_gauges(&Waiting {
        unplaced: 4,
        pending: PendingPods {
            ignored: 1,
            by_zone: by_zone.into(),
        },
    });
    let of = |name: &str| of_metric(&gauges, &format!("karpenter_scheduler_{name}_count"));
    assert_eq!(of("unschedulable_pods"), ["controller=provisioner 4"]);
    assert_eq!(of("ignored_pods"), [" 1"]);
    assert_eq!(
        of("pending_pods_by_effective_zone"),
        [
            "controller=provisioner,zone=us-east-1a 2",
            "controller=provisioner,zone=flexible 3",
            "controller=provisioner,zone=none 1",
        ]
    );
}
