use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, plan::Expected};
use ports::{LedgerError, ledger::MarkerLedger};

use super::TableLedger;
use crate::memory;

#[async_trait]
impl MarkerLedger for TableLedger {
    async fn nominate(
        &self,
        cluster: &ClusterName,
        expected: &BTreeMap<Expected, Timestamp>,
        _now: Timestamp,
    ) -> Result<(), LedgerError> {
        memory::nominate(&self.table, cluster, expected).await
    }

    async fn nominations(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<BTreeMap<Expected, Timestamp>, LedgerError> {
        memory::nominations(&self.table, cluster, now).await
    }

    async fn once(
        &self,
        cluster: &ClusterName,
        key: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, LedgerError> {
        memory::once(&self.table, cluster, key, now, until).await
    }

    async fn said(
        &self,
        cluster: &ClusterName,
        prefix: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, LedgerError> {
        memory::said(&self.table, cluster, prefix, now).await
    }
}
