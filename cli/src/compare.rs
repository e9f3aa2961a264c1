//! `whittle compare`: the nodes of a shadowed cluster beside those that Whittle would have launched.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use anyhow::Result;
use clap::Args;
use jiff::Timestamp;
use model::{ClusterName, NanosPerHour, NodeName, PodKey, Snapshot};
use serde::Serialize;

use crate::{
    backtest::{
        Backtest, ReplacedNodes, Tally,
        views::{self, TimeSpan},
        waits,
    },
    journal::source::{self, Source},
    output::{self, Row, TextOutput},
    progress::Progress,
    replay::overrides::Overrides,
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle compare prod --since 7d
  whittle compare prod --instead-of eks.amazonaws.com/nodegroup")]
pub(crate) struct Arguments {
    /// Name of the registered cluster, in shadow mode
    cluster: String,
    /// Label of the nodes that Whittle would replace, besides nodes with NodeClaims, such as `eks.amazonaws.com/nodegroup` if the
    /// Cluster Autoscaler manages them
    #[arg(long, value_name = "LABEL[=VALUE]", value_parser = label)]
    instead_of: Option<(String, Option<String>)>,
    #[command(flatten)]
    stretch: TimeSpan,
    #[command(flatten)]
    output: TextOutput,
    #[command(flatten)]
    from: source::Origin,
}

fn label(text: &str) -> Result<(String, Option<String>), String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (text, None),
    };
    match key.is_empty() {
        true => Err("expected a label's key, or KEY=VALUE".to_owned()),
        false => Ok((key.to_owned(), value)),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let progress = Progress::of("Simulating the cluster of the journal");
    let (text, rows) = source::block_on(comparison(arguments))?;
    drop(progress);
    arguments.output.print(&text, &rows, &rows)
}

/// The command's output in the text format.
pub(crate) async fn text(arguments: &Arguments) -> Result<String> {
    Ok(comparison(arguments).await?.0)
}

/// The comparison as text and as rows.
async fn comparison(arguments: &Arguments) -> Result<(String, Vec<ComparisonRow>)> {
    let source = Source::open(&arguments.from).await?;
    let cluster = ClusterName(arguments.cluster.clone());
    let turns = views::turns_with_snapshots(&source, &cluster, &arguments.stretch).await?;
    let (nothing, replaced) = (
        Overrides::none(),
        ReplacedNodes(arguments.instead_of.clone()),
    );
    let mut ours = Backtest::new(&nothing, &replaced);
    let mut theirs = Actual::default();
    let mut seen = 0_usize;
    for turn in &turns {
        if let Some(snapshot) = views::open(&source, turn).await {
            ours.observe(&snapshot)?;
            theirs.observe(&snapshot, &replaced);
            seen += 1;
        }
    }
    let rows = rows(&theirs, &ours.tally);
    Ok((page(&cluster, seen, &ours.tally, &rows), rows))
}

/// Totals of the actual cluster, derived from views.
#[derive(Default)]
struct Actual {
    last: Option<Last>,
    spent: i128,
    waited: i128,
    seconds: i128,
    moved: usize,
    came: usize,
    went: usize,
}

struct Last {
    at: Timestamp,
    cost: NanosPerHour,
    waiting: usize,
    nodes: BTreeSet<NodeName>,
    places: BTreeMap<PodKey, NodeName>,
}

impl Actual {
    fn observe(&mut self, seen: &Snapshot, replaced: &ReplacedNodes) {
        let nodes: BTreeSet<NodeName> = replaced.nodes(seen).into_iter().cloned().collect();
        let pods = seen.pods.iter();
        let places: BTreeMap<PodKey, NodeName> = pods
            .filter(|pod| {
                pod.owner
                    .as_ref()
                    .is_none_or(|owner| owner.kind != "DaemonSet")
            })
            .filter_map(|pod| Some((pod.key.clone(), pod.node_name.clone()?)))
            .filter(|(_, node)| nodes.contains(node))
            .collect();
        let next = Last {
            at: seen.now,
            cost: replaced.cost(seen),
            waiting: seen.pods.iter().filter(|pod| waits(pod)).count(),
            nodes,
            places,
        };
        if let Some(last) = self.last.replace(next)
            && let Some(next) = &self.last
        {
            let seconds = i128::from(next.at.duration_since(last.at).as_secs());
            self.seconds += seconds;
            self.spent += i128::from(last.cost.0) * seconds;
            self.waited += i128::try_from(last.waiting).unwrap_or_default() * seconds;
            self.came += next.nodes.difference(&last.nodes).count();
            self.went += last.nodes.difference(&next.nodes).count();
            // Pods whose node is gone have moved.
            let moved = last
                .places
                .values()
                .filter(|node| !next.nodes.contains(node));
            self.moved += moved.count();
        }
    }

    fn cost(&self) -> NanosPerHour {
        let mean = self.spent.checked_div(self.seconds).unwrap_or(0);
        NanosPerHour(i64::try_from(mean).unwrap_or(i64::MAX))
    }

    fn waiting(&self) -> i128 {
        (self.waited * 100).checked_div(self.seconds).unwrap_or(0)
    }
}

/// Hours of a month, as AWS counts them.
const HOURS: i64 = 730;

/// A measure of the cluster as it was, and of the one that Whittle would have had.
#[derive(Serialize)]
struct ComparisonRow {
    measure: &'static str,
    actual: String,
    whittle: String,
}

impl Row for ComparisonRow {
    const HEADERS: &'static [&'static str] = &["MEASURE", "ACTUAL", "WHITTLE"];
    const NARROW: usize = 3;

    fn cells(&self) -> Vec<String> {
        vec![
            self.measure.to_owned(),
            self.actual.clone(),
            self.whittle.clone(),
        ]
    }

    fn name(&self) -> String {
        self.measure.to_owned()
    }
}

fn rows(theirs: &Actual, ours: &Tally) -> Vec<ComparisonRow> {
    let hour = |hour: NanosPerHour| format!("${hour}");
    let month = |hour: NanosPerHour| format!("${}", NanosPerHour(hour.0.saturating_mul(HOURS)));
    let hundredths = |number: i128| format!("{}.{:02}", number / 100, number % 100);
    let measures = [
        ("Nodes, per hour", hour(theirs.cost()), hour(ours.cost())),
        (
            "Nodes, per month of 730 hours",
            month(theirs.cost()),
            month(ours.cost()),
        ),
        (
            "Pods moved",
            theirs.moved.to_string(),
            ours.evictions.to_string(),
        ),
        (
            "Nodes launched",
            theirs.came.to_string(),
            ours.launched.to_string(),
        ),
        (
            "Nodes removed",
            theirs.went.to_string(),
            ours.removed.to_string(),
        ),
        (
            "Pods waiting, on average",
            hundredths(theirs.waiting()),
            hundredths(ours.waiting()),
        ),
    ];
    let row = |(measure, actual, whittle)| ComparisonRow {
        measure,
        actual,
        whittle,
    };
    measures.map(row).into()
}

fn page(cluster: &ClusterName, views: usize, ours: &Tally, rows: &[ComparisonRow]) -> String {
    let mut page = format!("Cluster {cluster}");
    if let Some((from, until)) = ours.span {
        let _ = write!(page, " from {from:.0} to {until:.0}, by {views} views");
    }
    page.push_str("\n\n");
    page.push_str(&output::table(rows, ComparisonRow::NARROW, true));
    page.push_str(
        "\nACTUAL is what views of the cluster show: pods count as moved if their node is gone, and nodes that came and went \
         between two views are not seen. WHITTLE is simulated with the cluster's own NodePools: nodes are ready at once, \
         and interruptions and failed launches are left out.\n",
    );
    page
}
