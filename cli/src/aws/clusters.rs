//! List of registered clusters, with their modes and pauses.

use std::{collections::BTreeMap, io::Write};

use anyhow::Result;
use model::{ClusterName, ledger::Pause};
use ports::registry::RegistryEntry;
use serde::Serialize;
use serde_json::Value;

use super::{
    memory_of, pauses,
    registry::{account, entries, read_entry},
};
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
    /// `None` if the ledger cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pauses: Option<Vec<ListedPause>>,
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
            match &self.pauses {
                Some(pauses) => pauses.len().to_string(),
                None => "?".to_owned(),
            },
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
    let entries = entries(&account, prefix).await?;
    let paused = paused(&entries, stack).await;
    let mut paused = paused
        .inspect_err(|error| eprintln!("whittle: pauses are not known: {error:#}"))
        .ok();
    let clusters = entries.iter().map(|entry| {
        let (described, refused) = match description_of(entry) {
            Ok(described) => (Some(described), None),
            Err(why) => (None, Some(why)),
        };
        let pauses = paused.as_mut();
        let pauses = pauses.map(|paused| paused.remove(&entry.cluster).unwrap_or_default());
        let paused = pauses.iter().flatten().map(ToString::to_string).collect();
        let listed = |pauses: Vec<Pause>| pauses.iter().map(ListedPause::from).collect();
        RegisteredCluster {
            name: entry.cluster.to_string(),
            entry: described,
            refused,
            pauses: pauses.map(listed),
            paused,
        }
    });
    Ok((clusters.collect(), account.region().to_owned()))
}

/// Type, mode and network of an entry, or why the entry is refused.
fn description_of(entry: &RegistryEntry) -> Result<Entry, String> {
    let read = read_entry(entry)?;
    let body = entry.body.as_ref().map_err(String::clone)?;
    let cluster_type = body.get("type").and_then(Value::as_str);
    Ok(Entry {
        cluster_type: cluster_type.unwrap_or("?").to_owned(),
        mode: mode_text(read.mode),
        reach: read.reach,
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
