//! Removal of a cluster from the registry: the stack releases the cluster first, then its rows can be deleted.

use std::{io::Write, time::Duration};

use anyhow::{Context, Result, bail};
use ec2::Account;
use ledger::TableLedger;
use model::{ClusterName, ledger::Mode};
use ports::{
    Cloud, Registry,
    ledger::{ClusterLedger, LaunchLedger},
};
use serde_json::{Value, json};

use super::{access, memory_of, registry::account, until};
use crate::{exit::Exit, journal::source::block_on};

/// Scope of `unregister`: what is deleted besides the entry, and how long the command waits for the stack.
pub(crate) struct UnregisterOptions<'a> {
    /// Stack that serves the cluster.
    pub(crate) stack: &'a str,
    /// Delete the access entries of the stack's functions.
    pub(crate) revokes_access: bool,
    /// Delete the cluster's rows in the ledger.
    pub(crate) purges: bool,
    /// Continue although the stack may still serve the cluster.
    pub(crate) force: bool,
    /// How long to wait for the stack.
    pub(crate) timeout: Duration,
}

pub(crate) fn unregister(
    prefix: &str,
    cluster: &str,
    asked: &UnregisterOptions<'_>,
) -> Result<Exit> {
    block_on(async {
        let account = account(prefix).await;
        let name = ClusterName::from(cluster);
        let entries = account.entries().await;
        let entries = entries.with_context(|| format!("cannot read {prefix}"))?;
        let entry = entries.into_iter().find(|entry| entry.cluster == name);
        match entry {
            Some(entry) => take_out(&account, prefix, &name, entry.body.as_ref(), asked).await?,
            None if asked.purges => {}
            None => bail!(
                "no cluster {cluster} is registered in {}: whittle clusters lists registered clusters, and --purge deletes the rows of a former one",
                account.region()
            ),
        }
        if asked.purges {
            purge(&account, &name, asked).await?;
        }
        Ok(Exit::Done)
    })
}

async fn take_out(
    account: &Account,
    prefix: &str,
    cluster: &ClusterName,
    body: Result<&Value, &String>,
    asked: &UnregisterOptions<'_>,
) -> Result<()> {
    let name = format!("{prefix}/{cluster}");
    if body.is_ok_and(|entry| entry.get("mode") == Some(&json!("active"))) {
        let change = |entry: &mut serde_json::Map<String, Value>| {
            entry.insert("mode".to_owned(), "shadow".into());
        };
        let done = account.change_entry(cluster, change).await;
        done.with_context(|| format!("cannot write {name}; nothing was changed"))?;
        writeln!(
            std::io::stdout(),
            "{cluster} is in shadow mode now: from the next sweep on, nothing is done to it. Its nodes keep running; Karpenter takes \
             over by its Lease."
        )?;
    }
    if !asked.force {
        let ledger = ledger_of(asked).await?;
        let is_watched = async || {
            let meta = ledger.meta(cluster).await?;
            anyhow::Ok(meta.is_none_or(|meta| meta.mode == Mode::Shadow))
        };
        if !until(asked.timeout, "its next sweep", is_watched).await? {
            bail!(
                "{cluster} is still active in the ledger of stack {}, so its entry {name} was kept: check that the housekeeper \
                 sweeps, and repeat this. --force removes the entry anyway",
                asked.stack
            );
        }
    }
    let done = account.delete_entry(cluster).await;
    done.with_context(|| format!("cannot delete {name}; nothing was changed"))?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{cluster} is not registered any more. Its nodes keep running, with the finalizer karpenter.sh/termination on NodeClaims \
         and Nodes: where nothing takes over, delete the NodeClaims before."
    )?;
    match asked.revokes_access {
        true => {
            let revoked = access::revoke(account, cluster.as_str(), asked.stack).await?;
            write!(out, "{revoked}")?;
        }
        false => writeln!(
            out,
            "Access entries of the stack's functions, if it has any, are left: aws eks delete-access-entry."
        )?,
    }
    Ok(())
}

/// Deletes the cluster's rows, once no turn serves it and nothing that it owns would be orphaned.
async fn purge(
    account: &Account,
    cluster: &ClusterName,
    asked: &UnregisterOptions<'_>,
) -> Result<()> {
    let ledger = ledger_of(asked).await?;
    let is_let_go = async || {
        let meta = ledger.meta(cluster).await?;
        let memory = ledger.sweep_memory(cluster).await?;
        anyhow::Ok(meta.is_none_or(|meta| meta.mode == Mode::Shadow) && memory.released)
    };
    let is_known = ledger.meta(cluster).await?.is_some();
    if is_known && !asked.force && !until(asked.timeout, "its release", is_let_go).await? {
        bail!(
            "stack {} has not let go of {cluster}, so its rows were kept: two sweeps without its entry deactivate it, and the next \
             one releases its Lease. Repeat this in a few minutes; --force deletes them anyway",
            asked.stack
        );
    }
    let left = remaining_resources(account, &ledger, cluster).await?;
    if !left.is_empty() && !asked.force {
        bail!(
            "the ledger and EC2 have {} resources of {cluster} that would be orphaned, so its rows were kept: {}. Terminate or hand \
             over what is running; --force deletes the rows anyway",
            left.len(),
            left.join(", ")
        );
    }
    let removed = ledger.purge(cluster).await;
    let removed = removed.with_context(|| {
        format!("not all rows of {cluster} were removed: repeat this with --purge")
    })?;
    let mut out = std::io::stdout().lock();
    for left in left {
        writeln!(out, "left without an owner: {left}")?;
    }
    writeln!(
        out,
        "{removed} rows of {cluster} were removed from the ledger."
    )?;
    Ok(())
}

/// NodeClaims with launches in the ledger, and instances tagged with the cluster's name.
async fn remaining_resources(
    account: &Account,
    ledger: &TableLedger,
    cluster: &ClusterName,
) -> Result<Vec<String>> {
    let intents = ledger.intents(cluster).await?;
    let underway = intents.iter().filter(|intent| intent.is_in_flight());
    let underway = underway.map(|intent| format!("launch of NodeClaim {}", intent.name()));
    let launched = ledger.launched(cluster).await?.into_iter();
    let launched = launched.map(|name| format!("NodeClaim {name}"));
    let instances = account.list_instances(cluster).await;
    let instances = instances.with_context(|| format!("cannot list instances of {cluster}"))?;
    let instances = instances
        .iter()
        .map(|instance| format!("instance {}", instance.id));
    Ok(underway.chain(launched).chain(instances).collect())
}

async fn ledger_of(asked: &UnregisterOptions<'_>) -> Result<TableLedger> {
    let memory = memory_of(asked.stack).await;
    let (ledger, _) = memory.context(
        "the stack cannot be asked whether it has let go of the cluster, so nothing more was done; --force goes on all the same, as \
         after the stack was deleted",
    )?;
    Ok(ledger)
}
