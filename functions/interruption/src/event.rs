//! EventBridge events about instances: what they mean is said by `aws_rules::interruption` (spec/aws §20.1).

use aws_rules::interruption::{Kind, Message, message};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;
use turns::{Interruption, InterruptionKind};

/// EC2 takes a spot instance back this long after its warning.
const SPOT_NOTICE: SignedDuration = SignedDuration::from_secs(120);

#[derive(Debug, Error)]
pub(crate) enum EventError {
    #[error("the message is no EventBridge event")]
    NotAnEvent(#[source] serde_json::Error),
    #[error("the event ends an instance ({kind}) and does not say which")]
    NoInstance { kind: &'static str },
}

/// What the event announces: nothing for kinds that end no node, or that are not known.
pub(crate) fn interruptions(body: &str) -> Result<Vec<Interruption>, EventError> {
    let Message {
        kind,
        instances,
        time,
    } = message(body).map_err(EventError::NotAnEvent)?;
    let Some(ends) = ends(kind) else {
        return Ok(Vec::new());
    };
    if instances.iter().any(String::is_empty) {
        return Err(EventError::NoInstance {
            kind: kind.as_str(),
        });
    }
    let interruptions = instances.into_iter().map(|instance| Interruption {
        instance: instance.into(),
        kind: ends,
        deadline: deadline(ends, time),
    });
    Ok(interruptions.collect())
}

fn ends(kind: Kind) -> Option<InterruptionKind> {
    match kind {
        Kind::SpotInterrupted => Some(InterruptionKind::SpotInterruption),
        Kind::CapacityReservationInterrupted => {
            Some(InterruptionKind::CapacityReservationInterruption)
        }
        Kind::InstanceStopped => Some(InterruptionKind::InstanceStopping),
        Kind::InstanceTerminated => Some(InterruptionKind::InstanceTerminated),
        Kind::ScheduledChange | Kind::InstanceStatus | Kind::SystemStatus | Kind::EventStatus => {
            Some(InterruptionKind::ScheduledChange)
        }
        Kind::RebalanceRecommendation | Kind::NoOp => None,
    }
}

fn deadline(kind: InterruptionKind, time: Option<Timestamp>) -> Option<Timestamp> {
    match kind {
        InterruptionKind::SpotInterruption => time?.checked_add(SPOT_NOTICE).ok(),
        InterruptionKind::CapacityReservationInterruption
        | InterruptionKind::ScheduledChange
        | InterruptionKind::InstanceStopping
        | InterruptionKind::InstanceTerminated => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, detail_type: &str, detail: serde_json::Value) -> String {
        let body = serde_json::json!({
            "version": "0", "id": "1", "source": source, "detail-type": detail_type, "account": "123456789012",
            "time": "2026-01-01T00:00:00Z", "region": "us-east-1", "resources": [], "detail": detail
        });
        body.to_string()
    }

    fn found(source: &str, detail_type: &str, detail: serde_json::Value) -> Vec<Interruption> {
        interruptions(&event(source, detail_type, detail)).unwrap()
    }

    #[test]
    fn a_spot_warning_ends_its_instance_in_two_minutes() {
        let detail = serde_json::json!({"instance-id": "i-1", "instance-action": "terminate"});
        let found = found("aws.ec2", "EC2 Spot Instance Interruption Warning", detail);
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
            found("aws.ec2", "EC2 Instance State-change Notification", detail)
                .first()
                .map(|found| found.kind)
        };
        assert_eq!(kind("running"), None);
        assert_eq!(kind("stopping"), Some(InterruptionKind::InstanceStopping));
        assert_eq!(
            kind("shutting-down"),
            Some(InterruptionKind::InstanceTerminated)
        );
        assert!(kind("STOPPING").is_some(), "whatever case it is written in");
    }

    #[test]
    fn an_interrupted_capacity_reservation_ends_its_instance() {
        let detail = serde_json::json!({"instance-id": "i-1", "instance-action": "terminate"});
        let found = found(
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
            found("aws.health", "AWS Health Event", detail).len()
        };
        assert_eq!((health("scheduledChange"), health("issue")), (2, 0));
    }

    #[test]
    fn what_announces_no_end_is_done_and_what_cannot_be_understood_stays() {
        let detail = serde_json::json!({"instance-id": "i-1"});
        let rebalance = "EC2 Instance Rebalance Recommendation";
        assert_eq!(found("aws.ec2", rebalance, detail), []);
        assert_eq!(
            found("aws.ec2", "EC2 Something New", serde_json::json!({})),
            []
        );
        assert!(interruptions("not json").is_err());
        let spot = "EC2 Spot Instance Interruption Warning";
        let nameless = event("aws.ec2", spot, serde_json::json!({}));
        let error = interruptions(&nameless).unwrap_err().to_string();
        assert!(error.contains("spot_interrupted"), "{error}");
    }
}
