//! Impaired instances, as DescribeInstanceStatus shows them (docs/spec/aws.md#instance-status).

use jiff::{SignedDuration, Timestamp};
use model::InterruptionKind;
use serde::Deserialize;

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

/// Time after which a failed status check counts as an impairment: a shorter failure may pass.
const IMPAIRMENT_DELAY: SignedDuration = SignedDuration::from_secs(120);

/// Codes of scheduled events that end the workload of the instance.
pub const EVENT_CODES: [&str; 5] = [
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
];

/// The impairments of an instance.
pub fn impairments(fact: &InstanceStatusFact, now: Timestamp) -> Vec<InterruptionKind> {
    let failed = |summary: &StatusSummary| {
        summary.details.iter().any(|detail| {
            let long_enough = |since: Timestamp| now.duration_since(since) >= IMPAIRMENT_DELAY;
            summary.status == "impaired"
                && detail.status == "failed"
                && detail.impaired_since.is_none_or(long_enough)
        })
    };
    let mut codes = fact.events.iter().map(|event| event.code.as_str());
    let found = [
        (
            InterruptionKind::InstanceStatus,
            failed(&fact.instance_status),
        ),
        (InterruptionKind::SystemStatus, failed(&fact.system_status)),
        (
            InterruptionKind::EventStatus,
            codes.any(|code| EVENT_CODES.contains(&code)),
        ),
    ];
    let found = found.into_iter().filter(|(_, holds)| *holds);
    found.map(|(kind, _)| kind).collect()
}
