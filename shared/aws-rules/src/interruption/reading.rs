//! Interpretation of a queue message: upstream's events and further ones, each with the time that is left.

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use model::{
    InstanceId, Interruption, InterruptionKind as Kind,
    interruption::{CapacityBlockEnd, Ignored, LifecycleHook, QueueMessage, StackLocation},
};
use serde::Deserialize;
use thiserror::Error;

use super::event::{Event, detail, envelope, upstream_event};

/// Time from EC2's warning to the interruption, for spot and for interruptible reservations.
const INTERRUPTION_NOTICE: SignedDuration = SignedDuration::from_mins(2);
/// Upper bound on an event in bytes: EventBridge's own limit.
const BODY_MAX: usize = 256 << 10;
/// Upper bound on the instances of one event. AWS Health never names more.
const INSTANCES_MAX: usize = 1_000;
/// Upper bound on the length of an event id. EventBridge's ids have 36 characters.
const EVENT_ID_MAX: usize = 128;
/// Upper bound on the characters of a value that an error shows: ids have about twenty, and other values may have any length.
const SHOWN_CHARS_MAX: usize = 40;

/// A message that cannot be interpreted and needs an operator's attention.
#[derive(Debug, Error)]
pub enum Unreadable {
    #[error("the message has {bytes} bytes: expected an event of at most {BODY_MAX}")]
    TooLong { bytes: usize },
    #[error("the message is not an EventBridge event")]
    NotAnEvent(#[source] serde_json::Error),
    #[error(
        "the event names the Capacity Block \"{value}\": expected an id such as cr-0123456789abcdef0"
    )]
    NotABlock { value: String },
    #[error("the event ({kind}) names no instance")]
    NoInstance { kind: &'static str },
    #[error(
        "the event ({kind}) names the instance \"{value}\": expected an id such as i-0123456789abcdef0, or its ARN"
    )]
    NotAnInstance { kind: &'static str, value: String },
}

/// Reads a message that arrives at `now`. An unknown kind is no error: AWS adds some every year.
pub fn read(body: &str, home: &StackLocation, now: Timestamp) -> Result<QueueMessage, Unreadable> {
    if body.len() > BODY_MAX {
        return Err(Unreadable::TooLong { bytes: body.len() });
    }
    let event = envelope(body).map_err(Unreadable::NotAnEvent)?;
    if let Some(why) = elsewhere(home, &event.account, &event.region) {
        return Ok(QueueMessage::Ignored(why));
    }
    if let Some(end) = block_end(&event, now)? {
        return Ok(QueueMessage::CapacityBlockEnds(end));
    }
    let found = match upstream_event(&event).map_err(Unreadable::NotAnEvent)? {
        Some(found) => Some(found),
        None => further_event(&event).map_err(Unreadable::NotAnEvent)?,
    };
    let Some((kind, instances)) = found else {
        return Ok(QueueMessage::Ignored(Ignored::Unknown {
            version: event.version,
            source: event.source,
            detail_type: event.detail_type,
        }));
    };
    let Some(kind) = kind else {
        return Ok(QueueMessage::Ignored(Ignored::Harmless {
            what: event.detail_type,
        }));
    };
    let at = event.time.unwrap_or(now);
    let deadline = deadline(kind, &event, at);
    let hook = hook(kind, &event);
    let change = HealthChange::of(kind, &event);
    if let Some(why) = change.is_no_concern(home, &event) {
        return Ok(QueueMessage::Ignored(why));
    }
    let mut announced = Vec::new();
    for named in instances.iter().take(INSTANCES_MAX) {
        let instance = match instance(kind, named) {
            Ok(instance) => instance,
            // Entities of AWS Health can also be hosts and volumes, which are skipped.
            Err(_) if kind == Kind::ScheduledChange => continue,
            Err(error) => return Err(error),
        };
        let interruption = Interruption {
            instance,
            kind,
            at: Some(at),
            deadline,
            hook: hook.clone(),
            event: event.id.chars().take(EVENT_ID_MAX).collect(),
            reboots: change.event_type_code.contains("REBOOT"),
        };
        if !announced.contains(&interruption) {
            announced.push(interruption);
        }
    }
    Ok(match announced.is_empty() {
        true => QueueMessage::Ignored(Ignored::Harmless {
            what: event.detail_type,
        }),
        false => QueueMessage::Announced(announced),
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OtherDetail {
    #[serde(rename = "instance-id")]
    instance_id: String,
    #[serde(rename = "EC2InstanceId")]
    group_instance: String,
}

/// Events that upstream does not know: EC2's second name for interruptions of interruptible reservations, and lifecycle hooks of Auto
/// Scaling groups.
fn further_event(event: &Event) -> serde_json::Result<Option<(Option<Kind>, Vec<String>)>> {
    let key = (
        event.version.as_str(),
        event.source.as_str(),
        event.detail_type.as_str(),
    );
    Ok(match key {
        (
            "0",
            "aws.ec2",
            "EC2 Interruptible Capacity Reservation Instance Interruption Warning",
        ) => {
            let detail: OtherDetail = detail(event)?;
            let kind = Kind::CapacityReservationInterrupted;
            Some((Some(kind), vec![detail.instance_id]))
        }
        ("0", "aws.autoscaling", "EC2 Instance-terminate Lifecycle Action") => {
            let detail: OtherDetail = detail(event)?;
            Some((Some(Kind::GroupTerminating), vec![detail.group_instance]))
        }
        _ => None,
    })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct BlockDetail {
    capacity_reservation_id: String,
    end_date: String,
}

/// The two names in EC2's guide for the event of a capacity block's end.
const BLOCK_END_DETAIL_TYPES: [&str; 2] = [
    "Capacity Block Reservation Expiration Warning",
    "Capacity Block Expiration Warning",
];

/// The end of a capacity block. EC2 announces it forty minutes ahead and names no instance. The end is `None` if its time cannot be
/// parsed; the caller then estimates it.
fn block_end(event: &Event, now: Timestamp) -> Result<Option<CapacityBlockEnd>, Unreadable> {
    let known = (event.version.as_str(), event.source.as_str());
    if known != ("0", "aws.ec2") || !BLOCK_END_DETAIL_TYPES.contains(&event.detail_type.as_str()) {
        return Ok(None);
    }
    let detail: BlockDetail = detail(event).map_err(Unreadable::NotAnEvent)?;
    let named = &detail.capacity_reservation_id;
    let id = named.rsplit('/').next().unwrap_or_default();
    if !is_id(id, "cr-") {
        let value = named.chars().take(SHOWN_CHARS_MAX).collect();
        return Err(Unreadable::NotABlock { value });
    }
    Ok(Some(CapacityBlockEnd {
        reservation: id.to_owned(),
        at: event.time.unwrap_or(now),
        end: detail.end_date.parse().ok(),
    }))
}

fn is_id(id: &str, prefix: &str) -> bool {
    id.strip_prefix(prefix).is_some_and(|rest| {
        !rest.is_empty()
            && rest.len() <= 17
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Fields of a scheduled change of AWS Health besides its instances.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HealthChange {
    /// Event type, such as `AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED`.
    event_type_code: String,
    status_code: String,
    /// Region of the event. Events are also delivered to the Region that stands in for this one, and those of an organization to its
    /// administrator.
    event_region: String,
    affected_account: String,
}

impl HealthChange {
    /// Reads a scheduled change; empty for any other kind. Fields that cannot be parsed count as missing.
    fn of(kind: Kind, event: &Event) -> Self {
        let change = (kind == Kind::ScheduledChange).then(|| detail(event).ok());
        change.flatten().unwrap_or_default()
    }

    fn is_no_concern(&self, home: &StackLocation, event: &Event) -> Option<Ignored> {
        // A closed change has happened or was called off.
        let over = (self.status_code == "closed").then(|| Ignored::Harmless {
            what: event.detail_type.clone(),
        });
        elsewhere(home, &self.affected_account, &self.event_region).or(over)
    }
}

/// The reason to ignore an event of another account or Region. A missing value counts as ours.
fn elsewhere(home: &StackLocation, account: &str, region: &str) -> Option<Ignored> {
    let differs = |further_event: &str, theirs: &str| !theirs.is_empty() && theirs != further_event;
    let elsewhere = differs(&home.account, account) || differs(&home.region, region);
    elsewhere.then(|| Ignored::Elsewhere {
        account: account.to_owned(),
        region: region.to_owned(),
    })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct HookDetail {
    auto_scaling_group_name: String,
    lifecycle_hook_name: String,
    lifecycle_action_token: String,
}

/// The lifecycle hook of an event. Without all of its names the hook cannot be completed and ends by its own timeout.
fn hook(kind: Kind, event: &Event) -> Option<LifecycleHook> {
    if kind != Kind::GroupTerminating {
        return None;
    }
    let detail: HookDetail = detail(event).ok()?;
    let named = [&detail.auto_scaling_group_name, &detail.lifecycle_hook_name];
    let complete = named.iter().all(|name| !name.is_empty());
    complete.then_some(LifecycleHook {
        group: detail.auto_scaling_group_name,
        name: detail.lifecycle_hook_name,
        token: detail.lifecycle_action_token,
    })
}

/// The instance in an id or in the last segment of an ARN.
fn instance(kind: Kind, named: &str) -> Result<InstanceId, Unreadable> {
    let kind = kind.as_str();
    if named.is_empty() {
        return Err(Unreadable::NoInstance { kind });
    }
    let id = match named.strip_prefix("arn:") {
        Some(arn) => arn.rsplit('/').next().unwrap_or_default(),
        None => named,
    };
    if is_id(id, "i-") {
        Ok(id.into())
    } else {
        let value = named.chars().take(SHOWN_CHARS_MAX).collect();
        Err(Unreadable::NotAnInstance { kind, value })
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeadlineDetail {
    #[serde(rename = "instance-termination-time")]
    termination: Option<Timestamp>,
    #[serde(rename = "startTime")]
    start: String,
}

/// The time at which the instance ends. `None` if the time cannot be parsed: the drain then respects PodDisruptionBudgets.
fn deadline(kind: Kind, event: &Event, at: Timestamp) -> Option<Timestamp> {
    let times: DeadlineDetail = detail(event).unwrap_or_default();
    match kind {
        Kind::SpotInterrupted => at.checked_add(INTERRUPTION_NOTICE).ok(),
        Kind::CapacityReservationInterrupted => times
            .termination
            .or_else(|| at.checked_add(INTERRUPTION_NOTICE).ok()),
        Kind::ScheduledChange => rfc2822::parse(&times.start)
            .ok()
            .map(|start| start.timestamp()),
        Kind::RebalanceRecommendation
        | Kind::InstanceStopped
        | Kind::InstanceTerminated
        | Kind::InstanceStatus
        | Kind::SystemStatus
        | Kind::EventStatus
        | Kind::GroupTerminating
        | Kind::CapacityBlockExpiring => None,
    }
}
