//! AWS's announcements about instances, under the names that Karpenter has for messages and for checks of EC2.

use jiff::Timestamp;
use model::{Interruption, InterruptionKind};
use ports::Metric;

use super::{count, timed};
use crate::report::InterruptionReport;

/// An announcement about an instance of this cluster, or an impaired status that was polled from EC2; `outcome` is `None` if
/// the message must be redelivered. A message about several instances counts as one for each.
pub(crate) fn of_interruption(
    fact: &Interruption,
    outcome: Option<&InterruptionReport>,
    now: Timestamp,
) -> Vec<Metric> {
    let received = count(
        "karpenter_interruption_received_messages_total",
        [("message_type", fact.kind.as_str().to_owned())],
    );
    let is_new = matches!(outcome, Some(InterruptionReport::Recorded { .. }));
    let unhealthy = category(fact.kind).filter(|_| is_new).map(|category| {
        let name = "karpenter_interruption_instance_status_unhealthy_total";
        count(name, [("category", category.to_owned())])
    });
    // A polled status has no message, or repeats one.
    let is_message = !fact.kind.is_polled();
    let deleted = (is_message && outcome.is_some())
        .then(|| count("karpenter_interruption_deleted_messages_total", []));
    let waited = fact.at.filter(|_| is_message).map(|at| {
        let name = "karpenter_interruption_message_queue_duration_seconds";
        timed(name, [], now.duration_since(at))
    });
    let all = [Some(received), unhealthy, deleted, waited];
    all.into_iter().flatten().collect()
}

/// The check of EC2 that an instance fails.
fn category(kind: InterruptionKind) -> Option<&'static str> {
    match kind {
        InterruptionKind::InstanceStatus => Some("InstanceStatus"),
        InterruptionKind::SystemStatus => Some("SystemStatus"),
        InterruptionKind::EventStatus => Some("EventStatus"),
        InterruptionKind::SpotInterrupted
        | InterruptionKind::RebalanceRecommendation
        | InterruptionKind::CapacityReservationInterrupted
        | InterruptionKind::ScheduledChange
        | InterruptionKind::InstanceStopped
        | InterruptionKind::InstanceTerminated
        | InterruptionKind::GroupTerminating
        | InterruptionKind::CapacityBlockExpiring => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(kind: InterruptionKind, outcome: Option<&InterruptionReport>) -> Vec<String> {
        let fact = Interruption {
            instance: "i-1".into(),
            kind,
            at: Timestamp::from_second(100).ok(),
            deadline: None,
            hook: None,
            event: String::new(),
            reboots: false,
        };
        let now = Timestamp::from_second(103).unwrap();
        let metrics = of_interruption(&fact, outcome, now).into_iter();
        let texts = metrics.map(|metric| {
            let name = metric.name.strip_prefix("karpenter_interruption_").unwrap();
            let labels: Vec<String> = metric.labels.into_values().collect();
            format!("{name} {}", labels.join(" ")).trim().to_owned()
        });
        texts.collect()
    }

    #[test]
    fn message_is_timed_when_read_and_counted_as_deleted_once_handled() {
        let recorded = InterruptionReport::Recorded {
            cluster: "demo".into(),
        };
        let kind = InterruptionKind::SpotInterrupted;
        let read = [
            "received_messages_total spot_interrupted",
            "message_queue_duration_seconds",
        ];
        assert_eq!(measured(kind, None), read);
        let done = measured(kind, Some(&recorded));
        assert_eq!(done, [read[0], "deleted_messages_total", read[1]]);
    }

    #[test]
    fn failed_check_is_counted_once_by_its_category_and_is_no_message() {
        let cluster = || "demo".into();
        let new = InterruptionReport::Recorded { cluster: cluster() };
        let known = InterruptionReport::Expected { cluster: cluster() };
        let kind = InterruptionKind::SystemStatus;
        let found = "received_messages_total system_status";
        assert_eq!(
            measured(kind, Some(&new)),
            [found, "instance_status_unhealthy_total SystemStatus"]
        );
        assert_eq!(measured(kind, Some(&known)), [found]);
    }
}
