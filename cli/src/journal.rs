//! `whittle journal`: decisions of turns, and their outcome.

mod directory;
pub(crate) mod follow;
pub(crate) mod rendering;
pub(crate) mod source;

use std::{io::Write, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueHint};
use jiff::Timestamp;
use model::{ClusterName, Lane};
use ports::{Archive, Journal, JournalEntry, journal::JournalQuery};
use turns::Report;

pub(crate) use self::directory::Directory;
use self::{follow::Follow, rendering::TurnRow, source::Source};
use crate::{
    moment::{self, Moment},
    output::{Format, TextOutput},
    progress::Progress,
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle journal prod
  whittle journal prod --since 7d --lane disruption -o table
  whittle journal prod --follow
  whittle journal prod 4f1c2a9b
  whittle journal prod --since 7d --export copy
  whittle journal prod --from copy")]
pub(crate) struct Arguments {
    /// Name of the registered cluster
    cluster: String,
    /// Turn to show in full; without it, list decisions of turns, oldest first
    turn: Option<String>,
    #[command(flatten)]
    from: source::Origin,
    /// Start of the list: a time such as 2026-08-22T12:00:00Z, or an age such as 7d or 2h30m
    #[arg(long, default_value = "1h", value_parser = moment::parse)]
    since: Moment,
    /// End of the list, a time or an age such as 2h30m; defaults to now
    #[arg(long, value_parser = moment::parse)]
    until: Option<Moment>,
    /// Show only decisions of this function
    #[arg(long, value_parser = lane)]
    lane: Option<Lane>,
    /// Show at most N records, newest last
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    last: usize,
    /// Follow new decisions until interrupted
    #[arg(short, long, conflicts_with_all = ["until", "export", "turn"])]
    follow: bool,
    /// Copy the records and snapshots into this directory, for `--from`
    #[arg(long, conflicts_with = "turn", value_name = "DIR", value_hint = ValueHint::DirPath)]
    export: Option<PathBuf>,
    #[command(flatten)]
    output: TextOutput,
}

/// Interval between reads of the ledger.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

fn lane(text: &str) -> Result<Lane, String> {
    let lanes = Lane::WOKEN
        .into_iter()
        .chain([Lane::Interruption, Lane::Housekeeper]);
    let mut lanes = lanes.filter(|lane| lane.as_str() == text);
    lanes.next().ok_or_else(|| {
        "expected provisioner, lifecycle, disruption, terminator, interruption or housekeeper"
            .to_owned()
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    source::block_on(async {
        let source = Source::open(&arguments.from).await?;
        let cluster = ClusterName(arguments.cluster.clone());
        match (&arguments.turn, &arguments.export) {
            (Some(turn), _) => {
                let entries = source.turn(&cluster, turn).await?;
                print(&arguments.output, &entries, true)
            }
            (None, Some(directory)) => export(arguments, &source, &cluster, directory).await,
            (None, None) => list(arguments, &source, &cluster).await,
        }
    })
}

/// The requested records, oldest first.
async fn records(
    arguments: &Arguments,
    source: &Source,
    cluster: &ClusterName,
    now: Timestamp,
) -> Result<Vec<JournalEntry>> {
    let wanted = JournalQuery {
        about: None,
        from: arguments.since.before(now)?,
        until: arguments.until.map_or(Ok(now), |until| until.before(now))?,
        most: arguments.last,
    };
    if wanted.from >= wanted.until {
        bail!(
            "--since {} is not before --until {}",
            wanted.from,
            wanted.until
        );
    }
    let mut found = source.latest(cluster, &wanted).await?;
    found.retain(|entry| arguments.lane.is_none_or(|lane| entry.lane == lane));
    found.reverse();
    Ok(found)
}

async fn list(arguments: &Arguments, source: &Source, cluster: &ClusterName) -> Result<()> {
    let now = moment::now();
    let since = arguments.since.before(now)?;
    if !arguments.follow {
        let progress = Progress::of("Reading the journal");
        let found = records(arguments, source, cluster, now).await?;
        drop(progress);
        if found.is_empty() {
            eprintln!("whittle: nothing was decided in cluster {cluster} since {since:.0}");
        }
        return print(&arguments.output, &found, false);
    }
    let mut follow = Follow::since(since);
    let mut output = arguments.output;
    loop {
        let until = moment::now();
        let mut found = follow
            .read_new(source, cluster, until, arguments.last)
            .await?;
        found.retain(|entry| arguments.lane.is_none_or(|lane| entry.lane == lane));
        print(&output, &found, false)?;
        if !found.is_empty() {
            output = output.without_headers();
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Prints records. A closed pipe, as with `head`, ends the listing.
fn print(output: &TextOutput, entries: &[JournalEntry], whole: bool) -> Result<()> {
    let readable = || {
        let read = entries.iter().map(Report::read);
        read.filter_map(|read| {
            read.map_err(|error| eprintln!("whittle: {:#}", anyhow::Error::from(error)))
                .ok()
        })
    };
    let mut out = std::io::stdout().lock();
    match output.format() {
        Format::Json => {
            for entry in entries {
                writeln!(out, "{}", serde_json::to_string(&entry.body)?)?;
            }
        }
        Format::Yaml => {
            for entry in entries {
                write!(out, "---\n{}", serde_saphyr::to_string(&entry.body)?)?;
            }
        }
        Format::Text => {
            for report in readable() {
                let text = match whole {
                    true => rendering::whole(&report),
                    false => rendering::short(&report),
                };
                write!(out, "{text}")?;
            }
        }
        Format::Table | Format::Wide | Format::Name => {
            drop(out);
            let rows: Vec<TurnRow> = readable().map(TurnRow).collect();
            return output.print("", &rows, &());
        }
    }
    Ok(out.flush()?)
}

async fn export(
    arguments: &Arguments,
    source: &Source,
    cluster: &ClusterName,
    directory: &std::path::Path,
) -> Result<()> {
    let found = records(arguments, source, cluster, moment::now()).await?;
    let target = Directory::create(directory, cluster)?;
    let (mut snapshots, mut lost) = (0_usize, 0_usize);
    for entry in &found {
        if let Some(name) = entry.body.get("snapshot").and_then(|name| name.as_str()) {
            match source.archive.get(name).await? {
                Some(object) => {
                    target.put(name, object).await?;
                    snapshots += 1;
                }
                None => lost += 1,
            }
        }
        let recorded = target.record(cluster, entry).await;
        recorded.with_context(|| format!("cannot write into {}", directory.display()))?;
    }
    let lost = match lost {
        0 => String::new(),
        lost => format!("; {lost} snapshots have expired"),
    };
    let (records, directory) = (found.len(), directory.display());
    let mut out = std::io::stdout();
    writeln!(
        out,
        "{records} records and {snapshots} snapshots are in {directory}{lost}."
    )?;
    Ok(())
}
