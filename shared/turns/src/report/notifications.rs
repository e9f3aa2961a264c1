//! Notifications outside the cluster: written to the ledger with the decision, and sent by the sweep.

mod outbox;
mod signature;

use model::{NotificationClass as Class, counted, journal::Line};

pub(crate) use self::outbox::{enqueue, send};
use crate::{Outcome, Report};

/// A notification for the destinations that subscribe to its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotificationDraft {
    /// Deduplication key: drafts with equal ids are sent once.
    pub(crate) id: String,
    pub(crate) class: Class,
    pub(crate) title: String,
    pub(crate) details: Vec<String>,
}

/// Failed launches of one turn from which a notification is sent: one or two are common.
const FAILED_LAUNCHES_MIN: usize = 5;

/// News in a turn's report.
pub(crate) fn of_report(report: &Report) -> Vec<NotificationDraft> {
    let mut drafts = Vec::new();
    let mut add = |class: Class, id: String, title: String, details: Vec<String>| {
        drafts.push(NotificationDraft {
            id: format!("{}/{id}", class.as_str()),
            class,
            title,
            details,
        });
    };
    let turn = report.turn.0.clone();
    // A lasting state is notified once an hour.
    let hour = (report.at.as_second() / 3600).to_string();
    if !report.disrupted.is_empty() {
        let title = format!("{} decided", counted(report.disrupted.len(), "disruption"));
        let details = texts(&report.disrupted);
        add(Class::Disruption, turn.clone(), title, details);
    }
    if !report.held_back.is_empty() {
        let title = match report.held_back.len() {
            1 => "disruptions of 1 NodePool are held back".to_owned(),
            many => format!("disruptions of {many} NodePools are held back"),
        };
        let id = format!("budgets/{hour}");
        add(Class::Limit, id, title, texts(&report.held_back));
    }
    for (id, line) in report.approval_requests.iter().zip(&report.awaiting) {
        let title = format!("request {id} waits for approval");
        add(Class::Approval, id.clone(), title, vec![line.text.clone()]);
    }
    if !report.over_caps.is_empty() {
        let title = "nodes exceed caps".to_owned();
        let id = format!("caps/{hour}");
        add(Class::Limit, id, title, texts(&report.over_caps));
    }
    if report.failed.len() >= FAILED_LAUNCHES_MIN {
        let title = format!("{} launches failed in one turn", report.failed.len());
        add(
            Class::InsufficientCapacity,
            turn,
            title,
            texts(&report.failed),
        );
    }
    if !report.limited.is_empty() {
        let title = match report.limited.len() {
            1 => "1 pod cannot be placed because of NodePool limits".to_owned(),
            many => format!("{many} pods cannot be placed because of NodePool limits"),
        };
        add(Class::Limit, hour.clone(), title, texts(&report.limited));
    }
    if let Outcome::Postponed(why) = &report.outcome {
        let id = format!("{}/{hour}", report.lane);
        let title = format!("the {} waits for EC2 calls", report.lane);
        add(Class::Limit, id, title, vec![why.clone()]);
    }
    drafts
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.text.clone()).collect()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use model::{Lane, ids::TurnId};

    use super::*;

    fn report() -> Report {
        let turn = TurnId("turn-1".into());
        Report::new(
            &"demo".into(),
            Lane::Provisioner,
            &turn,
            Timestamp::UNIX_EPOCH,
        )
    }

    fn classes(report: &Report) -> Vec<Class> {
        of_report(report).iter().map(|draft| draft.class).collect()
    }

    #[test]
    fn quiet_turn_sends_no_notification() {
        assert_eq!(of_report(&report()), []);
    }

    #[test]
    fn each_notification_class_has_its_trigger() {
        let lines = |count: usize| vec![Line::from("line"); count];
        let with = |change: fn(&mut Report, Vec<Line>), count: usize| {
            let mut report = report();
            change(&mut report, lines(count));
            classes(&report)
        };
        let disrupted: fn(&mut Report, Vec<Line>) = |report, lines| report.disrupted = lines;
        assert_eq!(with(disrupted, 1), [Class::Disruption]);
        assert_eq!(
            with(|report, lines| report.held_back = lines, 1),
            [Class::Limit]
        );
        assert_eq!(
            with(|report, lines| report.limited = lines, 1),
            [Class::Limit]
        );
        assert_eq!(
            with(|report, lines| report.over_caps = lines, 1),
            [Class::Limit]
        );
        let awaiting: fn(&mut Report, Vec<Line>) = |report, lines| {
            report.approval_requests = vec!["1a2b".into()];
            report.awaiting = lines;
        };
        assert_eq!(with(awaiting, 1), [Class::Approval]);
        // A pod may have no place for other reasons, whatever their text.
        let lines = vec![Line::from("web: its limit")];
        let unplaced = Report {
            unplaced: lines,
            ..report()
        };
        assert_eq!(classes(&unplaced), []);
        let failed: fn(&mut Report, Vec<Line>) = |report, lines| report.failed = lines;
        assert_eq!(
            with(failed, FAILED_LAUNCHES_MIN),
            [Class::InsufficientCapacity]
        );
        assert_eq!(with(failed, FAILED_LAUNCHES_MIN - 1), []);
        let postponed = Outcome::Postponed("the account's budget is spent".into());
        let postponed = Report {
            outcome: postponed,
            ..report()
        };
        assert_eq!(classes(&postponed), [Class::Limit]);
    }

    #[test]
    fn lasting_state_has_one_id_per_hour_and_event_one_per_turn() {
        let id = |turn: &str, minutes: i64, change: fn(&mut Report)| {
            let mut report = report();
            report.turn = TurnId(turn.into());
            report.at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
            change(&mut report);
            of_report(&report).remove(0).id
        };
        let limited: fn(&mut Report) = |report| report.limited = vec!["web".into()];
        assert_eq!(id("turn-1", 1, limited), id("turn-2", 59, limited));
        assert_ne!(id("turn-1", 1, limited), id("turn-1", 61, limited));
        let disrupted: fn(&mut Report) = |report| report.disrupted = vec!["web".into()];
        assert_ne!(id("turn-1", 1, disrupted), id("turn-2", 1, disrupted));
    }
}
