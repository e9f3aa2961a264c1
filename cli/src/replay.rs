//! `whittle replay`: plans the snapshot of a turn again, optionally with other manifests or settings.

mod outcome;
pub(crate) mod overrides;

use std::{io::Write, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use model::{ClusterName, Lane, Snapshot};
use ports::JournalEntry;
use turns::Report;

use self::{outcome::Planned, overrides::Overrides};
use crate::{
    journal::source::{self, Source},
    progress::Progress,
};

#[derive(Args)]
#[command(after_help = "Examples:
  whittle replay prod 4f1c2a9b
  whittle replay prod 4f1c2a9b --with nodepools.yaml --without spot
  whittle replay prod 4f1c2a9b --set preferencePolicy=Ignore")]
pub(crate) struct Arguments {
    /// Name of the registered cluster
    cluster: String,
    /// Id of the turn, as listed by `whittle journal`
    turn: String,
    #[command(flatten)]
    overrides: overrides::Changes,
    #[command(flatten)]
    from: source::Origin,
    /// Write the turn's snapshot into this file, as JSON
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let progress = Progress::of("Planning the snapshot again");
    let text = source::block_on(text(arguments))?;
    drop(progress);
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// The command's output.
pub(crate) async fn text(arguments: &Arguments) -> Result<String> {
    let overrides = Overrides::read(&arguments.overrides)?;
    let source = Source::open(&arguments.from).await?;
    let cluster = ClusterName(arguments.cluster.clone());
    let (report, lane) = planned(&source.turn(&cluster, &arguments.turn).await?)?;
    let snapshot = source.snapshot(&report).await?;
    if let Some(file) = &arguments.save {
        std::fs::write(file, serde_json::to_vec(&snapshot)?)?;
    }
    render(&report, lane, &snapshot, &overrides)
}

/// The record of a turn that was planned from its snapshot, and the planner.
fn planned(entries: &[JournalEntry]) -> Result<(Report, Lane)> {
    let mut others = None;
    for entry in entries {
        let report = Report::read(entry)?;
        match report.lane {
            lane @ (Lane::Provisioner | Lane::Disruption) => return Ok((report, lane)),
            Lane::Lifecycle | Lane::Terminator | Lane::Interruption | Lane::Housekeeper => {
                others = Some(report);
            }
        }
    }
    let report = others.context("the turn has no record")?;
    let (lane, cluster, turn) = (report.lane, &report.cluster, &report.turn);
    bail!(
        "turn {turn} is one of the {lane}, which does what each object asks for and chooses nothing: \
         `whittle journal {cluster} {turn}` says all there is"
    )
}

fn render(
    report: &Report,
    lane: Lane,
    snapshot: &Snapshot,
    overrides: &Overrides,
) -> Result<String> {
    let then = Planned::of(lane, snapshot);
    let mut text = format!(
        "Turn {} of the {lane} at {:.0}, planned again from its snapshot: {}\n",
        report.turn,
        report.at,
        then.summary()
    );
    if overrides.is_empty() {
        text.push_str(&then.text());
        return Ok(text);
    }
    let mut changed = snapshot.clone();
    for note in overrides.apply(&mut changed)? {
        eprintln!("whittle: {note}");
    }
    let now = Planned::of(lane, &changed);
    text.push_str(&format!("With the changes: {}\n", now.summary()));
    text.push_str(&then.difference(&now));
    Ok(text)
}
