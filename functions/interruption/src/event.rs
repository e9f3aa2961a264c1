//! EventBridge events about instances (spec/aws §20.1).

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use thiserror::Error;
use turns::{Interruption, InterruptionKind};

/// EC2 takes a spot instance back this long after its warning.
const SPOT_NOTICE: SignedDuration = SignedDuration::from_secs(120);

#[derive(Debug, Error)]
pub(crate) enum EventError {
    #[error("the message is no EventBridge event")]
    NotAnEvent(#[source] serde_json::Error),
    #[error("\"{detail_type}\" has another shape than AWS documents")]
    Shape {
        detail_type: String,
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Event {
    source: String,
    #[serde(rename = "detail-type")]
    detail_type: String,
    time: Timestamp,
    detail: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct InstanceDetail {
    instance_id: String,
    #[serde(default)]
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HealthDetail {
    service: String,
    event_type_category: String,
    #[serde(default)]
    affected_entities: Vec<AffectedEntity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffectedEntity {
    entity_value: String,
}

/// What the event announces: nothing for kinds that end no node, or that are not known.
pub(crate) fn interruptions(body: &str) -> Result<Vec<Interruption>, EventError> {
    let event: Event = serde_json::from_str(body).map_err(EventError::NotAnEvent)?;
    let shape = |source| EventError::Shape {
        detail_type: event.detail_type.clone(),
        source,
    };
    let instance = || serde_json::from_value::<InstanceDetail>(event.detail.clone()).map_err(shape);
    let one = |id: String, kind, deadline| {
        vec![Interruption {
            instance: id.into(),
            kind,
            deadline,
        }]
    };
    Ok(match (event.source.as_str(), event.detail_type.as_str()) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            let deadline = event.time.checked_add(SPOT_NOTICE).ok();
            one(
                instance()?.instance_id,
                InterruptionKind::SpotInterruption,
                deadline,
            )
        }
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => one(
            instance()?.instance_id,
            InterruptionKind::CapacityReservationInterruption,
            None,
        ),
        ("aws.ec2", "EC2 Instance State-change Notification") => {
            let InstanceDetail { instance_id, state } = instance()?;
            match state.to_ascii_lowercase().as_str() {
                "stopping" | "stopped" => {
                    one(instance_id, InterruptionKind::InstanceStopping, None)
                }
                "shutting-down" | "terminated" => {
                    one(instance_id, InterruptionKind::InstanceTerminated, None)
                }
                _ => Vec::new(),
            }
        }
        ("aws.health", "AWS Health Event") => {
            let health: HealthDetail =
                serde_json::from_value(event.detail.clone()).map_err(shape)?;
            let concerns =
                health.service == "EC2" && health.event_type_category == "scheduledChange";
            let entities = health.affected_entities.into_iter().filter(|_| concerns);
            entities
                .map(|entity| Interruption {
                    instance: entity.entity_value.into(),
                    kind: InterruptionKind::ScheduledChange,
                    deadline: None,
                })
                .collect()
        }
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, detail_type: &str, detail: serde_json::Value) -> Vec<Interruption> {
        let body = serde_json::json!({
            "version": "0", "id": "1", "source": source, "detail-type": detail_type, "account": "123456789012",
            "time": "2026-01-01T00:00:00Z", "region": "us-east-1", "resources": [], "detail": detail
        });
        interruptions(&body.to_string()).unwrap()
    }

    #[test]
    fn a_spot_warning_ends_its_instance_in_two_minutes() {
        let detail = serde_json::json!({"instance-id": "i-1", "instance-action": "terminate"});
        let found = event("aws.ec2", "EC2 Spot Instance Interruption Warning", detail);
        let deadline = Some("2026-01-01T00:02:00Z".parse().unwrap());
        assert_eq!(
            found,
            [Interruption {
                instance: "i-1".into(),
                kind: InterruptionKind::SpotInterruption,
                deadline
            }]
        );
    }

    #[test]
    fn state_changes_count_when_the_instance_ends() {
        let kind = |state: &str| {
            let detail = serde_json::json!({"instance-id": "i-1", "state": state});
            event("aws.ec2", "EC2 Instance State-change Notification", detail)
                .first()
                .map(|found| found.kind)
        };
        assert_eq!(kind("running"), None);
        assert_eq!(kind("STOPPING"), Some(InterruptionKind::InstanceStopping));
        assert_eq!(
            kind("shutting-down"),
            Some(InterruptionKind::InstanceTerminated)
        );
    }

    #[test]
    fn an_interrupted_capacity_reservation_ends_its_instance() {
        let detail = serde_json::json!({"instance-id": "i-1", "instance-action": "terminate"});
        let found = event(
            "aws.ec2",
            "EC2 Capacity Reservation Instance Interruption Warning",
            detail,
        );
        let kinds: Vec<_> = found.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, [InterruptionKind::CapacityReservationInterruption]);
    }

    #[test]
    fn a_scheduled_change_concerns_every_instance_it_names() {
        let health = |category: &str| {
            let detail = serde_json::json!({
                "service": "EC2", "eventTypeCategory": category,
                "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}]
            });
            event("aws.health", "AWS Health Event", detail).len()
        };
        assert_eq!((health("scheduledChange"), health("issue")), (2, 0));
    }

    #[test]
    fn kinds_that_are_not_known_announce_nothing_and_what_is_no_event_is_refused() {
        assert!(event("aws.ec2", "EC2 Something New", serde_json::json!({})).is_empty());
        assert!(interruptions("not json").is_err());
        let odd = serde_json::json!({"source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
            "time": "2026-01-01T00:00:00Z", "detail": {}});
        assert!(
            interruptions(&odd.to_string())
                .unwrap_err()
                .to_string()
                .contains("EC2 Spot Instance Interruption Warning")
        );
    }
}
