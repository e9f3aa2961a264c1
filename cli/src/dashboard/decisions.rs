//! Decisions for the page: those of turns, and those of events in a cluster.

use jiff::Timestamp;
use model::journal::{Line, Subject};
use serde_json::Value;
use turns::{Outcome, Report};

use super::document::Decision;
use crate::objects::text;

/// Decisions of a turn about nodes, including those that shadow mode suppressed, and its errors. Effects of other lanes are visible in the
/// nodes themselves.
pub(crate) fn of_report(report: &Report) -> Vec<Decision> {
    let would = match report.stopped {
        Some(_) => "would ",
        None => "",
    };
    let acts = report.planned.iter().filter_map(|line| {
        let (act, why) = line.split_once(": ")?;
        let (act, _) = act.split_once(' ')?;
        let is_told = ["launch", "delete"].contains(&act);
        is_told.then(|| decision(report.at, &format!("{would}{act}"), &subject(line), why))
    });
    let failed = match &report.outcome {
        Outcome::Failed(error) => Some(error),
        Outcome::Done
        | Outcome::Held
        | Outcome::Unregistered
        | Outcome::Elsewhere(_)
        | Outcome::Postponed(_) => None,
    };
    let lane = report.lane.as_str();
    let lines = report.failed.iter().chain(&report.refused);
    let lines = lines.map(|line| warning(report.at, lane, &subject(line), line));
    let texts = report.problems.iter().chain(failed);
    let texts = texts.map(|text| warning(report.at, lane, "", text));
    acts.chain(lines).chain(texts).collect()
}

/// The first object that the page has a box for, else the first object of the line.
fn subject(line: &Line) -> String {
    let mut nodes = line.about.iter().filter_map(|subject| match subject {
        Subject::NodeClaim(name) => Some(name.to_string()),
        Subject::Node(name) => Some(name.to_string()),
        Subject::Pod(_) | Subject::NodePool(_) => None,
    });
    let first = line.about.first().map(Subject::to_string);
    nodes.next().or(first).unwrap_or_default()
}

pub(super) fn of_event(event: &Value) -> Option<Decision> {
    let at = ["/lastTimestamp", "/eventTime", "/firstTimestamp"]
        .into_iter()
        .find_map(|field| text(event, field).parse().ok())?;
    let constructor = match text(event, "/type") {
        "Warning" => warning,
        _ => decision,
    };
    Some(constructor(
        at,
        text(event, "/reason"),
        text(event, "/involvedObject/name"),
        text(event, "/message"),
    ))
}

pub(crate) fn decision(at: Timestamp, act: &str, subject: &str, why: &str) -> Decision {
    Decision {
        at,
        act: act.to_owned(),
        subject: subject.to_owned(),
        why: why.to_owned(),
        is_trouble: false,
    }
}

pub(crate) fn warning(at: Timestamp, act: &str, subject: &str, why: &str) -> Decision {
    Decision {
        is_trouble: true,
        ..decision(at, act, subject, why)
    }
}
