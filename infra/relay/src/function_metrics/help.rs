/// Help text of a metric.
pub(crate) fn help(name: &str) -> &'static str {
    match name {
        "karpenter_nodeclaims_created_total" => "NodeClaims created, by reason",
        "karpenter_nodeclaims_disrupted_total" => "NodeClaims disrupted, by reason",
        "karpenter_nodeclaims_unhealthy_disrupted_total" => {
            "NodeClaims disrupted because their node was unhealthy"
        }
        "karpenter_nodeclaims_terminated_total" => "NodeClaims terminated",
        "karpenter_pods_disruption_initiated_total" => "Pods whose node was disrupted",
        "karpenter_pods_eviction_requests_total" => {
            "Eviction requests, by response code of the API server"
        }
        "karpenter_pods_drained_total" => "Pods drained from nodes",
        "karpenter_nodes_created_total" => "Nodes created",
        "karpenter_nodes_terminated_total" => "Nodes terminated",
        "karpenter_nodes_drained_total" => "Nodes drained",
        "karpenter_pod_deletion_cost_pod_annotation_writes_total" => {
            "Writes of the deletion cost annotation to pods"
        }
        "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes" => {
            "Nodes whose pods' deletion costs have not been written yet"
        }
        "karpenter_voluntary_disruption_decisions_total" => "Disruption decisions",
        "karpenter_voluntary_disruption_decisions_by_nodepool_total" => {
            "Disruption decisions, per NodePool"
        }
        "karpenter_voluntary_disruption_failed_validations_total" => {
            "Disruption commands that failed validation"
        }
        "karpenter_voluntary_disruption_queue_failures_total" => {
            "Disruption commands that were rolled back"
        }
        "karpenter_interruption_received_messages_total" => {
            "Interruption messages about nodes of this cluster"
        }
        "karpenter_nodeclaims_termination_duration_seconds" => {
            "Time from the deletion of a NodeClaim until its removal"
        }
        "karpenter_nodeclaims_instance_termination_duration_seconds" => {
            "Time from the end of a drain until the instance is terminated"
        }
        "karpenter_nodes_termination_duration_seconds" => {
            "Time from the deletion of a Node until its removal"
        }
        "karpenter_nodes_lifetime_duration_seconds" => "Lifetime of Nodes",
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" => {
            "Duration of disruption evaluations"
        }
        "operator_nodeclaim_status_condition_transitions_total" => {
            "Transitions of NodeClaim conditions"
        }
        "karpenter_nodepools_usage" => {
            "Resources of the NodePool's nodes, in cores, bytes and counts"
        }
        "karpenter_nodepools_limit" => "Resource limits of the NodePool",
        "karpenter_nodepools_allowed_disruptions" => {
            "Nodes of the NodePool that its budgets allow to disrupt at once, by reason"
        }
        "karpenter_nodepools_nodes_consuming_budgets" => {
            "Nodes of the NodePool that are being deleted or not ready"
        }
        "karpenter_nodes_allocatable" => "Allocatable resources, summed over similar nodes",
        "karpenter_nodes_total_pod_requests" => "Requests of pods, summed over similar nodes",
        "karpenter_cluster_state_node_count" => "Nodes of the cluster, managed or not",
        "karpenter_cluster_utilization_percent" => {
            "Share of allocatable resources that pods request"
        }
        "karpenter_voluntary_disruption_eligible_nodes" => {
            "Nodes eligible for disruption, by reason, regardless of budgets"
        }
        "karpenter_nodepools_cost_total" => "Price of the NodePool's nodes, in dollars per hour",
        "karpenter_scheduler_unschedulable_pods_count" => {
            "Pods that no existing or new node can run"
        }
        "karpenter_scheduler_ignored_pods_count" => {
            "Pods ignored by scheduling because of invalid requests"
        }
        "karpenter_scheduler_pending_pods_by_effective_zone_count" => {
            "Pending pods, by the zone that they can use: flexible for several, none if no zone satisfies all constraints"
        }
        "karpenter_scheduler_scheduling_duration_seconds" => "Duration of scheduling",
        "karpenter_consolidation_score" => {
            "Savings of a move relative to its disruption, as shares of the NodePool"
        }
        "karpenter_consolidation_moves_total" => "Consolidation moves evaluated by policy Balanced",
        "karpenter_interruption_deleted_messages_total" => {
            "Interruption messages about nodes of this cluster that were handled"
        }
        "karpenter_interruption_message_queue_duration_seconds" => {
            "Age of interruption messages when received"
        }
        "karpenter_interruption_instance_status_unhealthy_total" => {
            "Instances that started failing an EC2 status check"
        }
        "karpenter_cloudprovider_duration_seconds" => {
            "Duration of requests to launch and to terminate instances"
        }
        "karpenter_cloudprovider_errors_total" => {
            "Failed launches and terminations of instances, by class of error"
        }
        "karpenter_cloudprovider_instance_launch_failures_total" => {
            "Errors in EC2's responses to launches, one per offering"
        }
        "karpenter_cloudprovider_instance_termination_failures_total" => {
            "Instances that EC2 failed to terminate"
        }
        "karpenter_pods_bound_duration_seconds" => "Time from a pod's creation until it is bound",
        "karpenter_pods_startup_duration_seconds" => "Time from a pod's creation until it is ready",
        name if name.ends_with("_status_condition_transitions_total") => {
            "Transitions of status conditions"
        }
        name if name.ends_with("_status_condition_transition_seconds") => {
            "Time for which a condition had its status before the transition"
        }
        name if name.ends_with("_termination_duration_seconds") => {
            "Time from an object's deletion until its removal"
        }
        "karpenter_pods_state" => "Number of similar pods",
        _ => "Reported by a function of another version",
    }
}
