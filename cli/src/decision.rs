//! A plan in the format of the conformance corpus' `expect`.

use model::{
    NanosPerHour, Plan, labels,
    plan::{Launch, Unplaced},
    resources::amount_text,
    selector::NodeSelectorRequirement,
};
use planner::{Blocked, Command, DisruptionResult};
use serde_json::{Map, Value, json};

pub(crate) fn provisioning(plan: &Plan) -> Value {
    let launches = plan.actions.iter();
    let launches: Vec<&Launch> = launches.filter_map(|entry| entry.action.launch()).collect();
    let cost: i64 = launches.iter().map(|launch| launch.cheapest.price.0).sum();
    let errors: Vec<Value> = plan.unplaced.iter().map(error).collect();
    json!({
        "newNodes": launches.iter().map(|launch| new_node(launch)).collect::<Vec<_>>(),
        "existingNodes": existing(plan),
        "errors": errors,
        "cost": dollars(NanosPerHour(cost)),
        "nodes": launches.len(),
    })
}

pub(crate) fn disruption(pass: &DisruptionResult) -> Value {
    let mut commands = pass.commands.iter().map(command);
    let savings = pass.commands.iter().map(|command| command.savings.0).sum();
    let explanations = |all: &[Blocked]| -> Vec<Value> {
        let all = all.iter();
        all.map(|blocked| json!({"node": blocked.node, "message": blocked.message}))
            .collect()
    };
    json!({
        "command": commands.next(),
        "more": commands.collect::<Vec<_>>(),
        "blocked": explanations(&pass.blocked),
        "unconsolidatable": explanations(&pass.unconsolidatable),
        "savings": dollars(NanosPerHour(savings)),
    })
}

fn command(command: &Command) -> Value {
    let replacements = command.replacements.iter().map(|launch| {
        let pods: Vec<String> = launch.pods.iter().map(|pod| pod.key.to_string()).collect();
        let shown = launch.spec.requirements.iter().filter_map(requirement);
        json!({
            "nodePool": launch.node_pool,
            "pods": pods,
            "requirements": shown.collect::<Vec<_>>(),
            "instanceTypes": launch.instance_types,
            "cheapestPrice": dollars(launch.cheapest.price),
        })
    });
    json!({
        "reason": command.reason.as_str(),
        "consolidationType": command.method.consolidation_type(),
        "delete": command.nodes,
        "replace": replacements.collect::<Vec<_>>(),
    })
}

fn new_node(launch: &Launch) -> Value {
    let pods: Vec<String> = launch.pods.iter().map(|pod| pod.key.to_string()).collect();
    let requests: Map<String, Value> = launch
        .spec
        .requests
        .iter()
        .map(|(name, amount)| (name.to_owned(), amount_text(name, amount).into()))
        .collect();
    let shown = launch.spec.requirements.iter().filter_map(requirement);
    let taints = launch.spec.taints.iter().map(|taint| {
        json!({"key": taint.key, "value": taint.value, "effect": format!("{:?}", taint.effect)})
    });
    json!({
        "nodePool": launch.node_pool,
        "pods": pods,
        "requests": requests,
        "requirements": shown.collect::<Vec<_>>(),
        "taints": taints.collect::<Vec<_>>(),
        "labels": launch.labels,
        "instanceTypes": launch.instance_types,
        "cheapestPrice": dollars(launch.cheapest.price),
    })
}

/// A requirement of the answer. The requirement for instance types is listed only with `minValues`, because the types are listed
/// separately.
fn requirement(entry: &NodeSelectorRequirement) -> Option<Value> {
    if entry.key == labels::INSTANCE_TYPE && entry.min_values.is_none() {
        return None;
    }
    let mut shown = json!({"key": entry.key, "operator": entry.operator, "values": entry.values});
    if let (Some(least), Some(fields)) = (entry.min_values, shown.as_object_mut()) {
        fields.insert("minValues".to_owned(), least.into());
    }
    Some(shown)
}

fn existing(plan: &Plan) -> Vec<Value> {
    let mut nodes: Vec<(String, Vec<String>)> = Vec::new();
    for nomination in &plan.nominations {
        let name = match &nomination.node {
            model::plan::Expected::Node(name) => name.to_string(),
            model::plan::Expected::NodeClaim(name) => name.to_string(),
        };
        let pod = nomination.pod.key.to_string();
        match nodes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, pods)) => pods.push(pod),
            None => nodes.push((name, vec![pod])),
        }
    }
    let nodes = nodes.into_iter();
    nodes
        .map(|(node, pods)| json!({"node": node, "pods": pods}))
        .collect()
}

fn error(unplaced: &Unplaced) -> Value {
    let reasons = unplaced
        .reasons
        .iter()
        .map(|refusal| match &refusal.node_pool {
            Some(pool) => format!("NodePool {pool}: {}", refusal.text),
            None => refusal.text.clone(),
        });
    let message: Vec<String> = reasons.collect();
    json!({"pod": unplaced.pod.key.to_string(), "message": message.join("; ")})
}

#[expect(
    clippy::cast_precision_loss,
    reason = "printed only; prices are far below 2⁵³ nano-dollars"
)]
pub(crate) fn dollars(price: NanosPerHour) -> f64 {
    price.0 as f64 / 1e9
}
