//! `whittle status` in AWS: the registry, and the rows of its clusters in the ledger in one batch read.

use std::collections::BTreeSet;

use anyhow::Result;
use model::ClusterName;
use ports::ledger::ClusterLedger;

use super::{
    memory_of,
    registry::{account, entries, read_entry},
    unknown_to_ledger,
};
use crate::{
    exit::Exit,
    journal::source::block_on,
    moment::now,
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
            let refused = read_entry(entry).err();
            let summary = summary.as_ref().map_err(ToString::to_string);
            all.push(ClusterStatus::of(
                entry.cluster.as_str(),
                summary,
                refused,
                now,
            ));
        }
        if all.is_empty() {
            eprintln!("No cluster is registered in {}.", account.region());
        }
        arguments.print(&all)?;
        Ok(Exit::Done)
    }))
}

/// Pauses of a cluster, and everything in its rows that waits for a person.
pub(crate) fn held_back(stack: &str, cluster: &str) -> Result<Vec<String>> {
    block_on(Box::pin(async {
        let (ledger, _) = memory_of(stack).await?;
        let name = ClusterName::from(cluster);
        let mut summaries = ledger.cluster_summaries(&[name.clone()].into()).await?;
        let summary = summaries.remove(&name).transpose()?;
        let summary = summary.filter(|summary| summary.meta.is_some());
        let summary = summary.ok_or_else(|| unknown_to_ledger(cluster))?;
        Ok(ClusterStatus::of(cluster, Ok(&summary), None, now()).held_back())
    }))
}
