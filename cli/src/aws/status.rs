//! `whittle status` in AWS: the registry, and the rows of its clusters in the ledger in one batch read.

use std::{collections::BTreeSet, io::Write};

use anyhow::Result;
use model::ClusterName;
use ports::{
    ledger::{ClusterLedger, ClusterSummary},
    registry::RegistryEntry,
};

use super::{
    memory_of,
    registry::{account, entries},
};
use crate::{
    exit::Exit,
    journal::source::block_on,
    moment::now,
    settings,
    status::{Arguments, ClusterStatus},
};

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    block_on(Box::pin(async {
        let account = account(arguments.registry.prefix()).await;
        let entries = entries(&account, arguments.registry.prefix()).await?;
        let (ledger, _) = memory_of(&arguments.stack.name).await?;
        let names: BTreeSet<ClusterName> =
            entries.iter().map(|entry| entry.cluster.clone()).collect();
        let mut summaries = ledger.cluster_summaries(&names).await?;
        let now = now();
        let mut all = Vec::new();
        for entry in &entries {
            let summary = summaries
                .remove(&entry.cluster)
                .unwrap_or_else(|| Ok(Default::default()));
            let (summary, unreadable) = match summary {
                Ok(summary) => (summary, None),
                Err(error) => (Default::default(), Some(error.to_string())),
            };
            let refused = refusal(entry).or(unreadable);
            all.push(ClusterStatus::of(
                entry.cluster.as_str(),
                &summary,
                refused,
                now,
            ));
        }
        std::io::stdout().write_all(arguments.render(&all, now)?.as_bytes())?;
        Ok(Exit::Done)
    }))
}

/// Pauses of a cluster, and everything in its rows that waits for a person.
pub(crate) fn held_back(stack: &str, cluster: &str) -> Result<Vec<String>> {
    block_on(Box::pin(async {
        let (ledger, _) = memory_of(stack).await?;
        let name = ClusterName::from(cluster);
        let summaries = ledger.cluster_summaries(&[name.clone()].into()).await?;
        let summary = summaries.into_iter().find(|(known, _)| *known == name);
        let summary =
            summary.map_or_else(|| Ok(ClusterSummary::default()), |(_, summary)| summary)?;
        Ok(ClusterStatus::of(cluster, &summary, None, now()).held_back())
    }))
}

/// Why functions refuse an entry.
fn refusal(entry: &RegistryEntry) -> Option<String> {
    let refusal = match &entry.body {
        Ok(body) => settings::refusal(body),
        Err(why) => Some(why.clone()),
    };
    refusal.map(|why| format!("the registry entry is refused: {why}"))
}
