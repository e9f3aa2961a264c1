//! Output of the story: on a terminal with a bar per node below it, elsewhere line by line.

mod bars;
mod line;

use console::Term;

use self::bars::Bars;
pub(super) use self::line::{Line, age};
use super::picture::Picture;

pub(super) enum Screen {
    Plain,
    Bars(Bars),
}

impl Screen {
    pub(super) fn plain() -> Self {
        Self::Plain
    }

    pub(super) fn bars() -> Self {
        Self::Bars(Bars::new())
    }

    pub(super) fn say(&self, line: &Line) {
        match self {
            Self::Plain => print(&line.plain()),
            Self::Bars(bars) => {
                if line.is_shown_by_bars() {
                    return;
                }
                bars.say(&line.styled(width()));
            }
        }
    }

    pub(super) fn show(&mut self, picture: &Picture) {
        match self {
            Self::Plain => {}
            Self::Bars(bars) => bars.show(picture, width()),
        }
    }

    /// Removes the bars.
    pub(super) fn end(&mut self) {
        match self {
            Self::Plain => {}
            Self::Bars(bars) => bars.clear(),
        }
    }
}

/// Width of the terminal in columns.
fn width() -> usize {
    let (_, columns) = Term::stdout().size();
    columns.into()
}

/// Prints a line. A closed pipe, as with `head`, is no reason to stop.
pub(super) fn print(line: &str) {
    drop(Term::stdout().write_line(line));
}
