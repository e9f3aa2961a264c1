//! Conditions and fields of NodePools, EC2NodeClasses, NodeClaims and Nodes.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    finding::Finding,
    objects::{Objects, short_name, text},
};

pub(super) fn checks(objects: &Objects, now: Timestamp) -> Vec<Finding> {
    vec![
        not_ready(objects),
        not_launched(objects),
        not_initialized(objects, now),
        nodes_not_ready(objects),
        unclaimed(objects),
        stuck(objects, now),
        full_subnets(objects),
        unreadable_volumes(objects),
    ]
}

/// Objects with events of this reason whose message contains one of these words.
fn events(objects: &Objects, reason: &str, words: &[&str]) -> Vec<String> {
    let events = objects.of_kind("Event");
    let events = events.filter(|event| {
        let message = text(event, "/message");
        text(event, "/reason") == reason && words.iter().any(|word| message.contains(word))
    });
    let messages = events.map(|event| {
        let about = |field: &str| text(event, &format!("/involvedObject/{field}"));
        format!(
            "{} {}: {}",
            about("kind"),
            about("name"),
            text(event, "/message")
        )
    });
    let mut messages: Vec<String> = messages.collect();
    messages.sort();
    messages.dedup();
    messages
}

fn full_subnets(objects: &Objects) -> Finding {
    Finding::new(
        "18. subnets without a free address",
        events(objects, "InsufficientFreeAddressesInSubnet", &[""]),
        "add a subnet that the selector finds, or free addresses: the others are used meanwhile",
    )
}

fn unreadable_volumes(objects: &Objects) -> Finding {
    let words = ["Client.InternalError", "Client.InvalidKMSKey"];
    Finding::new(
        "32. instances that EC2 ended because it could not use a volume's key",
        events(objects, "InstanceTerminating", &words),
        "name the key in the stack's parameter VolumeKeyArns, and let the key's policy leave permissions to IAM or name the stack's \
         cluster role: EC2 takes the key in its name",
    )
}

/// Time after which a NodeClaim counts as stuck: every step of a launch takes less.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(15);

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "/status") == "True")
}

fn condition_text(object: &Value, condition: &Value) -> String {
    let (reason, message) = (text(condition, "/reason"), text(condition, "/message"));
    format!("{}: {reason}: {message}", short_name(object))
}

/// EC2NodeClasses whose subnets, security groups, images or role do not resolve; the condition has the selector and the result.
fn not_ready(objects: &Objects) -> Finding {
    let kinds = ["EC2NodeClass", "NodePool"].into_iter();
    let all = kinds.flat_map(|kind| objects.of_kind(kind));
    let found = all.flat_map(|object| {
        let conditions = object.pointer("/status/conditions");
        let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        // `Ready` is a summary of the others, unless it is the only one.
        let others = conditions.filter(|condition| text(condition, "/status") == "False");
        let mut others: Vec<&Value> = others.collect();
        if others.len() > 1 {
            others.retain(|condition| text(condition, "/type") != "Ready");
        }
        others
            .into_iter()
            .map(move |condition| condition_text(object, condition))
    });
    Finding::new(
        "4, 28, 45, 46. NodePools and EC2NodeClasses that launch nothing",
        found.collect(),
        "mend what the message names: a selector and its tags, a role, a field",
    )
}

fn not_launched(objects: &Objects) -> Finding {
    let claims = objects.of_kind("NodeClaim");
    let found = claims.filter_map(|claim| {
        let launched = condition(claim, "Launched")?;
        (text(launched, "/status") != "True").then(|| condition_text(claim, launched))
    });
    Finding::new(
        "2, 28, 44, 48. NodeClaims without an instance, in EC2's words",
        found.collect(),
        "VcpuLimitExceeded: ask for a higher quota; ServiceLinkedRole: aws iam create-service-linked-role --aws-service-name \
         spot.amazonaws.com; no capacity: allow more types and zones; else mend the field of the EC2NodeClass that is named",
    )
}

fn since(condition: &Value) -> Option<Timestamp> {
    text(condition, "/lastTransitionTime").parse().ok()
}

fn not_initialized(objects: &Objects, now: Timestamp) -> Finding {
    let claims = objects.of_kind("NodeClaim");
    let claims = claims.filter(|claim| is_true(claim, "Registered"));
    let found = claims.filter_map(|claim| {
        let initialized = condition(claim, "Initialized")?;
        let registered = since(condition(claim, "Registered")?)?;
        let late = now.duration_since(registered) > STUCK_AFTER;
        (text(initialized, "/status") != "True" && late).then(|| condition_text(claim, initialized))
    });
    Finding::new(
        "24, 29, 33, 34. nodes that are not initialized, and so neither counted on nor removed",
        found.collect(),
        "mend what is missing: a device plugin or ENABLE_POD_ENI for a resource, the DaemonSet that takes a startup taint away",
    )
}

fn nodes_not_ready(objects: &Objects) -> Finding {
    let nodes = objects.of_kind("Node");
    let found = nodes.filter_map(|node| {
        let ready = condition(node, "Ready")?;
        (text(ready, "/status") != "True").then(|| condition_text(node, ready))
    });
    Finding::new(
        "30. nodes that are not ready",
        found.collect(),
        "map the node role (access entry or aws-auth), give it AmazonEKS_CNI_Policy, let its security group reach the cluster's",
    )
}

/// Nodes without a NodeClaim, left over where its finalizer was removed. They are drained some minutes later, unless garbage collection is
/// held back (docs/protocol.md#g3).
fn unclaimed(objects: &Objects) -> Finding {
    let claims = objects.of_kind("NodeClaim");
    let claimed: BTreeSet<&str> = claims
        .map(|claim| text(claim, "/status/providerID"))
        .collect();
    let nodes = objects.of_kind("Node").filter(|node| {
        let is_ours = !text(node, "/metadata/labels/karpenter.sh~1nodepool").is_empty();
        is_ours && !claimed.contains(text(node, "/spec/providerID"))
    });
    let found = nodes.map(|node| {
        let instance = text(node, "/spec/providerID");
        format!("{} {instance}", short_name(node))
    });
    Finding::new(
        "nodes of NodePools that no NodeClaim names: within an hour one, or a tenth of all, is drained and removed, never all; the others wait for approval",
        found.collect(),
        "whittle approve <cluster> lets all of them go; kubectl delete node <node> drains one now, and its instance is ended some \
         minutes later",
    )
}

pub(super) fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn stuck(objects: &Objects, now: Timestamp) -> Finding {
    const LONG: SignedDuration = SignedDuration::from_hours(1);
    const FINALIZERS: [&str; 2] = ["karpenter.sh/termination", "karpenter.k8s.aws/termination"];
    let kinds = ["NodeClaim", "Node", "EC2NodeClass"].into_iter();
    let all = kinds.flat_map(|kind| objects.of_kind(kind));
    let found = all.filter_map(|object| {
        let deleted: Timestamp = text(object, "/metadata/deletionTimestamp").parse().ok()?;
        let finalizers = object.pointer("/metadata/finalizers")?.as_array()?;
        let ours = |finalizer: &&Value| FINALIZERS.iter().any(|name| **finalizer == *name);
        let ours = finalizers.iter().find(ours)?;
        let long = now.duration_since(deleted) > LONG;
        long.then(|| format!("{}: {} since {deleted}", short_name(object), plain(ours)))
    });
    Finding::new(
        "8, 25. objects that have been on their way out for more than an hour",
        found.collect(),
        "whittle plan --disruption names the pods and budgets that hold a node. Where nothing acts any more, take that finalizer \
         out, and only that one, once EC2 shows the instance terminated",
    )
}
