use console::Style;
use jiff::SignedDuration;

use crate::demo::picture::{Bought, NodeLine};

/// One thing that happened; times are since the beginning, in the story's time.
pub(in crate::demo) enum Line {
    Chapter(String),
    Typed(SignedDuration, String),
    /// What a turn decided, and why.
    Decided(SignedDuration, String, String),
    Ready(SignedDuration, NodeLine),
    Gone(SignedDuration, NodeLine),
    /// How many pods run, and how many there are.
    Pods(SignedDuration, usize, usize),
    Trouble(SignedDuration, String),
}

impl Line {
    /// Bars show some things better than lines.
    pub(super) fn is_told_by_bars(&self) -> bool {
        matches!(self, Self::Pods(..))
    }

    pub(super) fn text(&self, styled: bool) -> String {
        let paint =
            |style: Style, text: &str| style.force_styling(styled).apply_to(text).to_string();
        let (at, text) = match self {
            Self::Chapter(text) => return format!("\n{}", paint(Style::new().bold(), text)),
            Self::Typed(at, command) => (at, paint(Style::new().cyan(), &format!("$ {command}"))),
            Self::Decided(at, act, why) => {
                let why = paint(Style::new().dim(), why);
                (
                    at,
                    format!("{} {why}", paint(Style::new().bold(), &format!("{act}:"))),
                )
            }
            Self::Ready(at, node) => {
                let ready = paint(Style::new().green(), "Ready");
                (at, format!("{ready} {}", described(node)))
            }
            Self::Gone(at, node) => {
                let gone = paint(Style::new().yellow(), "gone");
                (at, format!("{gone} {}", described(node)))
            }
            Self::Pods(at, running, pods) => (at, format!("{running} of {pods} pods Running")),
            Self::Trouble(at, trouble) => (at, paint(Style::new().red(), &format!("! {trouble}"))),
        };
        let at = paint(Style::new().dim(), &format!("{:>7}", age(*at)));
        format!("{at}  {text}")
    }
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

/// As kubectl writes ages: `42s`, `3m05s`, `1h02m`.
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
    fn ages_are_short() {
        let text = |seconds| age(SignedDuration::from_secs(seconds));
        assert_eq!([text(7), text(185), text(3_725)], ["7s", "3m05s", "1h02m"]);
    }

    #[test]
    fn a_line_says_when_what_and_why() {
        let line = Line::Decided(
            SignedDuration::from_secs(65),
            "launch default-1".to_owned(),
            "for default/web".to_owned(),
        );
        assert_eq!(
            line.text(false),
            "  1m05s  launch default-1: for default/web"
        );
        assert!(line.text(true).contains('\u{1b}'));
    }
}
