//! Karpenter's dashboards, panel by panel: whether a panel shows what its title says, with the series of a relay that a real
//! Prometheus scrapes, as sums and with series per object (docs/spec/v1.15.md#boards).

use crate::dashboards::{Prometheus, relay};
use crate::support::until;

struct Panel {
    board: &'static str,
    title: &'static str,
    query: &'static str,
    /// Expected result with sums over similar objects.
    summed: Shows,
    /// Expected result with a series per object.
    per_object: Shows,
}

/// Whether a panel shows any data, certain values, or nothing; with a reason for the last two.
#[derive(Clone, Copy)]
enum Shows {
    Data,
    /// Values of all series, in ascending order.
    Values(&'static [f64], &'static str),
    Nothing(&'static str),
}

use Shows::{Data, Nothing, Values};

const NO_PROCESS: Shows = Nothing("because no controller runs as a process");
const NO_QUANTILE: Shows = Nothing("because summed up, durations are histograms");

const fn panel(
    (board, title): (&'static str, &'static str),
    query: &'static str,
    summed: Shows,
    per_object: Shows,
) -> Panel {
    Panel {
        board,
        title,
        query,
        summed,
        per_object,
    }
}

const CAPACITY: &str = "Capacity";
const PERFORMANCE: &str = "Performance";
const CONTROLLERS: &str = "Controllers";
const ALLOCATION: &str = "Controllers/Allocation";

const PANELS: [Panel; 29] = [
    panel(
        (CAPACITY, "variables"),
        r#"group by (nodepool, zone, arch, capacity_type, instance_type) (karpenter_nodes_allocatable{nodepool!="",zone!="",arch!="",capacity_type!="",instance_type!=""})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Nodes Eligible for disruption by reason"),
        "sum by (reason) (karpenter_voluntary_disruption_eligible_nodes)",
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Nodes Created"),
        r#"sum by (nodepool) (karpenter_nodes_created_total{nodepool=~".*"})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Nodes Terminated"),
        r#"sum by (nodepool) (karpenter_nodes_terminated_total{nodepool=~".*"})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Node Disruptions"),
        r#"sum by (nodepool, reason) (increase(karpenter_nodeclaims_disrupted_total{nodepool=~".*"}[1m]))"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Disruption Actions"),
        "sum by (decision, reason) (increase(karpenter_voluntary_disruption_decisions_total[1m]))",
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Pod Distribution: NodePool"),
        r#"sum by (nodepool) (karpenter_pods_state{nodepool!=""})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Pod Distribution: zone"),
        r#"sum by (zone) (karpenter_pods_state{zone!=""})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Pod Distribution: architecture"),
        r#"sum by (arch) (karpenter_pods_state{arch!=""})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Pod Distribution: capacity type"),
        r#"sum by (capacity_type) (karpenter_pods_state{capacity_type!=""})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Pod Distribution: instance type"),
        r#"sum by (instance_type) (karpenter_pods_state{instance_type!=""})"#,
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "Pod Phase"),
        "sum by (phase) (karpenter_pods_state)",
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "NodePool Summary: use of limits"),
        "sum by (nodepool, resource_type) (karpenter_nodepools_usage) / sum by (nodepool, resource_type) (karpenter_nodepools_limit)",
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "NodePool Summary: allocatable"),
        "sum by (nodepool, resource_type) (karpenter_nodes_allocatable)",
        Data,
        Data,
    ),
    panel(
        (CAPACITY, "NodePool Summary: nodes"),
        r#"count by (nodepool) (karpenter_nodes_allocatable{resource_type="cpu"})"#,
        Values(
            &[2.0],
            "because summed up, nodes that are alike have one series",
        ),
        Values(&[3.0], "because each node has a series"),
    ),
    panel(
        (CAPACITY, "Spot Node Percentage"),
        r#"100 * count(karpenter_nodes_allocatable{resource_type="cpu",capacity_type="spot"}) / count(karpenter_nodes_allocatable{resource_type="cpu"})"#,
        Values(
            &[50.0],
            "because summed up, nodes that are alike have one series",
        ),
        Values(&[200.0 / 3.0], "because each node has a series"),
    ),
    panel(
        (CAPACITY, "Node Summary: use of CPU"),
        r#"(sum by (node_name) (karpenter_nodes_total_daemon_requests{resource_type="cpu",node_name!=""}) + sum by (node_name) (karpenter_nodes_total_pod_requests{resource_type="cpu",node_name!=""})) / sum by (node_name) (karpenter_nodes_allocatable{resource_type="cpu",node_name!=""})"#,
        Nothing("because summed up, no series names its node"),
        // Pods of the first node request 2 cores, and daemons, which are counted twice, 1 of them.
        Values(
            &[3.0 / 3.9],
            "because a node with pods has individual series",
        ),
    ),
    panel(
        (CAPACITY, "Node Summary: use of memory"),
        r#"(sum by (node_name) (karpenter_nodes_total_daemon_requests{resource_type="memory",node_name!=""}) + sum by (node_name) (karpenter_nodes_total_pod_requests{resource_type="memory",node_name!=""})) / sum by (node_name) (karpenter_nodes_allocatable{resource_type="memory",node_name!=""})"#,
        Nothing("because summed up, no series names its node"),
        Values(&[0.2], "because a node with pods has individual series"),
    ),
    panel(
        (CAPACITY, "Node Summary: age"),
        "time() - node_boot_time_seconds",
        Nothing("because it is a series of the node exporter"),
        Nothing("because it is a series of the node exporter"),
    ),
    panel(
        (PERFORMANCE, "Node Termination Latency"),
        r#"max by (quantile) (karpenter_nodes_termination_duration_seconds{quantile!=""})"#,
        NO_QUANTILE,
        Data,
    ),
    panel(
        (PERFORMANCE, "Pod Startup Latency"),
        r#"max by (quantile) (karpenter_pods_startup_duration_seconds{quantile!=""})"#,
        NO_QUANTILE,
        Data,
    ),
    panel(
        (PERFORMANCE, "Controller Reconciliation Latency"),
        "histogram_quantile(0.9, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket[1m])))",
        NO_PROCESS,
        NO_PROCESS,
    ),
    panel(
        (PERFORMANCE, "Controller Reconciliation Rate"),
        "sum by (controller) (rate(controller_runtime_reconcile_total[1m]))",
        NO_PROCESS,
        NO_PROCESS,
    ),
    panel(
        (CONTROLLERS, "Work Queue Depth"),
        "max by (name) (workqueue_depth)",
        NO_PROCESS,
        NO_PROCESS,
    ),
    panel(
        (CONTROLLERS, "Reconciliation Rate by Controller"),
        "sum by (controller, result) (rate(controller_runtime_reconcile_total[1m]))",
        NO_PROCESS,
        NO_PROCESS,
    ),
    panel(
        (CONTROLLERS, "Reconciliation Errors by Controller"),
        "sum by (controller) (rate(controller_runtime_reconcile_errors_total[1m]))",
        NO_PROCESS,
        NO_PROCESS,
    ),
    panel(
        (CONTROLLERS, "Reconciliation Latency by Controller"),
        "histogram_quantile(0.5, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket[1m])))",
        NO_PROCESS,
        NO_PROCESS,
    ),
    panel(
        (ALLOCATION, "Allocation Latency: scheduling"),
        "histogram_quantile(0.5, sum by (le) (rate(karpenter_allocation_controller_scheduling_duration_seconds_bucket[1m])))",
        Nothing("because Karpenter itself serves it no more"),
        Nothing("because Karpenter itself serves it no more"),
    ),
    panel(
        (ALLOCATION, "Allocation Latency: binding"),
        "histogram_quantile(0.5, sum by (le) (rate(karpenter_allocation_controller_bind_duration_seconds_bucket[1m])))",
        Nothing("because Karpenter itself serves it no more"),
        Nothing("because Karpenter itself serves it no more"),
    ),
];

/// Checks every panel. Panels that must be empty come last, once the others have shown that Prometheus has scraped.
async fn judge(per_object: bool) {
    let (_server, _relay, address) = relay(per_object).await;
    let prometheus = Prometheus::start(&address);
    prometheus.answers("up == 1").await;
    let expected = |panel: &Panel| match per_object {
        true => panel.per_object,
        false => panel.summed,
    };
    for panel in &PANELS {
        let Panel {
            board,
            title,
            query,
            ..
        } = panel;
        let parses = prometheus.query(query).await;
        assert!(parses.is_ok(), "{board}, {title}: {query}: {parses:?}");
        match expected(panel) {
            Data => prometheus.answers(query).await,
            Values(values, why) => {
                let what = format!("{board}, {title}: {values:?} {why}");
                until(&what, async || {
                    let mut shown = prometheus.query(query).await.unwrap();
                    shown.sort_by(f64::total_cmp);
                    let is_close = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-9;
                    shown.len() == values.len() && shown.iter().zip(values).all(is_close)
                })
                .await;
            }
            Nothing(_) => {}
        }
    }
    for panel in &PANELS {
        if let Nothing(why) = expected(panel) {
            let shown = prometheus.query(panel.query).await.unwrap();
            let Panel { board, title, .. } = panel;
            assert!(
                shown.is_empty(),
                "{board}, {title} is empty {why}: {shown:?}"
            );
        }
    }
}

#[tokio::test]
async fn panels_of_karpenters_dashboards_work_with_sums() {
    judge(false).await;
}

#[tokio::test]
async fn panels_of_karpenters_dashboards_work_with_series_per_object() {
    judge(true).await;
}
