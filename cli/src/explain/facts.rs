//! Facts about a pod, node or NodePool in the snapshot of a turn, as `whittle explain` prints them.

use std::fmt::Write;

use model::{
    Lane, NodeName, NodePoolName, PodKey, Snapshot, journal::Subject, labels, node::Node,
    node_claim::NodeClaim, resources::amount_text,
};
use planner::simulate_apply;

use crate::plan::{counted, disruption};

/// Facts about the object; `None` if the snapshot does not contain it.
pub(super) fn of(snapshot: &Snapshot, subject: &Subject, lane: Lane) -> Option<String> {
    match subject {
        Subject::Pod(key) => of_pod(snapshot, key, lane),
        Subject::Node(name) => {
            let node = snapshot.nodes.iter().find(|node| node.name == *name)?;
            let mut claims = snapshot.node_claims.iter();
            let claim = claims.find(|claim| claim.status.node_name.as_ref() == Some(name));
            Some(of_node(snapshot, Some(node), claim))
        }
        Subject::NodeClaim(name) => {
            let mut claims = snapshot.node_claims.iter();
            let claim = claims.find(|claim| claim.name == *name)?;
            let own = |node: &&Node| Some(&node.name) == claim.status.node_name.as_ref();
            let node = snapshot.nodes.iter().find(own);
            Some(of_node(snapshot, node, Some(claim)))
        }
        Subject::NodePool(name) => of_pool(snapshot, name),
    }
}

fn of_pod(snapshot: &Snapshot, key: &PodKey, lane: Lane) -> Option<String> {
    let pod = snapshot.pods.iter().find(|pod| pod.key == *key)?;
    let requests = pod.requests.iter();
    let requests: Vec<String> = requests
        .filter(|(name, _)| *name != "pods")
        .map(|(name, amount)| format!("{} {name}", amount_text(name, amount)))
        .collect();
    let mut text = format!("  requests {}\n", requests.join(", "));
    if let Some(node) = &pod.node_name {
        let _ = writeln!(text, "  on node {node}");
        return Some(text);
    }
    if lane != Lane::Provisioner {
        text.push_str("  waits for a node\n");
        return Some(text);
    }
    let plan = planner::provision(snapshot, planner::Share::WHOLE);
    let own = |pod: &model::plan::PodRef| pod.key == *key;
    for launch in plan
        .actions
        .iter()
        .filter_map(|entry| entry.action.launch())
    {
        if launch.pods.iter().any(own) {
            let offering = &launch.cheapest;
            let _ = writeln!(
                text,
                "  waits, and was to get a new node of NodePool {}: {} {} {} at ${}/h, or {}",
                launch.node_pool,
                offering.instance_type,
                offering.capacity_type,
                offering.zone,
                offering.price,
                counted(launch.instance_types.len().saturating_sub(1), "other type")
            );
        }
    }
    for nomination in plan
        .nominations
        .iter()
        .filter(|nomination| own(&nomination.pod))
    {
        let _ = writeln!(text, "  waits, and is expected on {}", nomination.node);
    }
    for unplaced in plan.unplaced.iter().filter(|unplaced| own(&unplaced.pod)) {
        text.push_str("  waits, and nothing fits it:\n");
        for refusal in &unplaced.reasons {
            let _ = writeln!(text, "    {refusal}");
        }
    }
    Some(text)
}

fn of_node(snapshot: &Snapshot, node: Option<&Node>, claim: Option<&NodeClaim>) -> String {
    let mut text = String::new();
    let labels = node
        .map(|node| &node.labels)
        .or(claim.map(|claim| &claim.labels));
    let label = |key: &str| {
        let value = labels.and_then(|labels| labels.get(key));
        value.map_or("?", String::as_str)
    };
    let _ = writeln!(
        text,
        "  {} {} {} of NodePool {}",
        label(labels::INSTANCE_TYPE),
        label(labels::CAPACITY_TYPE),
        label(labels::ZONE),
        label(labels::NODE_POOL)
    );
    if let Some(claim) = claim {
        let conditions = claim.status.conditions.iter();
        let conditions: Vec<String> = conditions
            .map(|condition| format!("{}={}", condition.kind, condition.status.as_str()))
            .collect();
        let _ = writeln!(text, "  NodeClaim {}: {}", claim.name, conditions.join(" "));
    }
    if let Some(node) = node {
        let on_it = |pod: &&model::pod::Pod| pod.node_name.as_ref() == Some(&node.name);
        let pods = snapshot.pods.iter().filter(on_it).count();
        let _ = writeln!(text, "  {} on it", counted(pods, "pod"));
        text.push_str(&outlook(snapshot, &node.name));
    }
    text
}

fn outlook(snapshot: &Snapshot, node: &NodeName) -> String {
    let all = planner::node_reports(snapshot);
    let report = all.iter().find(|report| report.node == node.as_str());
    report.map_or_else(String::new, |report| {
        format!("  ${}/h  {}\n", report.price, disruption::words(report))
    })
}

fn of_pool(snapshot: &Snapshot, name: &NodePoolName) -> Option<String> {
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == *name)?;
    let mut only = Snapshot::empty(
        snapshot.cluster.clone(),
        snapshot.now,
        snapshot.settings.clone(),
    );
    only.instance_types = snapshot.instance_types.clone();
    let own = |claim: &&NodeClaim| claim.node_pool().as_ref() == Some(name);
    only.node_claims = snapshot.node_claims.iter().filter(own).cloned().collect();
    let types = snapshot
        .instance_types
        .get(name)
        .map_or(0, |types| types.len());
    let mut text = format!(
        "  {} at ${}/h; {} allowed\n",
        counted(only.node_claims.len(), "NodeClaim"),
        simulate_apply::cost(&only),
        match types {
            1 => "1 instance type is".to_owned(),
            many => format!("{many} instance types are"),
        }
    );
    if let Some(reason) = &pool.not_ready {
        let _ = writeln!(text, "  not used: {reason}");
    }
    let pass = planner::disrupt(snapshot);
    for (_, why) in pass.exhausted.iter().filter(|(pool, _)| pool == name) {
        let _ = writeln!(text, "  disruption is held back: {why}");
    }
    Some(text)
}
