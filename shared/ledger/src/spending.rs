//! Spending of the account's clusters and its caps: in the row of the account's pauses, which every turn reads anyway.

use model::caps::AccountSpending;
use ports::{LedgerError, ledger::Moved};

use crate::{
    key::Account,
    row::{self, Row},
    store::Store,
    table::Write,
};

pub(crate) const BODY: &str = "spending";
pub(crate) const REVISION: &str = "spendingRevision";

pub(crate) async fn spending(
    table: &Store,
    account: &Account,
) -> Result<AccountSpending, LedgerError> {
    let row = table.get(&account.pauses()).await?;
    row.as_ref()
        .map_or_else(|| Ok(AccountSpending::default()), of_row)
}

pub(crate) fn of_row(row: &Row) -> Result<AccountSpending, LedgerError> {
    match row.text(BODY) {
        Some(_) => row.json(BODY),
        None => Ok(AccountSpending::default()),
    }
}

pub(crate) async fn store(
    table: &Store,
    account: &Account,
    to: &AccountSpending,
) -> Result<Moved, LedgerError> {
    let body = row::json(to)?;
    // A transaction, because a plain write and the transactions of commits would cancel each other.
    if table.transact(vec![next(account, to)?]).await? == Moved::Yes {
        return Ok(Moved::Yes);
    }
    let row = table.get(&account.pauses()).await?;
    let stands = row.is_some_and(|row| row.text(BODY) == Some(&body));
    // Retry of a write whose response was lost.
    Ok(if stands { Moved::Yes } else { Moved::No })
}

/// Writes the spending on condition that the row still has the previous revision.
pub(crate) fn next(account: &Account, to: &AccountSpending) -> Result<Write, LedgerError> {
    let write = Write::update(
        &account.pauses(),
        "SET #spending = :to, #spendingRevision = :revision",
    );
    let before = to.revision.saturating_sub(1);
    let write = match before {
        0 => write.when("attribute_not_exists(#spendingRevision)"),
        _ => write
            .when("#spendingRevision = :before")
            .value("before", before),
    };
    Ok(write
        .value("to", row::json(to)?)
        .value("revision", to.revision))
}

/// Returns whether `to` would still be the next revision.
pub(crate) fn is_next(row: Option<&Row>, to: &AccountSpending) -> bool {
    let found = row.and_then(|row| row.unsigned(REVISION)).unwrap_or(0);
    to.revision == found.saturating_add(1)
}
