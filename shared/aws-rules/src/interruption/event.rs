//! Events that upstream knows: exact triples of version, source and type. Other events are ignored (docs/spec/aws.md#interruption-events).

use jiff::Timestamp;
use model::InterruptionKind as Kind;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// An event of EventBridge, reduced to what concerns instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `None` for an event that concerns no node.
    pub kind: Option<Kind>,
    /// The instances, as the event names them.
    pub instances: Vec<String>,
    pub time: Option<Timestamp>,
}

/// The envelope of an event; missing fields are empty.
#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) source: String,
    pub(super) detail_type: String,
    pub(super) account: String,
    pub(super) region: String,
    pub(super) time: Option<Timestamp>,
    pub(super) detail: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct InstanceDetail {
    instance_id: String,
    state: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HealthDetail {
    service: String,
    event_type_category: String,
    affected_entities: Vec<AffectedEntity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AffectedEntity {
    entity_value: String,
}

/// Reads the event of a message.
pub fn message(body: &str) -> serde_json::Result<Message> {
    let event = envelope(body)?;
    let (kind, instances) = upstream_event(&event)?.unwrap_or_default();
    Ok(Message {
        kind,
        instances,
        time: event.time,
    })
}

pub(super) fn envelope(body: &str) -> serde_json::Result<Event> {
    // serde would accept a list for a struct.
    let body: serde_json::Map<String, Value> = serde_json::from_str(body)?;
    serde_json::from_value(Value::Object(body))
}

/// The kind and instances of an event. `None` for an unknown triple; no kind for a known triple that interrupts no instance.
pub(super) fn upstream_event(
    event: &Event,
) -> serde_json::Result<Option<(Option<Kind>, Vec<String>)>> {
    let of_instance = |kind: fn(&str) -> Option<Kind>| {
        let detail: InstanceDetail = detail(event)?;
        Ok(Some(match kind(&detail.state) {
            Some(kind) => (Some(kind), vec![detail.instance_id]),
            None => (None, Vec::new()),
        }))
    };
    let key = (
        event.version.as_str(),
        event.source.as_str(),
        event.detail_type.as_str(),
    );
    match key {
        ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            of_instance(|_| Some(Kind::SpotInterrupted))
        }
        ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            of_instance(|_| Some(Kind::RebalanceRecommendation))
        }
        ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            of_instance(|_| Some(Kind::CapacityReservationInterrupted))
        }
        ("0", "aws.ec2", "EC2 Instance State-change Notification") => of_instance(state_change),
        ("0", "aws.health", "AWS Health Event") => {
            let detail: HealthDetail = detail(event)?;
            let concerns =
                detail.service == "EC2" && detail.event_type_category == "scheduledChange";
            let entities = detail.affected_entities.into_iter();
            Ok(Some(match concerns {
                true => (
                    Some(Kind::ScheduledChange),
                    entities.map(|entity| entity.entity_value).collect(),
                ),
                false => (None, Vec::new()),
            }))
        }
        _ => Ok(None),
    }
}

pub(super) fn detail<T: DeserializeOwned>(event: &Event) -> serde_json::Result<T> {
    serde_json::from_value(event.detail.clone())
}

/// The kind of a state change. EC2 writes states in lower case; a state in another case counts as well.
fn state_change(state: &str) -> Option<Kind> {
    match state {
        "stopping" | "stopped" => Some(Kind::InstanceStopped),
        _ => match state.to_ascii_lowercase().as_str() {
            "stopping" | "stopped" | "shutting-down" | "terminated" => {
                Some(Kind::InstanceTerminated)
            }
            _ => None,
        },
    }
}
