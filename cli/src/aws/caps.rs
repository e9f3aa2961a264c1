//! Caps of the account in the ledger, where every turn reads them with its cluster's mode.

use anyhow::{Context, Result, bail};
use model::{Lane, caps::AccountSpending};
use ports::{
    Ledger,
    ledger::{ControlLedger, Moved},
};

use crate::{
    caps::{Arguments, describe, document, rows},
    exit::Exit,
    journal::source::block_on,
};

/// Maximum number of attempts to commit: clusters change the same row whenever their nodes change.
const ATTEMPTS_MAX: usize = 10;

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    block_on(async {
        let (ledger, _) = super::memory_of(arguments.stack()).await?;
        let account = match arguments.only_shows() {
            true => ledger.spending().await?,
            false => change(&ledger, arguments).await?,
        };
        let text = describe(&account).join("\n") + "\n";
        let (rows, document) = (rows(&account), document(&account));
        arguments.output.print(&text, &rows, &document)?;
        Ok(Exit::Done)
    })
}

async fn change(ledger: &dyn Ledger, arguments: &Arguments) -> Result<AccountSpending> {
    for _ in 0..ATTEMPTS_MAX {
        let next = arguments.next(&ledger.spending().await?);
        let moved = ledger.store_spending(&next).await;
        if moved.context("cannot write the account's caps; nothing was changed")? == Moved::Yes {
            // Turns that wait for a cap can continue.
            let now = crate::moment::now();
            for cluster in ledger.clusters().await? {
                ledger.make_due(&cluster, Lane::Provisioner, now).await?;
            }
            return Ok(next);
        }
    }
    bail!("the account's row changed too often meanwhile; nothing was changed: try again")
}
