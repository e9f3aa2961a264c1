//! `whittle review`: effects of changed manifests over the last days, as a page for a pull request.

use std::{collections::BTreeMap, fmt::Write as _, io::Write};

use anyhow::Result;
use clap::Args;
use model::{ClusterName, NanosPerHour, NodePoolName, Snapshot};

use crate::{
    backtest::{
        Backtest, ReplacedNodes, Tally,
        views::{self, TimeSpan},
    },
    exit::Exit,
    journal::source::{self, Source},
    plan::counted,
    progress::Progress,
    replay::overrides::{Changes, Overrides},
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle review prod --with nodepools.yaml > review.md
  whittle review prod --with nodepools.yaml --since 3d --cost 5")]
pub(crate) struct Arguments {
    /// Name of the registered cluster
    cluster: String,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    stretch: TimeSpan,
    /// Cost increase that counts as worse, in percent of the previous cost
    #[arg(long, default_value_t = 10)]
    cost: u32,
    /// Increase of evictions that counts as worse, in percent of the previous number
    #[arg(long, default_value_t = 50)]
    evictions: u32,
    #[command(flatten)]
    from: source::Origin,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let changes = Overrides::read(&arguments.changes)?;
    source::block_on(async {
        let progress = Progress::of("Simulating the cluster of the journal");
        let source = Source::open(&arguments.from).await?;
        let cluster = ClusterName(arguments.cluster.clone());
        let turns = views::turns_with_snapshots(&source, &cluster, &arguments.stretch).await?;
        let (nothing, replaced) = (Overrides::none(), ReplacedNodes::default());
        let mut before = Backtest::new(&nothing, &replaced);
        let mut after = Backtest::new(&changes, &replaced);
        let mut last = None;
        let mut seen = 0_usize;
        for turn in &turns {
            let Some(snapshot) = views::open(&source, turn).await else {
                continue;
            };
            before.observe(&snapshot)?;
            after.observe(&snapshot)?;
            seen += 1;
            last = Some(snapshot);
        }
        let (before, after) = (before.tally, after.tally);
        let drifted = last.map_or(Ok(BTreeMap::new()), |last| drifted(&last, &changes))?;
        let risks = risks(arguments, &before, &after, &drifted);
        let page = page(&cluster, seen, &before, &after, &risks);
        drop(progress);
        std::io::stdout().write_all(page.as_bytes())?;
        let worse = risks.iter().any(|(worse, _)| *worse);
        Ok(if worse { Exit::Worse } else { Exit::Done })
    })
}

/// Number of nodes by NodePool that would be replaced because their template changes (docs/spec/lifecycle.md#drifted).
fn drifted(last: &Snapshot, changes: &Overrides) -> Result<BTreeMap<NodePoolName, usize>> {
    let mut changed = last.clone();
    for note in changes.apply(&mut changed)? {
        eprintln!("whittle: {note}");
    }
    let hashes = |snapshot: &Snapshot| -> BTreeMap<NodePoolName, String> {
        let pools = snapshot.node_pools.iter();
        pools
            .map(|pool| (pool.name.clone(), planner::node_pool_hash(&pool.template)))
            .collect()
    };
    let (before, after) = (hashes(last), hashes(&changed));
    let mut drifted = BTreeMap::new();
    for pool in last
        .node_claims
        .iter()
        .filter_map(|claim| claim.node_pool())
    {
        let other = after
            .get(&pool)
            .is_some_and(|hash| before.get(&pool) != Some(hash));
        if other || !after.contains_key(&pool) {
            *drifted.entry(pool).or_default() += 1;
        }
    }
    Ok(drifted)
}

/// Risks for the reviewer, and whether any is worse than allowed.
fn risks(
    arguments: &Arguments,
    before: &Tally,
    after: &Tally,
    drifted: &BTreeMap<NodePoolName, usize>,
) -> Vec<(bool, String)> {
    let mut risks = Vec::new();
    if after.waiting() > before.waiting() {
        let (was, is) = (hundredths(before.waiting()), hundredths(after.waiting()));
        risks.push((
            true,
            format!("Pods find no place: {is} on average, where {was} did."),
        ));
    }
    let (was, is) = (i128::from(before.cost().0), i128::from(after.cost().0));
    if is * 100 > was * (100 + i128::from(arguments.cost)) {
        let more = format!("It costs over {} % more.", arguments.cost);
        risks.push((true, more));
    }
    let (was, is) = (before.evictions as u128, after.evictions as u128);
    if is * 100 > was * (100 + u128::from(arguments.evictions)) {
        let more = format!("Over {} % more pods are evicted.", arguments.evictions);
        risks.push((true, more));
    }
    for (pool, count) in drifted {
        risks.push((
            false,
            format!(
                "NodePool `{pool}`: {} to be replaced as its budgets allow, because its template changes or it goes.",
                counted(*count, "node")
            ),
        ));
    }
    if let (Some(was), Some(is)) = (before.fewest_types, after.fewest_types)
        && is < was
    {
        risks.push((
            false,
            format!("A launch has {} to choose from, where the least was {was}: less capacity is at hand, and spot is taken back more often.", counted(is, "instance type")),
        ));
    }
    if let (Some(was), Some(is)) = (before.fewest_zones, after.fewest_zones)
        && is < was
    {
        risks.push((
            false,
            format!(
                "All nodes are in {} at a time, where {was} was the least.",
                counted(is, "zone")
            ),
        ));
    }
    risks
}

fn page(
    cluster: &ClusterName,
    views: usize,
    before: &Tally,
    after: &Tally,
    risks: &[(bool, String)],
) -> String {
    let mut page = format!("# Review of cluster {cluster}\n\n");
    if let Some((from, until)) = before.span {
        let _ = writeln!(
            page,
            "From {from:.0} to {until:.0}, by {views} views of its pods.\n"
        );
    }
    page.push_str("| | as it is | with the changes | |\n|---|---:|---:|---:|\n");
    let mut row = |what: &str, was: String, is: String, change: String| {
        let _ = writeln!(page, "| {what} | {was} | {is} | {change} |");
    };
    let money = |price: NanosPerHour| format!("${price}");
    let percent = |was: i64, is: i64| match was {
        0 => String::new(),
        was => format!("{:+} %", (i128::from(is - was) * 100) / i128::from(was)),
    };
    let (was, is) = (before.cost(), after.cost());
    row("Cost per hour", money(was), money(is), percent(was.0, is.0));
    let (was, is) = (before.cost_on_spot(), after.cost_on_spot());
    row(
        "… of that on spot",
        money(was),
        money(is),
        percent(was.0, is.0),
    );
    let mut count = |what: &str, was: usize, is: usize| {
        let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        row(
            what,
            was.to_string(),
            is.to_string(),
            percent(signed(was), signed(is)),
        );
    };
    count("Pods evicted", before.evictions, after.evictions);
    count("Nodes launched", before.launched, after.launched);
    count("Nodes removed", before.removed, after.removed);
    row(
        "Pods without a place, on average",
        hundredths(before.waiting()),
        hundredths(after.waiting()),
        String::new(),
    );
    page.push_str("\n## Risks\n\n");
    if risks.is_empty() {
        page.push_str("None that these views show.\n");
    }
    for (worse, risk) in risks {
        let _ = writeln!(page, "- {}{risk}", if *worse { "**Worse:** " } else { "" });
    }
    page.push_str(
        "\nBoth columns are rehearsed: the pods that were there over this time, on nodes that Whittle would have had for them, at the \
         prices of then. What is bought comes at once; interruptions, failed launches and drift are left out.\n",
    );
    page
}

fn hundredths(number: i128) -> String {
    format!("{}.{:02}", number / 100, number % 100)
}
