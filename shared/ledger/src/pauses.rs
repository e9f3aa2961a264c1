//! Pauses: a list in META of each cluster, which every turn reads anyway, and one row for the account.

use jiff::Timestamp;
use model::{
    ClusterName,
    caps::AccountSpending,
    ledger::{Pause, PauseLevel, PauseScope},
};
use ports::{LedgerError, ledger::Moved};

use crate::{
    key::Account,
    row::{self, Row},
    spending,
    store::{Store, Written},
    table::{Key, Write},
};

fn key(account: &Account, of: Option<&ClusterName>) -> Key {
    of.map_or_else(|| account.pauses(), Key::meta)
}

pub(crate) async fn pauses(
    table: &Store,
    account: &Account,
    of: Option<&ClusterName>,
) -> Result<Vec<Pause>, LedgerError> {
    match table.get(&key(account, of)).await? {
        Some(row) => of_row(&row),
        None => Ok(Vec::new()),
    }
}

/// Reads the account's pauses and spending, which concern all clusters, in one read.
pub(crate) async fn of_account(
    table: &Store,
    account: &Account,
) -> Result<(Vec<Pause>, AccountSpending), LedgerError> {
    match table.get(&account.pauses()).await? {
        Some(row) => Ok((of_row(&row)?, spending::of_row(&row)?)),
        None => Ok((Vec::new(), AccountSpending::default())),
    }
}

pub(crate) fn of_row(row: &Row) -> Result<Vec<Pause>, LedgerError> {
    match row.text(LIST) {
        Some(_) => row.json(LIST),
        None => Ok(Vec::new()),
    }
}

pub(crate) const LIST: &str = "pauses";

/// The time until which the whole cluster is paused. Stored in separate attributes, for the condition of commits.
pub(crate) fn held_until(row: &Row, level: PauseLevel) -> Option<Timestamp> {
    row.time(match level {
        PauseLevel::Voluntary => "pausedAny",
        PauseLevel::All => "pausedAll",
    })
}

pub(crate) async fn store(
    table: &Store,
    account: &Account,
    of: Option<&ClusterName>,
    from: &[Pause],
    to: &[Pause],
) -> Result<Moved, LedgerError> {
    let condition = match (of, from) {
        (Some(_), []) => {
            "attribute_exists(#registry) AND (attribute_not_exists(#pauses) OR #pauses = :from)"
        }
        (None, []) => "attribute_not_exists(#pauses) OR #pauses = :from",
        (_, [_, ..]) => "#pauses = :from",
    };
    let list = row::json(&to)?;
    let write = Write::update(
        &key(account, of),
        "SET #pauses = :to, #pausedAny = :any, #pausedAll = :all",
    )
    .when(condition)
    .value("from", row::json(&from)?)
    .value("to", list.clone())
    .value("any", last(to, PauseLevel::Voluntary))
    .value("all", last(to, PauseLevel::All));
    Ok(match table.write(write).await? {
        // Retry of a write whose response was lost.
        Written::Refused(Some(row)) if row.text(LIST) == Some(&list) => Moved::Yes,
        written @ (Written::Done(_) | Written::Refused(_)) => written.into(),
    })
}

/// End of the last pause of the whole cluster that holds back acts of this level.
pub(crate) fn last(pauses: &[Pause], level: PauseLevel) -> Timestamp {
    let whole = pauses
        .iter()
        .filter(|pause| pause.scope == PauseScope::Cluster && pause.level >= level);
    whole
        .map(|pause| pause.until)
        .max()
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
