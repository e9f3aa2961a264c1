//! `whittle` commands that a story runs on its journal.

use std::path::Path;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use jiff::Timestamp;
use model::{ClusterName, Lane, ids::TurnId};
use ports::{Journal, journal::JournalQuery};
use turns::Report;

use super::{names::CLUSTER, picture::Picture};
use crate::{compare, explain, journal::Directory, replay};

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Compare(compare::Arguments),
    Explain(explain::Arguments),
    Replay(replay::Arguments),
}

/// Runs a command, and returns its output.
pub(super) async fn output(command: &str) -> Result<String> {
    let words = shlex::split(command).with_context(|| format!("cannot split {command}"))?;
    match Arguments::try_parse_from(words)?.command {
        Command::Compare(arguments) => compare::text(&arguments).await,
        Command::Explain(arguments) => explain::text(&arguments).await,
        Command::Replay(arguments) => replay::text(&arguments).await,
    }
}

/// A command with the names of objects in place of `{pod:APP}` and `{node:APP}`, the id of the turn that launched the most nodes in
/// place of `{turn}`, and the directory of the journal in place of `{directory}`.
pub(super) async fn filled(command: &str, picture: &Picture, directory: &Path) -> Result<String> {
    let mut text = command.replace("{directory}", &directory.display().to_string());
    if text.contains("{turn}") {
        let launches = launches(directory).await?;
        let turn = largest(&launches).context("no recorded turn has launched nodes")?;
        text = text.replace("{turn}", &turn.to_string());
    }
    while let Some((before, kind, app, after)) = placeholder(&text) {
        let pod = picture.pods_of(app).next();
        let pod = pod.with_context(|| format!("deployment/{app} has no pods"))?;
        let name = match kind {
            "node" => pod.node_name.clone().unwrap_or_default().to_string(),
            _ => pod.key.name.to_string(),
        };
        text = format!("{before}{name}{after}");
    }
    Ok(text)
}

/// Splits a command at its first placeholder: text before it, kind, app, text after it.
fn placeholder(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    let (kind, app) = inside.split_once(':')?;
    Some((before, kind, app, after))
}

/// Reports of the provisioner's turns that launched nodes and whose snapshots are kept, oldest first.
pub(super) async fn launches(directory: &Path) -> Result<Vec<Report>> {
    let everything = JournalQuery {
        about: None,
        from: Timestamp::MIN,
        until: Timestamp::MAX,
        most: usize::MAX,
    };
    let journal = Directory::open(directory)?;
    let entries = journal
        .latest(&ClusterName::from(CLUSTER), &everything)
        .await?;
    let reports = entries.iter().filter_map(|entry| Report::read(entry).ok());
    let mut launches: Vec<Report> = reports
        .filter(|report| {
            report.lane == Lane::Provisioner
                && report.snapshot.is_some()
                && !report.launched.is_empty()
        })
        .collect();
    launches.reverse();
    Ok(launches)
}

/// Id of the turn that launched the most nodes.
pub(super) fn largest(launches: &[Report]) -> Option<&TurnId> {
    let largest = launches.iter().max_by_key(|report| report.launched.len());
    largest.map(|report| &report.turn)
}
