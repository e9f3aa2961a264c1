use std::collections::BTreeMap;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::{NanosPerHour, counted};

use crate::demo::picture::{NodeLine, Picture, Stage, is_running};

/// Upper bound on the nodes with a bar; further ones are counted.
const SHOWN_MAX: usize = 12;
/// Characters of a bar, fine enough to show one CPU of a large node.
const EIGHTHS: &str = "█▉▊▋▌▍▎▏·";

/// A bar per node that shows its requests, and a line of totals.
pub(in crate::demo) struct Bars {
    all: MultiProgress,
    nodes: BTreeMap<String, ProgressBar>,
    totals: ProgressBar,
}

impl Bars {
    pub(super) fn new() -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let totals = all.add(ProgressBar::no_length().with_style(style("{msg:.bold}")));
        Self {
            all,
            nodes: BTreeMap::new(),
            totals,
        }
    }

    pub(super) fn say(&self, line: &str) {
        // A terminal that cannot be written to cannot show the error either.
        drop(self.all.println(line));
    }

    pub(super) fn show(&mut self, picture: &Picture, width: usize) {
        let lines = picture.lines();
        let shown = || lines.iter().take(SHOWN_MAX);
        let gone: Vec<String> = self
            .nodes
            .keys()
            .filter(|claim| !shown().any(|line| line.claim == **claim))
            .cloned()
            .collect();
        for bar in gone.iter().filter_map(|claim| self.nodes.remove(claim)) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        for line in shown() {
            let bar = self
                .nodes
                .entry(line.claim.clone())
                .or_insert_with(|| self.all.insert_before(&self.totals, ProgressBar::new(0)));
            draw(bar, line, width);
        }
        self.totals.set_message(totals(picture, lines.len()));
    }

    pub(super) fn clear(&mut self) {
        for bar in self.nodes.values() {
            bar.finish_and_clear();
        }
        self.totals.finish_and_clear();
    }
}

/// Width from which terminals show more of each node.
const WIDE: usize = 120;
/// Minimum width of a bar in columns.
const NARROWEST: usize = 8;
const WIDEST: usize = 32;

fn draw(bar: &ProgressBar, line: &NodeLine, width: usize) {
    let colour = match line.stage {
        Stage::Launching | Stage::Booting | Stage::Joining => "yellow",
        Stage::Ready => "green",
        Stage::Leaving => "red",
    };
    let bought = line.bought.as_ref().map_or_else(
        || format!("{:45}", ""),
        |bought| {
            format!(
                "{:13} {:9} {:10} {:>10}",
                bought.instance_type,
                bought.capacity_type.as_str(),
                bought.zone,
                format!("${}/h", bought.price)
            )
        },
    );
    let used = format!(
        "{:>4} of {:>4} CPUs",
        cores(line.cpu_used),
        cores(line.cpu_allocatable)
    );
    let (prefix, filled) = if width < WIDE {
        (bought, used)
    } else {
        let pods = format!("{used} {:3} pods", line.pods);
        (format!("{:29} {bought}", line.claim), pods)
    };
    let message = match line.stage {
        Stage::Launching => "launching",
        Stage::Booting => "booting",
        Stage::Joining => "joining",
        Stage::Ready => &filled,
        Stage::Leaving => "leaving",
    };
    // Two columns before, one on each side of the bar, and one that stays free: a line that fills the last column may wrap.
    let taken = 5 + prefix.chars().count() + filled.chars().count();
    let length = width.saturating_sub(taken).clamp(NARROWEST, WIDEST);
    let template = format!("  {{prefix}} {{bar:{length}.{colour}/dim}} {{msg}}");
    bar.set_style(style(&template).progress_chars(EIGHTHS));
    bar.set_prefix(prefix);
    bar.set_length(line.cpu_allocatable.max(1));
    bar.set_position(line.cpu_used);
    bar.set_message(message.to_owned());
}

fn totals(picture: &Picture, nodes: usize) -> String {
    let running = picture.pods.iter().filter(|pod| is_running(pod)).count();
    let more = nodes.saturating_sub(SHOWN_MAX);
    let more = if more > 0 {
        format!(" ({more} not shown)")
    } else {
        String::new()
    };
    format!(
        "  {}{more}   {running} of {} Running   ${}/h   ${} so far",
        counted(nodes, "node"),
        counted(picture.pods.len(), "pod"),
        picture.hourly,
        NanosPerHour(picture.spent_nanos)
    )
}

/// Millicores as cores with one decimal.
fn cores(millicores: u64) -> String {
    format!("{}.{}", millicores / 1000, millicores / 100 % 10)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_is_singular() {
        let line = totals(&Picture::default(), 1);
        assert!(line.starts_with("  1 node   0 of 0 pods Running"), "{line}");
    }
}
