//! What AWS announces about instances, and what it means for their nodes (spec/aws §20).

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    SpotInterrupted,
    RebalanceRecommendation,
    CapacityReservationInterrupted,
    ScheduledChange,
    InstanceStopped,
    InstanceTerminated,
    InstanceStatus,
    SystemStatus,
    EventStatus,
    /// Nothing that concerns a node.
    NoOp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    None,
    CordonAndDrain,
    /// Nothing on the machine can be waited for any more.
    ForcefulTermination,
}

impl Kind {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::NoOp => "no_op",
        }
    }

    pub fn action(self) -> Action {
        match self {
            Self::NoOp | Self::RebalanceRecommendation => Action::None,
            Self::InstanceStatus | Self::SystemStatus => Action::ForcefulTermination,
            Self::SpotInterrupted
            | Self::CapacityReservationInterrupted
            | Self::ScheduledChange
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::EventStatus => Action::CordonAndDrain,
        }
    }

    /// Type and reason of the event on the Node and the NodeClaim.
    pub fn event(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::SpotInterrupted => ("Warning", "SpotInterrupted"),
            Self::RebalanceRecommendation => ("Normal", "SpotRebalanceRecommendation"),
            Self::CapacityReservationInterrupted => {
                ("Warning", "CapacityReservationInstanceInterrupted")
            }
            Self::InstanceStopped => ("Warning", "InstanceStopping"),
            Self::InstanceTerminated => ("Warning", "InstanceTerminating"),
            Self::ScheduledChange
            | Self::InstanceStatus
            | Self::SystemStatus
            | Self::EventStatus => ("Warning", "InstanceUnhealthy"),
            Self::NoOp => return None,
        })
    }
}

/// An EventBridge event, as far as it concerns instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    pub instances: Vec<String>,
    pub time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
struct Event {
    version: String,
    source: String,
    detail_type: String,
    time: Option<Timestamp>,
    detail: Value,
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

/// Reads the event of a message; one that is of no concern is a `NoOp`.
pub fn message(body: &str) -> serde_json::Result<Message> {
    // serde would take a list for a struct.
    let body: serde_json::Map<String, Value> = serde_json::from_str(body)?;
    let event: Event = serde_json::from_value(Value::Object(body))?;
    let detail = event.detail;
    let of_instance = |kind: fn(&str) -> Kind| -> serde_json::Result<(Kind, Vec<String>)> {
        let detail: InstanceDetail = serde_json::from_value(detail.clone())?;
        Ok((kind(&detail.state), vec![detail.instance_id]))
    };
    let key = (
        event.version.as_str(),
        event.source.as_str(),
        event.detail_type.as_str(),
    );
    let (kind, instances) = match key {
        ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            of_instance(|_| Kind::SpotInterrupted)?
        }
        ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation") => {
            of_instance(|_| Kind::RebalanceRecommendation)?
        }
        ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            of_instance(|_| Kind::CapacityReservationInterrupted)?
        }
        ("0", "aws.ec2", "EC2 Instance State-change Notification") => of_instance(state_change)?,
        ("0", "aws.health", "AWS Health Event") => {
            let detail: HealthDetail = serde_json::from_value(detail)?;
            let concerns =
                detail.service == "EC2" && detail.event_type_category == "scheduledChange";
            let entities = detail.affected_entities.into_iter();
            match concerns {
                true => (
                    Kind::ScheduledChange,
                    entities.map(|entity| entity.entity_value).collect(),
                ),
                false => (Kind::NoOp, Vec::new()),
            }
        }
        _ => (Kind::NoOp, Vec::new()),
    };
    Ok(Message {
        instances: if kind == Kind::NoOp {
            Vec::new()
        } else {
            instances
        },
        kind,
        time: event.time,
    })
}

/// EC2 writes states in lower case; what is only like one of them ends the node all the same.
fn state_change(state: &str) -> Kind {
    match state {
        "stopping" | "stopped" => Kind::InstanceStopped,
        _ => match state.to_ascii_lowercase().as_str() {
            "stopping" | "stopped" | "shutting-down" | "terminated" => Kind::InstanceTerminated,
            _ => Kind::NoOp,
        },
    }
}

/// An instance as DescribeInstanceStatus shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceStatusFact {
    pub instance_id: String,
    pub instance_status: StatusSummary,
    pub system_status: StatusSummary,
    pub events: Vec<ScheduledEvent>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StatusSummary {
    pub status: String,
    pub details: Vec<StatusDetail>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StatusDetail {
    pub status: String,
    pub impaired_since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ScheduledEvent {
    pub code: String,
}

/// A check that fails for less may pass again.
const IMPAIRED_FOR: SignedDuration = SignedDuration::from_secs(120);

/// Event codes that end what runs on the instance.
pub const EVENT_CODES: [&str; 5] = [
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
];

/// What is wrong with an instance.
pub fn impairments(fact: &InstanceStatusFact, now: Timestamp) -> Vec<Kind> {
    let failed = |summary: &StatusSummary| {
        summary.details.iter().any(|detail| {
            let long_enough = |since: Timestamp| now.duration_since(since) >= IMPAIRED_FOR;
            summary.status == "impaired"
                && detail.status == "failed"
                && detail.impaired_since.is_none_or(long_enough)
        })
    };
    let mut codes = fact.events.iter().map(|event| event.code.as_str());
    let found = [
        (Kind::InstanceStatus, failed(&fact.instance_status)),
        (Kind::SystemStatus, failed(&fact.system_status)),
        (
            Kind::EventStatus,
            codes.any(|code| EVENT_CODES.contains(&code)),
        ),
    ];
    let found = found.into_iter().filter(|(_, holds)| *holds);
    found.map(|(kind, _)| kind).collect()
}
