//! Decisions of a running cluster, whose turns the page cannot see: read from NodeClaims, and from events for their reasons.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{
    Snapshot,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    node_claim::NodeClaim,
};
use serde_json::Value;

use super::{decision, warning};
use crate::{
    dashboard::document::{
        Decision,
        DecisionKind::{self, Delete, Keep, Launch, Note, Warning},
        disruption_reason,
    },
    objects::text,
};

/// Upper bound on the pods that a launch names.
const PODS_NAMED: usize = 3;

/// Kind and action of decisions by the reason of their event. Events with other reasons are shown only if they are warnings.
const EVENT_ACTIONS: &[(&str, DecisionKind, &str)] = &[
    ("DisruptionLaunching", Note, "launch replacement"),
    ("DisruptionWaitingReadiness", Note, "wait for replacement"),
    ("Unconsolidatable", Keep, "keep"),
    ("ConsolidationRejected", Keep, "keep"),
    ("DisruptionBlocked", Keep, "keep"),
    ("NodeRepairBlocked", Keep, "keep"),
    ("ExpirationHeld", Keep, "keep"),
    ("CapExceeded", Warning, "hold back"),
    ("ApprovalRequired", Warning, "wait for approval"),
    ("InsufficientCapacityError", Warning, "launch failed"),
    ("FailedDraining", Warning, "drain blocked"),
    ("AwaitingVolumeDetachment", Note, "wait for volumes"),
];
/// Reasons of events about pods, which the page lists as pending.
const SHOWN_ELSEWHERE: &[&str] = &["FailedScheduling", "Nominated"];
const TERMINATING: &str = "DisruptionTerminating";

/// Decisions that NodeClaims and events of Whittle, or of a Karpenter beside it, show.
pub(crate) fn decisions(snapshot: &Snapshot, events: &[Value]) -> Vec<Decision> {
    let reasons = Reasons::of(events);
    let claims = snapshot.node_claims.iter();
    let launches = claims.clone().filter_map(|claim| launch(claim, &reasons));
    let deletions = claims.filter_map(|claim| deletion(claim, &reasons));
    let known = snapshot.node_claims.iter();
    let known: BTreeSet<&str> = known.map(|claim| claim.name.as_str()).collect();
    let others = events.iter().filter_map(|event| of_event(event, &known));
    let mut decisions: Vec<Decision> = launches.chain(deletions).chain(others).collect();
    decisions.sort_by(|a, b| (a.at, &a.subject).cmp(&(b.at, &b.subject)));
    decisions
}

/// Reasons of launches and deletions in events, by NodeClaim.
struct Reasons<'a> {
    nominated: BTreeMap<&'a str, BTreeSet<String>>,
    disrupted: BTreeMap<&'a str, &'a str>,
}

impl<'a> Reasons<'a> {
    fn of(events: &'a [Value]) -> Self {
        let mut nominated: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut disrupted = BTreeMap::new();
        for event in events {
            let message = text(event, "/message");
            match text(event, "/reason") {
                "Nominated" => {
                    let objects = message.split([',', ' ']);
                    let pod = ["/involvedObject/namespace", "/involvedObject/name"];
                    let pod = pod.map(|field| text(event, field)).join("/");
                    for claim in objects.filter_map(|name| name.strip_prefix("nodeclaim/")) {
                        nominated.entry(claim).or_default().insert(pod.clone());
                    }
                }
                TERMINATING => {
                    disrupted.insert(text(event, "/involvedObject/name"), of_disruption(message));
                }
                _ => {}
            }
        }
        Self {
            nominated,
            disrupted,
        }
    }
}

/// `Underutilized/Delete` of `Disrupting NodeClaim: Underutilized/Delete`.
fn of_disruption(message: &str) -> &str {
    message
        .split_once(": ")
        .map_or(message, |(_, reason)| reason)
}

fn launch(claim: &NodeClaim, reasons: &Reasons<'_>) -> Option<Decision> {
    let offering = [INSTANCE_TYPE, CAPACITY_TYPE, ZONE].map(|key| claim.labels.get(key));
    let mut why: Vec<String> = Vec::new();
    if let [Some(instance_type), Some(capacity_type), Some(zone)] = offering {
        why.push(format!("{instance_type} {capacity_type} in {zone}"));
    }
    if let Some(pods) = reasons.nominated.get(claim.name.as_str()) {
        let named: Vec<&str> = pods.iter().take(PODS_NAMED).map(String::as_str).collect();
        let more = match pods.len().saturating_sub(PODS_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        why.push(format!("for {}{more}", named.join(", ")));
    }
    let (at, kind) = (claim.created_at?, Launch);
    Some(decision(
        at,
        kind,
        "launch",
        claim.name.as_str(),
        &why.join("; "),
    ))
}

fn deletion(claim: &NodeClaim, reasons: &Reasons<'_>) -> Option<Decision> {
    let of_event = reasons.disrupted.get(claim.name.as_str()).copied();
    let why = disruption_reason(Some(claim)).or(of_event);
    let why = why.unwrap_or("its NodeClaim was deleted by a user or has expired");
    let (at, kind) = (claim.deleted_at?, Delete);
    Some(decision(at, kind, "delete", claim.name.as_str(), why))
}

fn of_event(event: &Value, known: &BTreeSet<&str>) -> Option<Decision> {
    let at = time(event)?;
    let [reason, name, message] =
        ["/reason", "/involvedObject/name", "/message"].map(|field| text(event, field));
    if reason == TERMINATING {
        // The NodeClaim's own deletion is shown while it exists, and the event about its Node repeats this one.
        let is_gone = text(event, "/involvedObject/kind") == "NodeClaim" && !known.contains(name);
        let why = of_disruption(message);
        return is_gone.then(|| decision(at, Delete, "delete", name, why));
    }
    if let Some((_, kind, act)) = EVENT_ACTIONS.iter().find(|(listed, ..)| *listed == reason) {
        return Some(decision(at, *kind, act, name, message));
    }
    let is_warning = text(event, "/type") == "Warning" && !SHOWN_ELSEWHERE.contains(&reason);
    is_warning.then(|| warning(at, reason, name, message))
}

fn time(event: &Value) -> Option<Timestamp> {
    ["/lastTimestamp", "/eventTime", "/firstTimestamp"]
        .into_iter()
        .find_map(|field| text(event, field).parse().ok())
}

#[cfg(test)]
mod tests;
