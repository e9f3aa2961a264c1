//! Approval requests in the ledger, where the next turn reads the decision.

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use model::{
    ClusterName, Lane,
    ledger::{Approval, Request},
};
use ports::{
    Ledger,
    ledger::{ControlLedger, LaneLedger, Moved},
};

use super::unknown_to_ledger;
use crate::{
    approve::{Arguments, listed},
    journal::source::block_on,
};

/// Maximum number of attempts to commit: turns write requests while users approve.
const ATTEMPTS_MAX: usize = 5;

pub(crate) fn list(arguments: &Arguments, now: Timestamp) -> Result<()> {
    block_on(async {
        let (ledger, _) = super::memory_of(&arguments.stack.name).await?;
        let requests = requests(&ledger, arguments.cluster()).await?;
        let rows = listed(&requests, now);
        if rows.is_empty() {
            eprintln!("Nothing waits for approval in {}.", arguments.cluster());
        }
        arguments.output.print(&rows)
    })
}

/// Approves a request, and returns a description of the actions that it allows.
pub(crate) fn answer(
    arguments: &Arguments,
    id: &str,
    approval: Approval,
    now: Timestamp,
) -> Result<String> {
    block_on(async {
        let (ledger, _) = super::memory_of(&arguments.stack.name).await?;
        let cluster = ClusterName::from(arguments.cluster());
        for _ in 0..ATTEMPTS_MAX {
            let before = requests(&ledger, arguments.cluster()).await?;
            let (after, request) = Request::approve(&before, id, approval.clone(), now)
                .context("nothing was changed")?;
            let moved = ledger.store_requests(&cluster, &before, &after).await;
            if moved.context("cannot write the approval; nothing was changed")? == Moved::Yes {
                for lane in [Lane::Provisioner, Lane::Disruption] {
                    ledger.make_due(&cluster, lane, now).await?;
                }
                return Ok(request.description);
            }
        }
        bail!("turns change the same requests all the time; nothing was changed: try again")
    })
}

async fn requests(ledger: &dyn Ledger, cluster: &str) -> Result<Vec<Request>> {
    let meta = ledger.meta(&ClusterName::from(cluster)).await?;
    let meta = meta.ok_or_else(|| unknown_to_ledger(cluster))?;
    Ok(meta.requests)
}
