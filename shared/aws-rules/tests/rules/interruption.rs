use aws_rules::interruption::{Action, InstanceStatusFact, Kind, impairments, message};
use serde_json::{Value, json};

fn kind(source: &str, detail_type: &str, detail: Value) -> Kind {
    let body = json!({ "version": "0", "source": source, "detail-type": detail_type, "detail": detail,
        "time": "2026-08-22T12:00:00Z" });
    message(&body.to_string()).unwrap().kind
}

#[test]
fn announcements_are_told_apart() {
    let id = || json!({ "instance-id": "i-1" });
    let state = |state: &str| {
        let detail = json!({ "instance-id": "i-1", "state": state });
        kind("aws.ec2", "EC2 Instance State-change Notification", detail)
    };
    let health = |category: &str| {
        let detail = json!({ "service": "EC2", "eventTypeCategory": category });
        kind("aws.health", "AWS Health Event", detail)
    };
    let spot = "EC2 Spot Instance Interruption Warning";
    let reserved = "EC2 Capacity Reservation Instance Interruption Warning";
    for (got, expected) in [
        (kind("aws.ec2", spot, id()), Kind::SpotInterrupted),
        (
            kind("aws.ec2", reserved, id()),
            Kind::CapacityReservationInterrupted,
        ),
        (
            kind("aws.ec2", "EC2 Instance Rebalance Recommendation", id()),
            Kind::RebalanceRecommendation,
        ),
        (state("stopping"), Kind::InstanceStopped),
        (state("terminated"), Kind::InstanceTerminated),
        (state("running"), Kind::NoOp),
        (health("scheduledChange"), Kind::ScheduledChange),
        (health("issue"), Kind::NoOp),
        (kind("aws.health", spot, id()), Kind::NoOp),
    ] {
        assert_eq!(got, expected);
    }
}

#[test]
fn only_what_is_no_event_is_refused() {
    assert_eq!(message("{}").unwrap().kind, Kind::NoOp);
    for body in ["no json", "[]", "\"x\"", r#"{"time": "soon"}"#] {
        assert!(message(body).is_err(), "{body}");
    }
}

#[test]
fn a_failed_check_counts_after_two_minutes_and_a_scheduled_event_at_once() {
    let now = "2026-08-22T12:00:00Z".parse().unwrap();
    let found = |fact: Value| {
        let fact: InstanceStatusFact = serde_json::from_value(fact).unwrap();
        impairments(&fact, now)
    };
    let failed = |since: &str| json!({ "SystemStatus": { "Status": "impaired", "Details": [{ "Status": "failed", "ImpairedSince": since }] } });
    assert_eq!(found(failed("2026-08-22T11:58:00Z")), [Kind::SystemStatus]);
    assert_eq!(found(failed("2026-08-22T11:58:01Z")), []);
    let event = json!({ "Events": [{ "Code": "instance-retirement" }] });
    assert_eq!(found(event), [Kind::EventStatus]);
    assert_eq!(
        found(json!({ "Events": [{ "Code": "system-update" }] })),
        []
    );
    assert_eq!(Kind::SystemStatus.action(), Action::ForcefulTermination);
    assert_eq!(Kind::EventStatus.action(), Action::CordonAndDrain);
}
