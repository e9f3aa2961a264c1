//! Records as text and as rows of a table.

use std::fmt::Write;

use jiff::Timestamp;
use model::{Lane, ids::TurnId, journal::Line};
use serde::Serialize;
use turns::{Outcome, Report};

use crate::{output::Row, plan::counted};

/// Upper bound on the lines of one kind in a list entry; the rest are counted, so that an entry fits on a screen.
const LINES_SHOWN_MAX: usize = 5;

/// Decisions of a turn and their outcome, as a list entry.
pub(crate) fn short(report: &Report) -> String {
    let mut text = head(report);
    for (word, lines) in parts(report) {
        for line in lines.iter().take(LINES_SHOWN_MAX) {
            let _ = writeln!(text, "  {word:<9} {line}");
        }
        if let more @ 1.. = lines.len().saturating_sub(LINES_SHOWN_MAX) {
            let _ = writeln!(text, "  {word:<9} and {more} more");
        }
    }
    troubles(report, &mut text);
    text
}

/// All details of a turn.
pub(crate) fn whole(report: &Report) -> String {
    let mut text = head(report);
    let _ = writeln!(
        text,
        "  saw       generation {}, {}, {}, {}",
        report.generation,
        counted(report.nodes, "node"),
        counted(report.node_claims, "NodeClaim"),
        counted(report.pods, "pod")
    );
    if let Some(generation) = report.committed {
        let _ = writeln!(text, "  committed generation {generation}");
    }
    for (word, lines) in parts(report) {
        for line in lines {
            let _ = writeln!(text, "  {word:<9} {line}");
        }
    }
    if report.postponed > 0 {
        let _ = writeln!(
            text,
            "  left      {} to the next turn",
            counted(report.postponed, "pod")
        );
    }
    troubles(report, &mut text);
    for warning in &report.warnings {
        let _ = writeln!(text, "  note      {warning}");
    }
    if let Some(due) = report.due {
        let _ = writeln!(text, "  next look {due:.0}");
    }
    let kept = match &report.snapshot {
        Some(_) => format!("`whittle replay {} {}`", report.cluster, report.turn),
        None => "not kept".to_owned(),
    };
    let _ = writeln!(text, "  snapshot  {kept}");
    text
}

/// The lines about an object, each with its kind, time and turn.
pub(crate) fn about(report: &Report, wanted: &dyn Fn(&Line) -> bool) -> String {
    let mut text = String::new();
    for (word, lines) in parts(report) {
        for line in lines.iter().filter(|line| wanted(line)) {
            let _ = writeln!(
                text,
                "{:.0}  {:<11}  {word:<9} {line}",
                report.at,
                report.lane.as_str()
            );
        }
    }
    if !text.is_empty() {
        if let Some(stopped) = &report.stopped {
            let _ = writeln!(text, "{:24}not done: {stopped}", "");
        }
        let _ = writeln!(text, "{:24}turn {}", "", report.turn);
    }
    text
}

/// A turn in a table.
pub(crate) struct TurnRow(pub(crate) Report);

impl Row for TurnRow {
    const HEADERS: &'static [&'static str] = &[
        "AT", "LANE", "TURN", "OUTCOME", "PLANNED", "LAUNCHED", "FAILED", "WAITING", "NODES",
        "PODS", "PROBLEMS",
    ];
    const NARROW: usize = 7;

    fn cells(&self) -> Vec<String> {
        let report = &self.0;
        let outcome = match &report.outcome {
            Outcome::Done => "done",
            Outcome::Held => "held",
            Outcome::Unregistered => "unregistered",
            Outcome::Elsewhere(_) => "elsewhere",
            Outcome::Postponed(_) => "postponed",
            Outcome::Failed(_) => "failed",
        };
        let mut cells = vec![
            format!("{:.0}", report.at),
            report.lane.to_string(),
            report.turn.to_string(),
            outcome.to_owned(),
        ];
        let numbers = [
            report.planned.len() + report.shadowed.len(),
            report.launched.len(),
            report.failed.len(),
            report.unplaced.len(),
            report.nodes,
            report.pods,
            report.problems.len(),
        ];
        cells.extend(numbers.map(|number| number.to_string()));
        cells
    }

    fn name(&self) -> String {
        self.0.turn.to_string()
    }
}

/// A decision of a turn about an object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionRow {
    at: Timestamp,
    lane: Lane,
    /// Kind of the decision, such as `plans` or `launched`.
    kind: &'static str,
    decision: String,
    turn: TurnId,
    /// Reason for which nothing was done although something was planned.
    not_done: Option<String>,
}

/// The decisions of the lines about an object.
pub(crate) fn decisions(report: &Report, wanted: &dyn Fn(&Line) -> bool) -> Vec<DecisionRow> {
    let mut rows = Vec::new();
    for (kind, lines) in parts(report) {
        let lines = lines.iter().filter(|line| wanted(line));
        rows.extend(lines.map(|line| DecisionRow {
            at: report.at,
            lane: report.lane,
            kind,
            decision: line.to_string(),
            turn: report.turn.clone(),
            not_done: report.stopped.clone(),
        }));
    }
    rows
}

impl Row for DecisionRow {
    const HEADERS: &'static [&'static str] =
        &["AT", "LANE", "KIND", "DECISION", "TURN", "NOT DONE"];
    const NARROW: usize = 4;

    fn cells(&self) -> Vec<String> {
        vec![
            format!("{:.0}", self.at),
            self.lane.to_string(),
            self.kind.to_owned(),
            self.decision.clone(),
            self.turn.to_string(),
            self.not_done.clone().unwrap_or_default(),
        ]
    }

    fn name(&self) -> String {
        self.turn.to_string()
    }
}

fn head(report: &Report) -> String {
    format!("{:.0}  {}  turn {}\n", report.at, report.lane, report.turn)
}

fn parts(report: &Report) -> [(&'static str, &[Line]); 11] {
    [
        ("plans", &report.planned),
        ("would", &report.shadowed),
        ("expects", &report.expected),
        ("decides", &report.proposed),
        ("held back", &report.held_back),
        ("asks", &report.awaiting),
        ("over caps", &report.over_caps),
        ("refuses", &report.refused),
        ("waiting", &report.unplaced),
        ("launched", &report.launched),
        ("failed", &report.failed),
    ]
}

fn troubles(report: &Report, text: &mut String) {
    match &report.outcome {
        Outcome::Done | Outcome::Held | Outcome::Unregistered | Outcome::Elsewhere(_) => {}
        Outcome::Postponed(why) => {
            let _ = writeln!(text, "  postponed {why}");
        }
        Outcome::Failed(why) => {
            let _ = writeln!(text, "  ended by  {why}");
        }
    }
    if let Some(stopped) = &report.stopped {
        let _ = writeln!(text, "  not done  {stopped}");
    }
    for problem in &report.problems {
        let _ = writeln!(text, "  problem   {problem}");
    }
}
