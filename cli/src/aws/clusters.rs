//! List of registered clusters, with their modes and pauses.

use std::{collections::BTreeMap, io::Write};

use anyhow::{Context, Result};
use model::{ClusterName, ledger::Pause};
use ports::{Registry, registry::RegistryEntry};
use serde::Serialize;
use serde_json::Value;

use super::{memory_of, pauses, registry::account};
use crate::{
    exit::Exit,
    journal::source::block_on,
    moment::now,
    output::{ListOutput, Row},
    pause::ListedPause,
    progress::Progress,
    registry::mode_text,
    stack::Stack,
};

/// A registered cluster.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RegisteredCluster {
    name: String,
    /// Type, mode and network of the entry; `None` if it is refused.
    #[serde(flatten)]
    entry: Option<Entry>,
    /// Reason for which the entry is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    pauses: Vec<ListedPause>,
    /// Pauses in words, for the table.
    #[serde(skip)]
    paused: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(rename = "type")]
    cluster_type: String,
    mode: &'static str,
    reach: String,
}

impl Row for RegisteredCluster {
    const HEADERS: &'static [&'static str] =
        &["NAME", "TYPE", "MODE", "PAUSES", "REACH", "DETAILS"];
    const NARROW: usize = 4;

    fn cells(&self) -> Vec<String> {
        let (cluster_type, mode, reach) = match &self.entry {
            Some(entry) => (
                entry.cluster_type.as_str(),
                entry.mode,
                entry.reach.as_str(),
            ),
            None => ("?", "refused", "?"),
        };
        let mut details: Vec<String> = self.refused.iter().cloned().collect();
        details.extend(self.paused.iter().cloned());
        vec![
            self.name.clone(),
            cluster_type.to_owned(),
            mode.to_owned(),
            self.pauses.len().to_string(),
            reach.to_owned(),
            details.join("; "),
        ]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

pub(crate) fn list(prefix: &str, stack: &Stack, output: &ListOutput) -> Result<Exit> {
    let (clusters, region) = block_on(read(prefix, stack))?;
    let refused: Vec<_> = clusters
        .iter()
        .filter_map(|cluster| Some((&cluster.name, cluster.refused.as_ref()?)))
        .collect();
    output.print(&clusters)?;
    let mut notes = std::io::stderr().lock();
    if clusters.is_empty() {
        writeln!(notes, "No cluster is registered in {region}.")?;
    }
    for (name, why) in &refused {
        writeln!(notes, "whittle: the entry of {name} is refused: {why}")?;
    }
    Ok(match refused.is_empty() {
        true => Exit::Done,
        false => Exit::Refused,
    })
}

/// The registered clusters, and the Region.
async fn read(prefix: &str, stack: &Stack) -> Result<(Vec<RegisteredCluster>, String)> {
    let _progress = Progress::of("Reading the registry");
    let account = account(prefix).await;
    let entries = account.entries().await;
    let entries = entries
        .with_context(|| format!("cannot read {prefix}: it takes ssm:GetParametersByPath on it"))?;
    let mut paused = paused(&entries, stack).await.unwrap_or_else(|error| {
        eprintln!("whittle: pauses are not known: {error:#}");
        BTreeMap::new()
    });
    let clusters = entries.iter().map(|entry| {
        let (described, refused) = match description_of(entry) {
            Ok(described) => (Some(described), None),
            Err(why) => (None, Some(why)),
        };
        let pauses = paused.remove(&entry.cluster).unwrap_or_default();
        RegisteredCluster {
            name: entry.cluster.to_string(),
            entry: described,
            refused,
            pauses: pauses.iter().map(ListedPause::from).collect(),
            paused: pauses.iter().map(ToString::to_string).collect(),
        }
    });
    Ok((clusters.collect(), account.region().to_owned()))
}

/// Type, mode and network of an entry, or why the entry is refused.
fn description_of(entry: &RegistryEntry) -> Result<Entry, String> {
    let body = entry.body.as_ref().map_err(ToString::to_string)?;
    let read = turns::Entry::read(body).map_err(|error| error.to_string())?;
    let text = |key: &str, default: &str| {
        let value = body.get(key).and_then(Value::as_str);
        value.unwrap_or(default).to_owned()
    };
    Ok(Entry {
        cluster_type: text("type", "?"),
        mode: mode_text(read.mode),
        reach: text("reach", "public"),
    })
}

async fn paused(
    entries: &[RegistryEntry],
    stack: &Stack,
) -> Result<BTreeMap<ClusterName, Vec<Pause>>> {
    if entries.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (ledger, _) = memory_of(&stack.name).await?;
    let clusters = entries.iter().map(|entry| &entry.cluster);
    pauses::of_clusters(&ledger, clusters, now()).await
}
