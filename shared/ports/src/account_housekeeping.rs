use std::collections::BTreeSet;

use api::EC2NodeClass;
use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, node_claim::NodeClaim};

use crate::CloudError;

/// Housekeeping of the account's resources other than instances.
#[async_trait]
pub trait AccountHousekeeping: Send + Sync {
    /// Refreshes prices that are due and publishes them for all functions. `look_up` says whether the Price List API
    /// may be called. Returns warnings about the prices, which are shown to people and stop nothing.
    async fn renew_prices(&self, look_up: bool, now: Timestamp) -> Vec<String>;

    /// Deletes a bounded number of launch templates and instance profiles that were created for this cluster and are no
    /// longer needed. Returns their names.
    async fn collect(
        &self,
        cluster: &ClusterName,
        needs: &Needs<'_>,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, CloudError>;
}

/// A cluster's objects that may refer to launch templates and instance profiles; complete lists.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    pub node_classes: &'a [EC2NodeClass],
    pub node_claims: &'a [NodeClaim],
}
