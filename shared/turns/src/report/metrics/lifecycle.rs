//! Progress of NodeClaims and Nodes, and its durations.

use api::{
    conditions::types::{
        DRAINED, INSTANCE_TERMINATING, REBOOT_ISSUED, REBOOT_SUCCEEDED, REBOOTING, REGISTERED,
    },
    names::{annotation, label},
};
use jiff::Timestamp;
use model::{
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
};
use ports::metrics::Metric;

use super::{count, label_value, timed};
use crate::report::transitions::Transition;

/// Steps of a NodeClaim's lifecycle, by its conditions' transitions.
pub(crate) fn of_transitions(claim: &NodeClaim, transitions: &[Transition<'_>]) -> Vec<Metric> {
    let pool = || ("nodepool", label_value(&claim.labels, label::NODE_POOL));
    let steps = transitions.iter().flat_map(|transition| {
        let condition = transition.after;
        let happened = condition.status == ConditionStatus::True;
        let step = match condition.kind.as_str() {
            REGISTERED if happened => {
                let zone = ("zone", label_value(&claim.labels, label::ZONE));
                Some(count("karpenter_nodes_created_total", [pool(), zone]))
            }
            DRAINED if happened => Some(count("karpenter_nodes_drained_total", [pool()])),
            _ => None,
        };
        let reboot = of_reboot(claim, transition);
        let transition = count(
            "operator_nodeclaim_status_condition_transitions_total",
            [
                ("type", condition.kind.clone()),
                ("status", format!("{:?}", condition.status)),
                ("reason", condition.reason.clone()),
                pool(),
            ],
        );
        std::iter::once(transition).chain(step).chain(reboot)
    });
    steps.collect()
}

/// A finished reboot: its result, and how long it took.
fn of_reboot(claim: &NodeClaim, transition: &Transition<'_>) -> Vec<Metric> {
    let Transition { after, .. } = transition;
    let is_over = after.kind == REBOOTING && after.status == ConditionStatus::False;
    let begun = claim.condition(REBOOTING).filter(|_| is_over);
    let Some(begun) = begun.filter(|begun| begun.status == ConditionStatus::True) else {
        return Vec::new();
    };
    let was_issued = begun.reason == REBOOT_ISSUED;
    let was_drained = claim
        .annotations
        .contains_key(annotation::REBOOT_PRE_BOOT_ID);
    let called = claim.annotations.get(annotation::REBOOT_LAST_CALL);
    let result = match after.reason.as_str() {
        REBOOT_SUCCEEDED => "succeeded",
        _ if was_issued => "recovery_timeout",
        _ if was_drained => "provider_error",
        _ => "invalid_request",
    };
    let label = ("result", result.to_owned());
    let took = after.last_transition.duration_since(begun.last_transition);
    let issued_at = called.and_then(|called| called.parse::<Timestamp>().ok());
    let recovery = issued_at
        .filter(|_| result == "succeeded")
        .map(|issued_at| {
            let took = after.last_transition.duration_since(issued_at);
            let name = "karpenter_nodes_reboot_recovery_duration_seconds";
            timed(name, [], took)
        });
    let over = [
        count("karpenter_nodes_reboots_total", [label.clone()]),
        timed(
            "karpenter_nodes_reboot_duration_seconds",
            [label.clone()],
            took,
        ),
    ];
    over.into_iter().chain(recovery).collect()
}

/// A NodeClaim whose finalizer was removed.
pub(crate) fn of_finished_claim(claim: &NodeClaim, now: Timestamp) -> Vec<Metric> {
    let pool = ("nodepool", label_value(&claim.labels, label::NODE_POOL));
    let terminated = count(
        "karpenter_nodeclaims_terminated_total",
        [
            pool.clone(),
            (
                "capacity_type",
                label_value(&claim.labels, label::CAPACITY_TYPE),
            ),
            ("zone", label_value(&claim.labels, label::ZONE)),
        ],
    );
    let deleted = claim.deleted_at.map(|at| {
        let name = "karpenter_nodeclaims_termination_duration_seconds";
        timed(name, [pool.clone()], now.duration_since(at))
    });
    let ending = claim.condition(INSTANCE_TERMINATING);
    let ending = ending.filter(|ending| ending.status == ConditionStatus::True);
    let ended = ending.map(|ending| {
        let name = "karpenter_nodeclaims_instance_termination_duration_seconds";
        let took = now.duration_since(ending.last_transition);
        timed(name, [pool.clone()], took)
    });
    let all = std::iter::once(terminated).chain(deleted).chain(ended);
    all.collect()
}

/// A Node whose finalizer was removed.
pub(crate) fn of_finished_node(node: &Node, now: Timestamp) -> Vec<Metric> {
    let pool = ("nodepool", label_value(&node.labels, label::NODE_POOL));
    let zone = ("zone", label_value(&node.labels, label::ZONE));
    let terminated = count("karpenter_nodes_terminated_total", [pool.clone(), zone]);
    let since = |name, at: Option<Timestamp>| {
        let took = now.duration_since(at?);
        Some(timed(name, [pool.clone()], took))
    };
    let termination = since(
        "karpenter_nodes_termination_duration_seconds",
        node.deleted_at,
    );
    let lifetime = since("karpenter_nodes_lifetime_duration_seconds", node.created_at);
    let all = std::iter::once(terminated)
        .chain(termination)
        .chain(lifetime);
    all.collect()
}
