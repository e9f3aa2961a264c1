//! Summary at the end of the story.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use jiff::SignedDuration;
use model::NanosPerHour;

use super::{audience::Tally, screen::age, story::Missing};

pub(super) fn summary(
    tally: &Tally,
    missing: &[Missing],
    to_the_end: bool,
    real: Duration,
) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:8} {value}");
    };
    let mut waits: Vec<SignedDuration> = tally.waits.values().copied().collect();
    waits.sort_unstable();
    let wait = |index: usize| age(waits.get(index).copied().unwrap_or_default());
    line(
        "pods",
        format!(
            "{} ran; from creation to Running {} in the median, {} at most",
            waits.len(),
            wait(waits.len() / 2),
            wait(waits.len().saturating_sub(1))
        ),
    );
    line("nodes", format!("{} launched", tally.bought.len()));
    for (node_type, count) in node_types(tally) {
        line("", format!("{count} × {node_type}"));
    }
    line(
        "cost",
        format!(
            "${} for all of it, at most ${}/h",
            NanosPerHour(tally.spent_nanos),
            tally.highest_hourly
        ),
    );
    let lasted = tally.ended.duration_since(tally.started);
    line(
        "time",
        format!(
            "{} of the cluster's in {} s of yours",
            age(lasted),
            real.as_secs()
        ),
    );
    if to_the_end && tally.remaining == 0 {
        line("gone", "every instance, node and NodeClaim".to_owned());
    }
    for what in missing {
        line("MISSING", what.clone());
    }
    text
}

/// Number of instances by type and capacity type, such as `m8g.large spot`.
fn node_types(tally: &Tally) -> BTreeMap<String, usize> {
    let mut node_types = BTreeMap::new();
    for bought in tally.bought.values() {
        let node_type = format!("{} {}", bought.instance_type, bought.capacity_type);
        *node_types.entry(node_type).or_insert(0) += 1;
    }
    node_types
}
