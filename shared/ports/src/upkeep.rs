use std::collections::BTreeSet;

use api::EC2NodeClass;
use async_trait::async_trait;
use jiff::Timestamp;
use model::{ClusterName, node_claim::NodeClaim};

use crate::CloudError;

/// What the housekeeper keeps in order in the account besides instances.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Reads the prices that are due, and publishes them for all functions; `look_up` says whether the Price List may be
    /// asked. Answers what is not as it should be with them: people must see it, and nothing stops for it.
    async fn renew_prices(&self, look_up: bool, now: Timestamp) -> Vec<String>;

    /// Deletes launch templates and instance profiles that were made for this cluster and that nothing needs any more, a
    /// bounded number at a time. Answers their names.
    async fn collect(
        &self,
        cluster: &ClusterName,
        needs: &Needs<'_>,
        now: Timestamp,
    ) -> Result<BTreeSet<String>, CloudError>;
}

/// What a cluster has that may need templates and profiles; complete lists.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    pub node_classes: &'a [EC2NodeClass],
    pub node_claims: &'a [NodeClaim],
}
