use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Interruption,
    ids::LaunchToken,
    interruption::LifecycleHook,
    launch::{FleetRequest, FleetResponse, Instance},
};
use thiserror::Error;

use crate::Terminations;

/// Requests of turns to EC2 for one cluster. Writes use the cluster's own session, so that a turn cannot touch another
/// cluster.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Prepares a launch before it is frozen: creates the launch templates that it refers to, and reserves a
    /// CreateFleet call in the account's budget. Idempotent.
    async fn ready(&self, request: &FleetRequest) -> Result<(), CloudError>;

    /// Sends one frozen `instant` CreateFleet call. If EC2 does not find a launch template, it is created again and the
    /// call retried. Sends no request, including retries, later than `not_after` (docs/protocol.md#a3). `NotSent` if no
    /// request was sent that EC2 could have executed.
    async fn launch(
        &self,
        request: &FleetRequest,
        not_after: Timestamp,
    ) -> Result<FleetResponse, CloudError>;

    /// All instances with this launch tag, in every state including terminated (docs/protocol.md#a3).
    async fn instances_of_launch(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Vec<Instance>, CloudError>;

    /// Instances of the account by id, with any owner and state. Ids unknown to EC2 are missing from the result.
    async fn describe_instances(&self, ids: &[InstanceId]) -> Result<Vec<Instance>, CloudError>;

    /// All instances of the account that were launched into this capacity reservation, in every state. Complete, or an
    /// error.
    async fn instances_of_reservation(&self, id: &str) -> Result<Vec<Instance>, CloudError>;

    /// All instances of this cluster that are not terminated. Complete, or an error.
    async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError>;

    /// Interruptions found by polling instances of the whole account: status checks that have failed for long enough,
    /// and scheduled events (docs/spec/aws.md#instance-status). Complete, or an error.
    async fn troubles(&self, now: Timestamp) -> Result<Vec<Interruption>, CloudError>;

    /// Terminates instances of the cluster and returns the verdict on each. An instance that EC2 refuses to terminate
    /// does not block the others.
    async fn terminate(&self, cluster: &ClusterName, ids: &[InstanceId]) -> Terminations;

    /// Reboots an instance of the cluster in place. EC2 responds before the reboot starts, and has no idempotency token
    /// for it.
    async fn reboot(&self, cluster: &ClusterName, id: &InstanceId) -> Result<(), CloudError>;

    /// Whether EC2 knows an instance with this id, in any state. Queries the id itself, so that `false` is EC2's
    /// statement and not a gap in a list.
    async fn knows_instance(&self, id: &InstanceId) -> Result<bool, CloudError>;

    async fn tag(
        &self,
        cluster: &ClusterName,
        id: &InstanceId,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), CloudError>;

    /// Completes the lifecycle hook, so that the Auto Scaling group continues. Succeeds if the hook no longer holds the
    /// instance.
    async fn complete_hook(&self, id: &InstanceId, hook: &LifecycleHook) -> Result<(), CloudError>;

    /// Restarts the timeout of the lifecycle hook. Succeeds if the hook no longer holds the instance.
    async fn extend_hook(&self, id: &InstanceId, hook: &LifecycleHook) -> Result<(), CloudError>;
}

/// A failed EC2 call, by how the caller should react.
#[derive(Clone, Debug, Error)]
pub enum CloudError {
    /// The caller tries other offerings.
    #[error("{code}: {message}")]
    NoCapacity { code: String, message: String },
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// The caller leaves remaining work to the next turn.
    #[error("{code}: EC2 throttles {action}")]
    Throttled { action: String, code: String },
    /// The request was not sent, because the account's budget of calls is spent. The caller continues with other work.
    #[error("{action} waits until {until}: the account's budget of EC2 calls is spent")]
    Postponed { action: String, until: Timestamp },
    /// The request was not sent, because its deadline had passed. It has no effect.
    #[error("{action} was not sent: it is past {not_after}")]
    NotSent {
        action: String,
        not_after: Timestamp,
    },
    /// A permission is missing; the caller reports it to the user.
    #[error("{action} was denied: {message}")]
    Denied { action: String, message: String },
    /// The request is invalid; retrying cannot help.
    #[error("{action} was refused, {code}: {message}")]
    Invalid {
        action: String,
        code: String,
        message: String,
    },
    /// No response, or an inconclusive one: the request may have been executed.
    #[error("{action} has no known outcome: {message}")]
    Unknown { action: String, message: String },
}

impl CloudError {
    /// Whether the error concerns only the object in the call, so that other calls may succeed.
    pub fn is_about_one_object(&self) -> bool {
        match self {
            Self::NoCapacity { .. }
            | Self::NotFound { .. }
            | Self::Denied { .. }
            | Self::Invalid { .. } => true,
            Self::Throttled { .. }
            | Self::Postponed { .. }
            | Self::NotSent { .. }
            | Self::Unknown { .. } => false,
        }
    }
}
