//! Pods without a node.

use std::collections::BTreeMap;

use model::{
    Plan, Snapshot,
    plan::{Action, Expected},
    pod::{Pod, PodPhase},
    resources::{CPU, MEMORY},
};

use super::Pending;

/// Pods without a node, each with its part of this plan.
pub(crate) fn pending(snapshot: &Snapshot, plan: &Plan) -> Vec<Pending> {
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for unplaced in &plan.unplaced {
        let explanation = unplaced
            .reasons
            .iter()
            .map(|refusal| match &refusal.node_pool {
                Some(pool) => format!("NodePool {pool}: {}", refusal.text),
                None => refusal.text.clone(),
            });
        reasons.insert(unplaced.pod.key.to_string(), explanation.collect());
    }
    for planned in &plan.actions {
        if let Action::Launch(launch) = &planned.action {
            let bought = &launch.cheapest;
            let explanation = format!(
                "a node of NodePool {} is wanted for it: {} {} in {} or the like",
                launch.node_pool, bought.instance_type, bought.capacity_type, bought.zone
            );
            let pods = launch.pods.iter();
            reasons.extend(pods.map(|pod| (pod.key.to_string(), vec![explanation.clone()])));
        }
    }
    for nomination in &plan.nominations {
        let explanation = match &nomination.node {
            Expected::Node(name) => format!("it is expected on node {name}"),
            Expected::NodeClaim(name) => format!("NodeClaim {name} is on its way for it"),
        };
        reasons.insert(nomination.pod.key.to_string(), vec![explanation]);
    }
    let waiting = snapshot.pods.iter().filter(|pod| is_pending(pod));
    waiting
        .map(|pod| {
            let name = pod.key.to_string();
            Pending {
                reasons: reasons.remove(&name).unwrap_or_else(|| elsewhere(pod)),
                name,
                since: pod.created_at,
                cpu: pod.requests.get(CPU),
                memory: pod.requests.get(MEMORY),
            }
        })
        .collect()
}

pub(crate) fn is_pending(pod: &Pod) -> bool {
    pod.node_name.is_none() && pod.deletion.is_none() && pod.phase == PodPhase::Pending
}

/// The reasons why no NodePool is considered for a pod.
fn elsewhere(pod: &Pod) -> Vec<String> {
    let why = match pod.scheduling_gates.as_slice() {
        [] if pod.unschedulable => "nothing is planned for it".to_owned(),
        [] => "the scheduler has not found it unschedulable".to_owned(),
        gates => format!("it waits for its scheduling gates: {}", gates.join(", ")),
    };
    vec![why]
}
