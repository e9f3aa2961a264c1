//! A test's transcript as YAML: decisions and actions of turns, events and metrics.

use std::{collections::BTreeMap, path::Path};

use fakes::Sim;
use ports::{
    cluster::{Event, EventTarget},
    metrics::Measured,
};
use serde::Serialize;

use crate::Rig;

/// Compares a test's transcript with the reviewed file; `UPDATE_EXPECT=1` writes it. `story` is the path of the test.
pub fn compare(rig: &Rig, story: &str) {
    let path: Vec<&str> = story.split("::").collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let file = folder.join(format!("{}.yaml", path.join("/")));
    let page = serde_saphyr::to_string(&page(rig)).unwrap_or_else(|error| error.to_string());
    expect_test::expect_file![file].assert_eq(&page);
}

/// Compares the transcript of the enclosing test; a test with several runs names each.
#[macro_export]
macro_rules! transcript {
    ($rig:expr) => {{
        fn here() {}
        let story = ::std::any::type_name_of_val(&here);
        let story = story
            .trim_end_matches("::here")
            .replace("::{{closure}}", "");
        $crate::compare(&$rig, &story);
    }};
    ($rig:expr, $of:expr) => {{
        fn here() {}
        let story = ::std::any::type_name_of_val(&here);
        let story = story
            .trim_end_matches("::here")
            .replace("::{{closure}}", "");
        $crate::compare(&$rig, &format!("{story}.{}", $of));
    }};
}

#[derive(Serialize)]
struct Page {
    turns: Vec<String>,
    events: Vec<String>,
    metrics: BTreeMap<String, u64>,
}

fn page(rig: &Rig) -> Page {
    let mut turns = Deduplicated::default();
    for line in &rig.transcript {
        let (at, text) = line.split_once("s ").unwrap_or(("", line));
        turns.add(at.trim().parse().unwrap_or_default(), text.to_owned());
    }
    let mut events = Deduplicated::default();
    let mut metrics: BTreeMap<String, u64> = BTreeMap::new();
    rig.sim.with(|world| {
        for event in &world.api.events {
            events.add(event.at.as_second() - Sim::START, text(event));
        }
        for metric in &world.metrics {
            // Gauges that are published each minute are left out.
            if matches!(metric.value, Measured::PricePerHour(_)) {
                continue;
            }
            let labels = metric.labels.iter();
            let labels: Vec<String> = labels
                .map(|(label, value)| format!("{label}={value}"))
                .collect();
            let series = format!("{}{{{}}}", metric.name, labels.join(","));
            *metrics.entry(series).or_default() += match metric.value {
                Measured::Count(count) => count,
                Measured::Duration(_) | Measured::Value(_) | Measured::PricePerHour(_) => 1,
            };
        }
    });
    Page {
        turns: turns.lines(),
        events: events.lines(),
        metrics,
    }
}

fn text(event: &Event) -> String {
    let about = match &event.about {
        EventTarget::Pod(key, _) => format!("Pod {key}"),
        EventTarget::Node(name, _) => format!("Node {name}"),
        EventTarget::NodeClaim(name, _) => format!("NodeClaim {name}"),
        EventTarget::NodePool(name, _) => format!("NodePool {name}"),
        EventTarget::NodeClass(name, _) => format!("EC2NodeClass {name}"),
        EventTarget::CapacityBuffer(key, _) => format!("CapacityBuffer {key}"),
    };
    format!(
        "{about}: {:?} {}: {}",
        event.kind, event.reason, event.message
    )
}

/// Lines in the order of their first occurrence; repetitions are only counted.
#[derive(Default)]
struct Deduplicated {
    lines: Vec<(String, i64)>,
    again: BTreeMap<String, (usize, i64)>,
}

impl Deduplicated {
    fn add(&mut self, at: i64, line: String) {
        match self.again.get_mut(&line) {
            Some((times, last)) => {
                *times += 1;
                *last = at;
            }
            None => {
                self.again.insert(line.clone(), (0, at));
                self.lines.push((line, at));
            }
        }
    }

    fn lines(self) -> Vec<String> {
        let again = self.again;
        let lines = self.lines.into_iter().map(|(line, at)| {
            let more = match again.get(&line) {
                None | Some((0, _)) => String::new(),
                Some((1, last)) => format!(" (again at {last}s)"),
                Some((times, last)) => format!(" ({times} times more, the last at {last}s)"),
            };
            format!("{at}s {line}{more}")
        });
        lines.collect()
    }
}
