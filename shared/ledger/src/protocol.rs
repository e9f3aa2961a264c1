//! [`ports::Ledger`] over one table, by concern.

mod budget;
mod clusters;
mod commands;
mod control;
mod experience;
mod lanes;
mod launches;
mod markers;
mod notices;
mod notifications;
mod ownership;
mod plans;

use std::sync::Arc;

use crate::{key, store::Store, table::Table};

/// The ledger of one account and Region, in one table.
pub struct TableLedger {
    table: Store,
    account: key::Account,
}

impl TableLedger {
    pub fn new(table: Arc<dyn Table>, account: &str, region: &str) -> Self {
        Self {
            table: Store::new(table),
            account: key::Account::new(account, region),
        }
    }

    /// Writes rows with another schema version than [`model::ledger::SCHEMA`], as a newer build would.
    #[must_use]
    pub fn with_schema_version(self, schema: u32) -> Self {
        Self {
            table: self.table.with_schema_version(schema),
            ..self
        }
    }

    pub(crate) fn store_and_account(&self) -> (&Store, &key::Account) {
        (&self.table, &self.account)
    }
}
