use aws_rules::interruption::{InstanceStatusFact, Unreadable, impairments, message, read};
use jiff::Timestamp;
use model::{
    InterruptionKind as Kind,
    interruption::{
        CapacityBlockEnd, InterruptionAction, LifecycleHook, QueueMessage, StackLocation,
    },
};
use serde_json::{Value, json};

fn kind(source: &str, detail_type: &str, detail: Value) -> Option<Kind> {
    let body = json!({ "version": "0", "source": source, "detail-type": detail_type, "detail": detail,
        "time": "2026-08-22T12:00:00Z" });
    message(&body.to_string()).unwrap().kind
}

#[test]
fn events_map_to_their_kinds() {
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
        (kind("aws.ec2", spot, id()), Some(Kind::SpotInterrupted)),
        (
            kind("aws.ec2", reserved, id()),
            Some(Kind::CapacityReservationInterrupted),
        ),
        (
            kind("aws.ec2", "EC2 Instance Rebalance Recommendation", id()),
            Some(Kind::RebalanceRecommendation),
        ),
        (state("stopping"), Some(Kind::InstanceStopped)),
        (state("terminated"), Some(Kind::InstanceTerminated)),
        (state("running"), None),
        (health("scheduledChange"), Some(Kind::ScheduledChange)),
        (health("issue"), None),
        (kind("aws.health", spot, id()), None),
    ] {
        assert_eq!(got, expected);
    }
}

#[test]
fn only_malformed_events_are_refused() {
    assert_eq!(message("{}").unwrap().kind, None);
    for body in ["no json", "[]", "\"x\"", r#"{"time": "soon"}"#] {
        assert!(message(body).is_err(), "{body}");
    }
}

#[test]
fn failed_check_counts_after_two_minutes_and_scheduled_event_at_once() {
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
    assert_eq!(Kind::SystemStatus.action(), Some(InterruptionAction::Force));
    assert_eq!(Kind::EventStatus.action(), Some(InterruptionAction::Drain));
}

const SPOT: &str = "EC2 Spot Instance Interruption Warning";

fn event(source: &str, detail_type: &str, detail: Value) -> Value {
    json!({ "version": "0", "id": "1", "source": source, "detail-type": detail_type,
        "account": "123456789012", "region": "us-east-1", "time": "2026-08-22T12:00:00Z",
        "resources": [], "detail": detail })
}

fn reading(body: &str) -> Result<QueueMessage, Unreadable> {
    let home = StackLocation {
        account: "123456789012".into(),
        region: "us-east-1".into(),
    };
    read(body, &home, at("2026-08-22T12:00:03Z"))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The announced instances, with their deadlines.
fn announced(event: &Value) -> Vec<(String, Kind, Option<Timestamp>)> {
    match reading(&event.to_string()).unwrap() {
        QueueMessage::Announced(all) => all
            .into_iter()
            .map(|interruption| {
                (
                    interruption.instance.0,
                    interruption.kind,
                    interruption.deadline,
                )
            })
            .collect(),
        QueueMessage::CapacityBlockEnds(_) | QueueMessage::Ignored(_) => Vec::new(),
    }
}

fn ignored(event: &Value) -> &'static str {
    match reading(&event.to_string()).unwrap() {
        QueueMessage::Announced(_) | QueueMessage::CapacityBlockEnds(_) => "announced",
        QueueMessage::Ignored(why) => why.as_str(),
    }
}

#[test]
fn events_set_the_deadline_of_their_instance() {
    let id = json!({ "instance-id": "i-1" });
    let two_minutes = Some(at("2026-08-22T12:02:00Z"));
    assert_eq!(
        announced(&event("aws.ec2", SPOT, id.clone())),
        [("i-1".into(), Kind::SpotInterrupted, two_minutes)]
    );
    let mut timeless = event("aws.ec2", SPOT, id.clone());
    timeless.as_object_mut().unwrap().remove("time");
    let since_it_came = Some(at("2026-08-22T12:02:03Z"));
    assert_eq!(announced(&timeless)[0].2, since_it_came);

    let reserved = "EC2 Interruptible Capacity Reservation Instance Interruption Warning";
    let detail =
        json!({ "instance-id": "i-1", "instance-termination-time": "2026-08-22T12:01:30Z" });
    assert_eq!(
        announced(&event("aws.ec2", reserved, detail)),
        [(
            "i-1".into(),
            Kind::CapacityReservationInterrupted,
            Some(at("2026-08-22T12:01:30Z"))
        )]
    );
    let rebalance = "EC2 Instance Rebalance Recommendation";
    assert_eq!(announced(&event("aws.ec2", rebalance, id))[0].2, None);
}

#[test]
fn scheduled_change_affects_exactly_the_named_instances() {
    let detail = json!({
        "service": "EC2", "eventTypeCategory": "scheduledChange",
        "startTime": "Sat, 29 Aug 2026 08:00:00 GMT",
        "affectedEntities": [{ "entityValue": "i-1" }, { "entityValue": "vol-1" }, { "entityValue": "i-2" },
            { "entityValue": "i-1" }],
    });
    let found = announced(&event("aws.health", "AWS Health Event", detail));
    let until = Some(at("2026-08-29T08:00:00Z"));
    assert_eq!(
        found,
        [
            ("i-1".into(), Kind::ScheduledChange, until),
            ("i-2".into(), Kind::ScheduledChange, until)
        ]
    );
    let detail = json!({ "service": "EC2", "eventTypeCategory": "scheduledChange" });
    assert_eq!(
        ignored(&event("aws.health", "AWS Health Event", detail)),
        "harmless"
    );
}

#[test]
fn closed_or_foreign_scheduled_change_is_ignored() {
    let change = |more: Value| {
        let mut detail = json!({
            "service": "EC2", "eventTypeCategory": "scheduledChange",
            "eventTypeCode": "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", "statusCode": "upcoming",
            "eventRegion": "us-east-1", "affectedAccount": "123456789012",
            "affectedEntities": [{ "entityValue": "i-1" }],
        });
        let fields = detail.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        event("aws.health", "AWS Health Event", detail)
    };
    let reboots = |more: Value| match reading(&change(more).to_string()) {
        Ok(QueueMessage::Announced(found)) => (found[0].event.clone(), found[0].reboots),
        other => panic!("{other:?}"),
    };
    assert_eq!(reboots(json!({})), ("1".into(), true));
    let retired = json!({ "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED" });
    assert_eq!(reboots(retired), ("1".into(), false));
    for (more, why) in [
        (json!({ "statusCode": "closed" }), "harmless"),
        (json!({ "eventRegion": "us-west-2" }), "elsewhere"),
        (json!({ "affectedAccount": "999999999999" }), "elsewhere"),
    ] {
        assert_eq!(ignored(&change(more)), why);
    }
}

#[test]
fn arn_names_its_instance() {
    let arn = "arn:aws:ec2:us-east-1:123456789012:instance/i-0123456789abcdef0";
    let found = announced(&event("aws.ec2", SPOT, json!({ "instance-id": arn })));
    assert_eq!(found[0].0, "i-0123456789abcdef0");
}

#[test]
fn auto_scaling_event_names_its_instance() {
    let detail = json!({ "EC2InstanceId": "i-1", "LifecycleHookName": "drain",
        "AutoScalingGroupName": "workers", "LifecycleActionToken": "87654321-4321-4321-4321-210987654321" });
    let kind = "EC2 Instance-terminate Lifecycle Action";
    assert_eq!(
        announced(&event("aws.autoscaling", kind, detail)),
        [("i-1".into(), Kind::GroupTerminating, None)]
    );
}

#[test]
fn lifecycle_hook_is_kept_unless_its_names_are_missing() {
    let hook = |detail: Value| {
        let event = event(
            "aws.autoscaling",
            "EC2 Instance-terminate Lifecycle Action",
            detail,
        );
        match reading(&event.to_string()) {
            Ok(QueueMessage::Announced(mut found)) => found.remove(0).hook,
            other => panic!("{other:?}"),
        }
    };
    let detail = json!({ "EC2InstanceId": "i-1", "LifecycleHookName": "drain",
        "AutoScalingGroupName": "workers", "LifecycleActionToken": "token" });
    let expected = LifecycleHook {
        group: "workers".into(),
        name: "drain".into(),
        token: "token".into(),
    };
    assert_eq!(hook(detail), Some(expected));
    assert_eq!(hook(json!({ "EC2InstanceId": "i-1" })), None);
}

#[test]
fn unknown_event_is_ignored() {
    let id = json!({ "instance-id": "i-1" });
    let mut newer = event("aws.ec2", SPOT, id.clone());
    newer["version"] = json!("1");
    assert_eq!(ignored(&newer), "unknown");
    assert_eq!(
        ignored(&event("aws.ec2", "EC2 Something New", json!({}))),
        "unknown"
    );
    assert_eq!(ignored(&json!({})), "unknown");
    let running = json!({ "instance-id": "i-1", "state": "running" });
    let state = "EC2 Instance State-change Notification";
    assert_eq!(ignored(&event("aws.ec2", state, running)), "harmless");
    for (field, value) in [("account", "999999999999"), ("region", "eu-west-1")] {
        let mut foreign = event("aws.ec2", SPOT, id.clone());
        foreign[field] = json!(value);
        assert_eq!(ignored(&foreign), "elsewhere", "{field}");
    }
}

#[test]
fn unusable_event_is_refused_with_the_reason() {
    let whole = event("aws.ec2", SPOT, json!({ "instance-id": "i-1" })).to_string();
    let of = |detail: Value| event("aws.ec2", SPOT, detail).to_string();
    let cases = [
        (
            whole[..whole.len() / 2].to_owned(),
            "not an EventBridge event",
        ),
        ("not json".into(), "not an EventBridge event"),
        (String::new(), "not an EventBridge event"),
        ("[]".into(), "not an EventBridge event"),
        (of(json!({ "instance-id": 7 })), "not an EventBridge event"),
        (of(json!("i-1")), "not an EventBridge event"),
        (of(json!({})), "names no instance"),
        (of(json!({ "instance-id": "" })), "names no instance"),
        (
            of(json!({ "instance-id": "web-1" })),
            "\"web-1\": expected an id",
        ),
        (
            of(json!({ "instance-id": "arn:aws:ec2" })),
            "expected an id",
        ),
        ("x".repeat(1 << 20), "has 1048576 bytes"),
    ];
    for (body, expected) in cases {
        let error = reading(&body).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn capacity_block_end_names_the_block() {
    let read = |kind: &str, detail: Value| reading(&event("aws.ec2", kind, detail).to_string());
    let expected = |end: Option<&str>| CapacityBlockEnd {
        reservation: "cr-1".into(),
        at: at("2026-08-22T12:00:00Z"),
        end: end.map(at),
    };
    // EC2's guide has two names for the event.
    for kind in [
        "Capacity Block Reservation Expiration Warning",
        "Capacity Block Expiration Warning",
    ] {
        let end = "2026-08-22T12:40:00Z";
        for id in [
            "cr-1",
            "arn:aws:ec2:us-east-1:123456789012:capacity-reservation/cr-1",
        ] {
            let detail = json!({ "capacity-reservation-id": id, "end-date": end });
            let found = read(kind, detail).unwrap();
            assert_eq!(found, QueueMessage::CapacityBlockEnds(expected(Some(end))));
        }
        let detail = json!({ "capacity-reservation-id": "cr-1", "end-date": "soon" });
        let found = read(kind, detail).unwrap();
        assert_eq!(found, QueueMessage::CapacityBlockEnds(expected(None)));
        for id in ["", "i-1", "cr-"] {
            let refused = read(kind, json!({ "capacity-reservation-id": id })).unwrap_err();
            assert!(refused.to_string().contains("expected an id such as cr-"));
        }
    }
    let begins = event("aws.ec2", "Capacity Block Reservation Delivered", json!({}));
    assert_eq!(ignored(&begins), "unknown");
}
