//! Effects on NodeClaims of AWS' announcements about their instances.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api::{
    karpenter,
    names::{annotation, label},
};
use aws_rules::{
    interruption::{InstanceStatusFact, Message, impairments, message},
    node_class::instance_of,
};
use jiff::Timestamp;
use model::{InterruptionKind as Kind, interruption::InterruptionAction};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::object;

/// A message, or statuses from DescribeInstanceStatus.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    now: Timestamp,
    objects: Vec<Value>,
    body: Option<String>,
    describe_instance_status: Option<Vec<InstanceStatusFact>>,
    #[serde(default)]
    state: State,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct State {
    available_instance_count: BTreeMap<String, u32>,
}

/// The objects of a case, and the actions on them.
struct Cluster {
    now: Timestamp,
    claims: Vec<karpenter::NodeClaim>,
    deleted: BTreeSet<String>,
    events: Vec<String>,
    unavailable: BTreeSet<String>,
    reservations: BTreeMap<String, u32>,
}

pub(super) fn decide(case: Case) -> Result<Value> {
    let claims = case
        .objects
        .into_iter()
        .filter(|object| object["kind"] == "NodeClaim");
    let claims: Vec<karpenter::NodeClaim> = claims
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()?;
    let is_deleting = |claim: &&karpenter::NodeClaim| claim.metadata.is_deleting();
    let names = claims
        .iter()
        .filter(is_deleting)
        .map(|claim| claim.metadata.name.clone());
    let mut cluster = Cluster {
        now: case.now,
        deleted: names.collect(),
        claims,
        events: Vec::new(),
        unavailable: BTreeSet::new(),
        reservations: case.state.available_instance_count,
    };
    let Some(body) = case.body else {
        let mut seen = BTreeSet::new();
        for fact in case.describe_instance_status.unwrap_or_default() {
            if seen.insert(fact.instance_id.clone()) {
                for kind in impairments(&fact, case.now) {
                    cluster.announce(kind, &fact.instance_id);
                }
            }
        }
        let mut got = cluster.shown();
        got.extend(object([("requeueAfterSeconds", json!(60))]));
        return Ok(Value::Object(got));
    };
    let (parsed, parse_error) = match message(&body) {
        Ok(message) => (message, None),
        Err(error) => {
            let none = Message {
                kind: None,
                instances: Vec::new(),
                time: None,
            };
            (none, Some(error.to_string()))
        }
    };
    for (kind, instance) in parsed.kind.iter().cycle().zip(&parsed.instances) {
        cluster.announce(*kind, instance);
    }
    let mut got = cluster.shown();
    let time = parsed.time.filter(|_| parsed.kind.is_some());
    got.extend(object([
        ("kind", json!(parsed.kind.map_or("no_op", Kind::as_str))),
        ("instanceIDs", json!(parsed.instances)),
        ("time", json!(time.map(|time| time.to_string()))),
        ("parseError", json!(parse_error)),
        ("messageDeleted", json!(true)),
    ]));
    Ok(Value::Object(got))
}

impl Cluster {
    fn announce(&mut self, kind: Kind, instance: &str) {
        for claim in &mut self.claims {
            let status = claim.status.as_ref();
            let provider_id = status.and_then(|status| status.provider_id.as_deref());
            if provider_id.and_then(instance_of) != Some(instance) {
                continue;
            }
            let labels = &claim.metadata.labels;
            let label = |key: &str| labels.get(key).filter(|value| !value.is_empty());
            let node = status.and_then(|status| status.node_name.clone());
            let subjects = [
                Some(format!("NodeClaim/{}", claim.metadata.name)),
                node.map(|node| format!("Node/{node}")),
            ];
            let mut emit = |kind: &str, reason: &str| {
                let lines = subjects.iter().flatten();
                self.events
                    .extend(lines.map(|subject| format!("{kind} {reason} {subject}: {reason}")));
            };
            let (severity, reason) = kind.event();
            emit(severity, reason);
            if kind == Kind::SpotInterrupted
                && let (Some(name), Some(zone)) = (label(label::INSTANCE_TYPE), label(label::ZONE))
            {
                self.unavailable.insert(format!("spot:{name}:{zone}"));
            }
            if kind == Kind::CapacityReservationInterrupted
                && let Some(id) = label(label::CAPACITY_RESERVATION_ID)
            {
                self.reservations.insert(id.clone(), 0);
            }
            let Some(action) = kind.action() else {
                continue;
            };
            if action == InterruptionAction::Force {
                let annotations = &mut claim.metadata.annotations;
                annotations
                    .entry(annotation::TERMINATION_TIMESTAMP.to_owned())
                    .or_insert_with(|| self.now.to_string());
            }
            if self.deleted.insert(claim.metadata.name.clone()) {
                emit("Warning", "TerminatingOnInterruption");
            }
        }
    }

    fn shown(&self) -> Map<String, Value> {
        let claims = self.claims.iter().map(|claim| {
            let name = &claim.metadata.name;
            let annotations = &claim.metadata.annotations;
            json!({
                "name": name,
                "deleted": self.deleted.contains(name),
                "terminationTimestamp": annotations.get(annotation::TERMINATION_TIMESTAMP),
            })
        });
        object([
            ("nodeClaims", claims.collect()),
            ("events", json!(self.events)),
            ("unavailableOfferings", json!(self.unavailable)),
            ("availableInstanceCount", json!(self.reservations)),
        ])
    }
}
