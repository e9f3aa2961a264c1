/// What a metric counts or measures.
pub(crate) fn help(name: &str) -> &'static str {
    match name {
        "karpenter_nodeclaims_created_total" => "NodeClaims created, by why",
        "karpenter_nodeclaims_disrupted_total" => "NodeClaims deleted, by why",
        "karpenter_nodeclaims_unhealthy_disrupted_total" => {
            "NodeClaims deleted because their nodes stayed unhealthy"
        }
        "karpenter_nodeclaims_terminated_total" => "NodeClaims that are gone with their instance",
        "karpenter_pods_disruption_initiated_total" => {
            "Pods that have to move because their node was disrupted"
        }
        "karpenter_pods_eviction_requests_total" => {
            "Evictions asked for, by the API server's answer"
        }
        "karpenter_pods_drained_total" => "Pods that left a node which is drained",
        "karpenter_nodes_created_total" => "Nodes that joined",
        "karpenter_nodes_terminated_total" => "Nodes that are gone",
        "karpenter_nodes_drained_total" => "Nodes that were drained",
        "karpenter_pod_deletion_cost_pod_annotation_writes_total" => {
            "Deletion costs that were to be written to pods"
        }
        "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes" => {
            "Nodes whose pods' deletion costs wait for a later pass"
        }
        "karpenter_voluntary_disruption_decisions_total" => "Disruptions decided",
        "karpenter_voluntary_disruption_decisions_by_nodepool_total" => {
            "Disruptions decided, for each NodePool concerned"
        }
        "karpenter_voluntary_disruption_failed_validations_total" => {
            "Disruptions that did not hold when they were judged again"
        }
        "karpenter_voluntary_disruption_queue_failures_total" => "Disruptions that were taken back",
        "karpenter_interruption_received_messages_total" => {
            "Announcements of AWS about nodes of this cluster"
        }
        "karpenter_nodeclaims_termination_duration_seconds" => {
            "From the deletion of a NodeClaim until it is gone"
        }
        "karpenter_nodeclaims_instance_termination_duration_seconds" => {
            "From the end of an instance's pods until it is gone"
        }
        "karpenter_nodes_termination_duration_seconds" => {
            "From the deletion of a Node until it is gone"
        }
        "karpenter_nodes_lifetime_duration_seconds" => "How long Nodes lived",
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds" => {
            "How long it took to find something to disrupt"
        }
        "operator_nodeclaim_status_condition_transitions_total" => {
            "Changes of NodeClaims' conditions"
        }
        "karpenter_nodepools_usage" => {
            "What the NodePool's nodes come to, in cores, bytes and pieces"
        }
        "karpenter_nodepools_limit" => "What the NodePool's nodes may come to",
        "karpenter_nodepools_allowed_disruptions" => {
            "Nodes of the NodePool that its budgets let go at once, by reason"
        }
        "karpenter_nodepools_nodes_consuming_budgets" => {
            "Nodes of the NodePool that are on their way out or not ready"
        }
        "karpenter_nodes_allocatable" => {
            "What pods may request of nodes that are alike, all together"
        }
        "karpenter_nodes_total_pod_requests" => {
            "What pods request of nodes that are alike, all together"
        }
        "karpenter_cluster_state_node_count" => "Nodes of the cluster, whoever made them",
        "karpenter_cluster_utilization_percent" => "Share of what nodes have that pods request",
        "karpenter_voluntary_disruption_eligible_nodes" => {
            "Nodes that may be disrupted, by reason, whatever budgets allow"
        }
        "karpenter_nodepools_cost_total" => "Dollars per hour that the NodePool's nodes cost",
        "karpenter_scheduler_unschedulable_pods_count" => {
            "Pods that no node would take, whatever was launched"
        }
        "karpenter_scheduler_ignored_pods_count" => {
            "Pods that ask for something that cannot be, so that no place is looked for"
        }
        "karpenter_scheduler_pending_pods_by_effective_zone_count" => {
            "Pods that wait, by the zone that they can use: flexible for several, none where nothing satisfies all they ask for"
        }
        "karpenter_scheduler_scheduling_duration_seconds" => "How long it took to make a plan",
        "karpenter_consolidation_score" => {
            "Share of a NodePool's cost that a move saves for each share of its disruption"
        }
        "karpenter_consolidation_moves_total" => "Moves that policy Balanced judged",
        "karpenter_interruption_deleted_messages_total" => {
            "Announcements of AWS about nodes of this cluster that were dealt with"
        }
        "karpenter_interruption_message_queue_duration_seconds" => {
            "Age of announcements of AWS when they were read"
        }
        "karpenter_interruption_instance_status_unhealthy_total" => {
            "Instances that began to fail a check of EC2"
        }
        "karpenter_cloudprovider_errors_total" => {
            "Instances that EC2 did not launch or end when asked to, by class of error"
        }
        "karpenter_cloudprovider_instance_launch_failures_total" => {
            "Errors in EC2's answers to launches, one for each offering"
        }
        "karpenter_cloudprovider_instance_termination_failures_total" => {
            "Instances that EC2 refused to end"
        }
        "karpenter_pods_bound_duration_seconds" => "From a pod's creation until it has a node",
        "karpenter_pods_startup_duration_seconds" => "From a pod's creation until it is ready",
        name if name.ends_with("_status_condition_transitions_total") => "Changes of conditions",
        name if name.ends_with("_status_condition_transition_seconds") => {
            "How long a condition had its status before it changed"
        }
        name if name.ends_with("_termination_duration_seconds") => {
            "From an object's deletion until it is gone"
        }
        "karpenter_pods_state" => "Pods that are alike: a number, not a series for each",
        _ => "Told by a function of another version",
    }
}
