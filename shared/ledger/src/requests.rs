//! Requests that wait for approval: a list in META, which every turn reads anyway.

use model::{ClusterName, ledger::Request};
use ports::{LedgerError, ledger::Moved};

use crate::{
    row::{self, Row},
    store::{Store, Written},
    table::{Key, Write},
};

pub(crate) const LIST: &str = "requests";

pub(crate) fn of_row(row: &Row) -> Result<Vec<Request>, LedgerError> {
    match row.text(LIST) {
        Some(_) => row.json(LIST),
        None => Ok(Vec::new()),
    }
}

pub(crate) async fn store(
    table: &Store,
    cluster: &ClusterName,
    from: &[Request],
    to: &[Request],
) -> Result<Moved, LedgerError> {
    let condition = match from {
        [] => {
            "attribute_exists(#registry) AND (attribute_not_exists(#requests) OR #requests = :from)"
        }
        [_, ..] => "#requests = :from",
    };
    let list = row::json(&to)?;
    let write = Write::update(&Key::meta(cluster), "SET #requests = :to")
        .when(condition)
        .value("from", row::json(&from)?)
        .value("to", list.clone());
    Ok(match table.write(write).await? {
        // Retry of a write whose response was lost.
        Written::Refused(Some(row)) if row.text(LIST) == Some(&list) => Moved::Yes,
        written @ (Written::Done(_) | Written::Refused(_)) => written.into(),
    })
}
