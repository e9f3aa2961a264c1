use console::Style;
use jiff::SignedDuration;

use crate::demo::picture::{Bought, NodeLine};

/// A line of output. Times are since the start, in simulated time.
pub(in crate::demo) enum Line {
    Chapter(String),
    Typed(SignedDuration, String),
    /// Decision of a turn, and the reason.
    Decided(SignedDuration, String, String),
    Ready(SignedDuration, NodeLine),
    Gone(SignedDuration, NodeLine),
    /// Number of running pods, and of all pods.
    Pods(SignedDuration, usize, usize),
    /// An event in AWS or in the cluster, or an effect that occurred.
    Note(SignedDuration, String),
    /// Output of a command, with any number of lines.
    Output(String),
    Warning(SignedDuration, String),
}

impl Line {
    /// Whether the bars already show the content of the line.
    pub(super) fn is_shown_by_bars(&self) -> bool {
        matches!(self, Self::Pods(..))
    }

    /// Renders one plain line for other programs.
    pub(super) fn plain(&self) -> String {
        let (at, text) = match self {
            Self::Chapter(text) => return format!("\n{text}"),
            Self::Typed(at, command) => (at, format!("$ {command}")),
            Self::Decided(at, act, why) => (at, format!("{act}: {why}")),
            Self::Ready(at, node) => (at, format!("Ready {}", described(node))),
            Self::Gone(at, node) => (at, format!("gone {}", described(node))),
            Self::Pods(at, running, pods) => (at, format!("{running} of {pods} pods Running")),
            Self::Note(at, text) => (at, text.clone()),
            Self::Output(text) => return indented(text),
            Self::Warning(at, warning) => (at, format!("! {warning}")),
        };
        format!("{:>7}  {text}", age(*at))
    }

    /// Renders the line in colors, with each reason on a line of its own and no line wider than the terminal.
    pub(super) fn styled(&self, width: usize) -> String {
        let room = width.saturating_sub(MARGIN);
        let paint = |style: Style, text: &str| {
            let style = style.force_styling(true);
            style.apply_to(shortened(text, room)).to_string()
        };
        let (at, text) = match self {
            Self::Chapter(text) => {
                let style = Style::new().bold().force_styling(true);
                return format!("\n{}", style.apply_to(shortened(text, width)));
            }
            Self::Typed(at, command) => (at, paint(Style::new().cyan(), &format!("$ {command}"))),
            Self::Decided(at, act, why) => {
                let mut text = paint(Style::new().bold(), act);
                for reason in why.split("; ") {
                    let reason = paint(Style::new().dim(), &format!("  {reason}"));
                    text.push_str(&format!("\n{:MARGIN$}{reason}", ""));
                }
                (at, text)
            }
            Self::Ready(at, node) => {
                let text = format!("Ready {}", described(node));
                (at, paint(Style::new().green(), &text))
            }
            Self::Gone(at, node) => {
                let text = format!("gone {}", described(node));
                (at, paint(Style::new().yellow(), &text))
            }
            Self::Pods(at, running, pods) => (at, format!("{running} of {pods} pods Running")),
            Self::Note(at, text) => {
                let mut lines = wrapped(text, room).into_iter();
                let mut text = paint(Style::new().magenta(), &lines.next().unwrap_or_default());
                for line in lines {
                    let line = paint(Style::new().magenta(), &format!("  {line}"));
                    text.push_str(&format!("\n{:MARGIN$}{line}", ""));
                }
                (at, text)
            }
            Self::Output(text) => return indented(text),
            Self::Warning(at, warning) => (at, paint(Style::new().red(), &format!("! {warning}"))),
        };
        let at = paint(Style::new().dim(), &format!("{:>7}", age(*at)));
        format!("{at}  {text}")
    }
}

/// Columns of the time at the start of a line.
const MARGIN: usize = 9;

fn indented(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("{:MARGIN$}{line}", "").trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// Splits a text into lines of at most `room` columns, with two left for an indent.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let room = room.saturating_sub(2);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn described(node: &NodeLine) -> String {
    match &node.bought {
        Some(bought) => format!("{}: {bought}", node.claim),
        None => node.claim.clone(),
    }
}

impl std::fmt::Display for Bought {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} {} {} ${}/h",
            self.instance_type, self.capacity_type, self.zone, self.price
        )
    }
}

/// An age in kubectl's format: `42s`, `3m05s`, `1h02m`.
pub(in crate::demo) fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_kubectls_format() {
        let text = |seconds| age(SignedDuration::from_secs(seconds));
        assert_eq!([text(7), text(185), text(3_725)], ["7s", "3m05s", "1h02m"]);
    }

    #[test]
    fn line_has_time_decision_and_reason() {
        let line = Line::Decided(
            SignedDuration::from_secs(65),
            "launch default-1".to_owned(),
            "for default/web; cheapest of 12 instance types".to_owned(),
        );
        assert_eq!(
            line.plain(),
            "  1m05s  launch default-1: for default/web; cheapest of 12 instance types"
        );
        let styled = line.styled(30);
        assert!(styled.contains('\u{1b}'));
        let shown = console::strip_ansi_codes(&styled).into_owned();
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "  1m05s  launch default-1",
                "           for default/web",
                "           cheapest of 12 ins…"
            ]
        );
    }
}
