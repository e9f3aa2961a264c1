//! Records as text.

use std::fmt::Write;

use model::journal::Line;
use turns::{Outcome, Report};

use crate::plan::counted;

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
