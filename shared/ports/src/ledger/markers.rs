use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, plan::Expected};

use super::LedgerError;

/// Facts that are remembered for a while: nominations, and markers against repetition.
#[async_trait]
pub trait MarkerLedger: Send + Sync {
    /// Nominates nodes, or NodeClaims without a Node: pods are expected on them, and they must not be removed until the
    /// given times. Later times win.
    async fn nominate(
        &self,
        cluster: &ClusterName,
        expected: &BTreeMap<Expected, Timestamp>,
        now: Timestamp,
    ) -> Result<(), LedgerError>;
    async fn nominations(
        &self,
        cluster: &ClusterName,
        now: Timestamp,
    ) -> Result<BTreeMap<Expected, Timestamp>, LedgerError>;
    /// Returns whether `key` is used for the first time since its last `until` passed. Prevents repeated events and
    /// notifications.
    async fn once(
        &self,
        cluster: &ClusterName,
        key: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, LedgerError>;
    /// The keys with this prefix for which [`Self::once`] would return false at `now`, in one read.
    async fn said(
        &self,
        cluster: &ClusterName,
        prefix: &str,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, LedgerError>;
}
