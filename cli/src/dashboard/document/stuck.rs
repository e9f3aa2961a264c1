//! Reasons why a node is not ready for pods.

use api::names::{annotation, taint};
use jiff::{SignedDuration, Timestamp};
use model::{
    Snapshot,
    node::{ConditionStatus, Node, NodeCondition},
    node_claim::NodeClaim,
    pod::Pod,
};

use super::Stage;

/// Durations after which a state is unusual. A launch takes seconds, a node joins within a minute or two, and a drain ends within
/// minutes unless something holds it.
const LAUNCHING_MAX: SignedDuration = SignedDuration::from_mins(2);
const JOINING_MAX: SignedDuration = SignedDuration::from_mins(5);
const LEAVING_MAX: SignedDuration = SignedDuration::from_mins(10);
/// Upper bound on the pods that are named.
const PODS_NAMED: usize = 3;

pub(super) struct Explanation {
    /// Start of the state.
    pub(super) since: Option<Timestamp>,
    pub(super) reason: Option<String>,
    pub(super) stuck: bool,
}

impl Explanation {
    pub(super) fn of(
        state: Stage,
        node: Option<&Node>,
        claim: Option<&NodeClaim>,
        pods: &[&Pod],
        snapshot: &Snapshot,
    ) -> Self {
        let created = node.and_then(|node| node.created_at);
        let claimed = claim.and_then(|claim| claim.created_at);
        let (since, reason, usual) = match state {
            Stage::Launching => (claimed, launching(claim), Some(LAUNCHING_MAX)),
            Stage::Joining => (claimed, joining(node, claim), Some(JOINING_MAX)),
            Stage::Ready => (created, None, None),
            Stage::NotReady => {
                let since = node.and_then(|node| node.ready.since);
                (since, node.map(not_ready), Some(SignedDuration::ZERO))
            }
            Stage::Cordoned => (created, Some(cordoned(node, claim)), None),
            Stage::Leaving => {
                let deleted = claim.and_then(|claim| claim.deleted_at);
                let since = deleted.or_else(|| node.and_then(|node| node.deleted_at));
                let reason = leaving(node, claim, pods, snapshot);
                (since, Some(reason), Some(LEAVING_MAX))
            }
        };
        let lasted = since.map(|since| snapshot.now.duration_since(since));
        let stuck = usual.is_some_and(|usual| lasted.is_none_or(|lasted| lasted >= usual));
        Self {
            since,
            reason,
            stuck,
        }
    }
}

/// The message of a condition that is not true, or its reason.
fn unmet(claim: Option<&NodeClaim>, kind: &str) -> Option<String> {
    let condition = claim?.condition(kind)?;
    if condition.status == ConditionStatus::True {
        return None;
    }
    let text = match condition.message.as_str() {
        "" => &condition.reason,
        message => message,
    };
    (!text.is_empty()).then(|| format!("{kind}: {text}"))
}

fn launching(claim: Option<&NodeClaim>) -> Option<String> {
    let reason = unmet(claim, "Launched");
    reason.or_else(|| Some("EC2 has not launched the instance yet".to_owned()))
}

fn joining(node: Option<&Node>, claim: Option<&NodeClaim>) -> Option<String> {
    let step = match node {
        None => "Registered",
        Some(_) if !claim.is_some_and(|claim| claim.is_true("Registered")) => "Registered",
        Some(_) => "Initialized",
    };
    let fallback = match node {
        None => "the instance runs, but no Node with its provider id has registered",
        Some(_) => "the Node is not initialized yet",
    };
    let mut reasons = vec![unmet(claim, step).unwrap_or_else(|| fallback.to_owned())];
    if let Some(node) = node.filter(|node| node.ready.status != ConditionStatus::True) {
        reasons.push(not_ready(node));
    }
    Some(reasons.join("; "))
}

fn not_ready(node: &Node) -> String {
    let mut reasons = vec![
        match node.ready.status {
            ConditionStatus::Unknown => "the kubelet has stopped reporting",
            ConditionStatus::True | ConditionStatus::False => {
                "the kubelet reports that it is not ready"
            }
        }
        .to_owned(),
    ];
    let adverse = node
        .conditions
        .iter()
        .filter(|condition| is_adverse(condition));
    reasons.extend(adverse.map(|condition| match condition.reason.as_str() {
        "" => condition.kind.clone(),
        reason => format!("{} ({reason})", condition.kind),
    }));
    reasons.join("; ")
}

/// Whether a condition says that something is wrong. Conditions that end in `Ready` or `Healthy` are good while they are true, all
/// others while they are false.
fn is_adverse(condition: &NodeCondition) -> bool {
    let good = ["Ready", "Healthy"]
        .iter()
        .any(|ending| condition.kind.ends_with(ending));
    match condition.status {
        ConditionStatus::True => !good,
        ConditionStatus::False => good,
        ConditionStatus::Unknown => false,
    }
}

fn cordoned(node: Option<&Node>, claim: Option<&NodeClaim>) -> String {
    let taints = node.map_or(&[][..], |node| &node.taints);
    let is_disrupted = taints.iter().any(|entry| entry.key == taint::DISRUPTED);
    match (is_disrupted, disruption_reason(claim)) {
        (_, Some(reason)) => format!("chosen for disruption: {reason}"),
        (true, None) => "chosen for disruption".to_owned(),
        (false, None) => "cordoned by a user or another program".to_owned(),
    }
}

/// Reason of the disruption that a NodeClaim was chosen for.
pub(crate) fn disruption_reason(claim: Option<&NodeClaim>) -> Option<&str> {
    let condition = claim?.condition("DisruptionReason")?;
    (condition.status == ConditionStatus::True).then_some(condition.reason.as_str())
}

fn leaving(
    node: Option<&Node>,
    claim: Option<&NodeClaim>,
    pods: &[&Pod],
    snapshot: &Snapshot,
) -> String {
    let held: Vec<String> = pods
        .iter()
        .filter_map(|pod| Some(format!("pod {}: {}", pod.key, hold(pod, snapshot)?)))
        .collect();
    if let Some(more) = held.len().checked_sub(PODS_NAMED).filter(|more| *more > 0) {
        let named = held.get(..PODS_NAMED).unwrap_or_default().join("; ");
        return format!("{named}; and {more} more pods");
    }
    if !held.is_empty() {
        return held.join("; ");
    }
    let steps = ["Drained", "VolumesDetached", "InstanceTerminating"];
    let step = steps.iter().find_map(|step| unmet(claim, step));
    let finalizers = node.map_or(&[][..], |node| &node.finalizers);
    let foreign = finalizers
        .iter()
        .find(|name| !name.starts_with("karpenter.sh/"));
    match (step, foreign, pods.len()) {
        (Some(step), ..) => step,
        (None, Some(finalizer), _) => format!("finalizer {finalizer} holds the Node"),
        (None, None, 0) => "its instance is being terminated".to_owned(),
        (None, None, 1) => "1 pod is still on it".to_owned(),
        (None, None, left) => format!("{left} pods are still on it"),
    }
}

/// The rule that keeps a pod from being evicted.
fn hold(pod: &Pod, snapshot: &Snapshot) -> Option<String> {
    if pod.deletion.is_some() {
        return None;
    }
    if let Some(value) = pod.annotations.get(annotation::DO_NOT_DISRUPT) {
        return Some(format!("annotation {}={value}", annotation::DO_NOT_DISRUPT));
    }
    let mut budgets = snapshot.disruption_budgets.iter();
    let budget = budgets.find(|budget| {
        let selects = |selector: &model::selector::LabelSelector| selector.matches(&pod.labels);
        budget.disruptions_allowed <= 0
            && budget.key.namespace == pod.key.namespace
            && budget.selector.as_ref().is_some_and(selects)
    })?;
    let name = &budget.key.name;
    Some(format!("PodDisruptionBudget {name} allows no eviction now"))
}
