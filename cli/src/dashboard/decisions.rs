//! Decisions for the page: those of turns.

pub(super) mod observed;

use jiff::Timestamp;
use model::journal::{Line, Subject};
use turns::{Outcome, Report};

use super::document::{Decision, DecisionKind};

/// Decisions of a turn about nodes, including those that shadow mode suppressed, and its errors. Effects of other lanes are visible in the
/// nodes themselves.
pub(crate) fn of_report(report: &Report) -> Vec<Decision> {
    let is_done = report.stopped.is_none();
    let acts = report.planned.iter().filter_map(|line| {
        let (act, why) = line.split_once(": ")?;
        let (act, _) = act.split_once(' ')?;
        let kind = match act {
            "launch" => DecisionKind::Launch,
            "delete" => DecisionKind::Delete,
            _ => return None,
        };
        let (kind, act) = match is_done {
            true => (kind, act.to_owned()),
            false => (DecisionKind::Note, format!("would {act}")),
        };
        Some(decision(report.at, kind, &act, &subject(line), why))
    });
    let failed = match &report.outcome {
        Outcome::Failed(error) => Some(error),
        Outcome::Done
        | Outcome::Held
        | Outcome::Unregistered
        | Outcome::Elsewhere(_)
        | Outcome::Postponed(_) => None,
    };
    let disrupted = report.disrupted.iter();
    let disrupted = disrupted.map(|line| note(report.at, "disrupt", &subject(line), line));
    let lane = report.lane.as_str();
    let lines = report.failed.iter().chain(&report.refused);
    let lines = lines.map(|line| warning(report.at, lane, &subject(line), line));
    let waiting = report.awaiting.iter();
    let waiting = waiting.map(|line| warning(report.at, "wait for approval", &subject(line), line));
    let texts = report.problems.iter().chain(failed);
    let texts = texts.map(|text| warning(report.at, lane, "", text));
    let acts = acts.chain(disrupted).chain(lines);
    acts.chain(waiting).chain(texts).collect()
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

pub(crate) fn decision(
    at: Timestamp,
    kind: DecisionKind,
    act: &str,
    subject: &str,
    why: &str,
) -> Decision {
    Decision {
        at,
        kind,
        act: act.to_owned(),
        subject: subject.to_owned(),
        why: why.to_owned(),
        hourly: None,
    }
}

pub(crate) fn note(at: Timestamp, act: &str, subject: &str, why: &str) -> Decision {
    decision(at, DecisionKind::Note, act, subject, why)
}

pub(crate) fn warning(at: Timestamp, act: &str, subject: &str, why: &str) -> Decision {
    decision(at, DecisionKind::Warning, act, subject, why)
}
