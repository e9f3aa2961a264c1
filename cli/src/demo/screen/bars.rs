use std::collections::BTreeMap;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::NanosPerHour;

use crate::demo::picture::{NodeLine, Picture, Stage, is_running};

/// So many nodes get a bar; further ones are counted.
const SHOWN_MAX: usize = 12;
/// Fine enough for one CPU of a large node to show.
const EIGHTHS: &str = "█▉▊▋▌▍▎▏ ";

/// A bar per node, filling up, and a line of totals.
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
        // A terminal that cannot be written to shows nothing of the story either way.
        drop(self.all.println(line));
    }

    pub(super) fn show(&mut self, picture: &Picture) {
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
            draw(bar, line);
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

fn draw(bar: &ProgressBar, line: &NodeLine) {
    let colour = match line.stage {
        Stage::Launching | Stage::Booting | Stage::Joining => "yellow",
        Stage::Ready => "green",
        Stage::Leaving => "red",
    };
    bar.set_style(
        style(&format!("  {{prefix}} {{bar:24.{colour}/dim}} {{msg}}")).progress_chars(EIGHTHS),
    );
    let bought = line.bought.as_ref().map_or_else(
        || format!("{:48}", ""),
        |bought| {
            format!(
                "{:15} {:10} {:11} ${}/h",
                bought.instance_type,
                bought.capacity_type.as_str(),
                bought.zone,
                bought.price
            )
        },
    );
    bar.set_prefix(format!("{:26} {bought}", line.claim));
    bar.set_length(line.cpu_allocatable.max(1));
    bar.set_position(line.cpu_used);
    bar.set_message(match line.stage {
        Stage::Launching => "launching".to_owned(),
        Stage::Booting => "booting".to_owned(),
        Stage::Joining => "joining".to_owned(),
        Stage::Ready => format!(
            "{} of {} CPUs, {} pods",
            cores(line.cpu_used),
            cores(line.cpu_allocatable),
            line.pods
        ),
        Stage::Leaving => "leaving".to_owned(),
    });
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
        "  {nodes} nodes{more}   {running} of {} pods Running   ${}/h   ${} so far",
        picture.pods.len(),
        picture.hourly,
        NanosPerHour(picture.spent_nanos)
    )
}

/// Millicores as cores with one digit.
fn cores(millicores: u64) -> String {
    format!("{}.{}", millicores / 1000, millicores / 100 % 10)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
