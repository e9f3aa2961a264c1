use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, Interruption,
    ids::LaunchToken,
    interruption::LifecycleHook,
    launch::{FleetAnswer, FleetRequest, Instance},
};
use thiserror::Error;

use crate::Terminations;

/// What turns ask of EC2 for one cluster. Writes run under the cluster's own session, so a turn cannot touch another.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Makes ready what a launch needs before it is frozen: the launch templates that it names, and a CreateFleet call out of
    /// the account's budget. Done twice it changes nothing.
    async fn ready(&self, request: &FleetRequest) -> Result<(), CloudError>;

    /// Runs one frozen `instant` CreateFleet call. A launch template that EC2 does not find is made again, and the call repeated.
    /// Sends no request, repetitions included, later than `not_after` (docs/protocol.md#a3); `NotSent` if it sent none that EC2
    /// could have obeyed.
    async fn launch(
        &self,
        request: &FleetRequest,
        not_after: Timestamp,
    ) -> Result<FleetAnswer, CloudError>;

    /// Every instance that carries this launch tag, in every state, terminated ones included (docs/protocol.md#a3).
    async fn instances_of_launch(
        &self,
        cluster: &ClusterName,
        token: &LaunchToken,
    ) -> Result<Vec<Instance>, CloudError>;

    /// Instances of the account by id, whosever they are, in every state; ids that EC2 does not know are missing from the
    /// answer.
    async fn describe_instances(&self, ids: &[InstanceId]) -> Result<Vec<Instance>, CloudError>;

    /// Every instance of the account that was launched into this capacity reservation, in every state. Complete, or an error.
    async fn instances_of_reservation(&self, id: &str) -> Result<Vec<Instance>, CloudError>;

    /// Every instance of this cluster that is not terminated. Complete, or an error.
    async fn list_instances(&self, cluster: &ClusterName) -> Result<Vec<Instance>, CloudError>;

    /// What is wrong with instances of the account, whosever they are: checks that have failed for long enough, and events that
    /// are scheduled (docs/spec/aws.md#instance-status). Complete, or an error.
    async fn troubles(&self, now: Timestamp) -> Result<Vec<Interruption>, CloudError>;

    /// Asks EC2 to end instances of the cluster, and answers for each what became of that: one that EC2 refuses to end holds up
    /// no other.
    async fn terminate(&self, cluster: &ClusterName, ids: &[InstanceId]) -> Terminations;

    /// Reboots an instance of the cluster in place. EC2 answers before it does so, and knows no token by which a repeated call would be
    /// the same one.
    async fn reboot(&self, cluster: &ClusterName, id: &InstanceId) -> Result<(), CloudError>;

    /// Whether EC2 knows an instance of this id, in whatever state. Asked by the id itself, so that `false` is EC2's own word and
    /// no gap in a list.
    async fn knows_instance(&self, id: &InstanceId) -> Result<bool, CloudError>;

    async fn tag(
        &self,
        cluster: &ClusterName,
        id: &InstanceId,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), CloudError>;

    /// Lets an Auto Scaling group go on with an instance that its hook holds. One that holds it no longer is no error.
    async fn complete_hook(&self, id: &InstanceId, hook: &LifecycleHook) -> Result<(), CloudError>;

    /// Has the hook hold the instance for as long again. One that holds it no longer is no error.
    async fn extend_hook(&self, id: &InstanceId, hook: &LifecycleHook) -> Result<(), CloudError>;
}

/// What the caller can do about a refused EC2 call.
#[derive(Clone, Debug, Error)]
pub enum CloudError {
    /// Try other offerings.
    #[error("{code}: {message}")]
    NoCapacity { code: String, message: String },
    #[error("{what} does not exist")]
    NotFound { what: String },
    /// Leave the rest for the next turn.
    #[error("{code}: EC2 throttles {action}")]
    Throttled { action: String, code: String },
    /// It was not sent: the account's budget of calls is spent. Go on then; nothing is wrong.
    #[error("{action} waits until {until}: the account's budget of EC2 calls is spent")]
    Postponed { action: String, until: Timestamp },
    /// It was not sent: it was too late for it. Nothing came of it.
    #[error("{action} was not sent: it is past {not_after}")]
    NotSent {
        action: String,
        not_after: Timestamp,
    },
    /// Tell the user which permission is missing.
    #[error("{action} was denied: {message}")]
    Denied { action: String, message: String },
    /// The request itself is wrong; repeating it cannot help.
    #[error("{action} was refused, {code}: {message}")]
    Invalid {
        action: String,
        code: String,
        message: String,
    },
    /// No answer, or one that proves nothing: the act may have happened.
    #[error("{action} has no known outcome: {message}")]
    Unknown { action: String, message: String },
}

impl CloudError {
    /// Whether the error is about what the call named, so that it says nothing about other calls.
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
