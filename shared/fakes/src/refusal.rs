//! Rejections of single objects, which last until a test removes them; transient faults of whole ports are in [`crate::fault`].

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use model::{
    ClusterName, InstanceId, NodeClaimName, NodeName, NodePoolName, PodKey,
    launch::{Instance, InstanceState},
};
use ports::{
    CloudError, ClusterError,
    limits::ec2::{INSTANCE_IDS, TAGS},
};

use crate::{account::Account, api_server::ApiServer, cloud::is_of};

/// An object that an admission policy may protect from changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protected {
    Node(NodeName),
    NodeClaim(NodeClaimName),
    /// Creation of NodeClaims of this NodePool.
    NodeClaimsOf(NodePoolName),
    NodePool(NodePoolName),
    NodeClass(String),
    Pod(PodKey),
}

impl fmt::Display for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "Node {name}"),
            Self::NodeClaim(name) => write!(f, "NodeClaim {name}"),
            Self::NodeClaimsOf(pool) => write!(f, "NodeClaims of NodePool {pool}"),
            Self::NodePool(name) => write!(f, "NodePool {name}"),
            Self::NodeClass(name) => write!(f, "EC2NodeClass {name}"),
            Self::Pod(key) => write!(f, "Pod {key}"),
        }
    }
}

/// Response to a change that admission rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// 403, the default of webhooks.
    Denied,
    /// 422, of a ValidatingAdmissionPolicy.
    Invalid,
    /// 500, of a webhook that does not respond.
    WebhookDown,
}

/// Reason for which EC2 rejects terminating an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Attribute `disableApiTermination` is set.
    Termination,
    /// An IAM policy denies the call, because the instance's tags do not match its condition.
    Unauthorized,
    /// The instance's state does not allow it.
    State,
}

/// A call that EC2 rejects.
pub(crate) struct Refusal {
    code: &'static str,
    message: String,
}

impl Refusal {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    pub(crate) fn into_error(self, action: &str) -> CloudError {
        let Self { code, message } = self;
        let action = action.to_owned();
        match code {
            NOT_FOUND => CloudError::NotFound {
                what: format!("{code}: {message}"),
            },
            UNAUTHORIZED => CloudError::Denied {
                action,
                message: format!("{code}: {message}"),
            },
            _ => CloudError::Invalid {
                action,
                code: code.to_owned(),
                message,
            },
        }
    }
}

const NOT_FOUND: &str = "InvalidInstanceID.NotFound";
const UNAUTHORIZED: &str = "UnauthorizedOperation";

impl Account {
    /// Returns an instance that exists and that the cluster may act on.
    fn allowed(&self, cluster: &ClusterName, id: &InstanceId) -> Result<&Instance, Refusal> {
        let Some(instance) = self.instances.get(id) else {
            let message = format!("The instance ID '{id}' does not exist");
            return Err(Refusal::new(NOT_FOUND, message));
        };
        let is_denied = self.protected.get(id) == Some(&Protection::Unauthorized);
        if is_denied || !is_of(instance, cluster) {
            let message = "You are not authorized to perform this operation.";
            return Err(Refusal::new(UNAUTHORIZED, message));
        }
        Ok(instance)
    }

    /// RebootInstances of one instance.
    pub(crate) fn reboot_instance(
        &mut self,
        cluster: &ClusterName,
        id: &InstanceId,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if self.allowed(cluster, id)?.state != InstanceState::Running {
            let message =
                format!("The instance '{id}' is not in a state from which it can be rebooted.");
            return Err(Refusal::new("IncorrectInstanceState", message));
        }
        self.reboots.entry(id.clone()).or_default().push(now);
        Ok(())
    }

    /// CreateTags of one instance.
    pub(crate) fn tag_instance(
        &mut self,
        cluster: &ClusterName,
        id: &InstanceId,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        let mut all = self.allowed(cluster, id)?.tags.clone();
        all.extend(tags.clone());
        if all.len() > TAGS {
            let message = format!("a resource has at most {TAGS} tags, not {}", all.len());
            return Err(Refusal::new("TagLimitExceeded", message));
        }
        if let Some(instance) = self.instances.get_mut(id) {
            instance.tags = all;
        }
        Ok(())
    }

    /// TerminateInstances. An instance that is unknown, belongs to another cluster or is denied fails the whole call; a protected
    /// one fails it for all instances of its zone.
    pub(crate) fn terminate_instances(
        &mut self,
        cluster: &ClusterName,
        ids: &[InstanceId],
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if ids.len() > INSTANCE_IDS {
            let message = format!("at most {INSTANCE_IDS} instances, not {}", ids.len());
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        for id in ids {
            let instance = self.allowed(cluster, id)?;
            let is_over = instance.state == InstanceState::Terminated;
            if self.protected.get(id) == Some(&Protection::State) && !is_over {
                let message = format!(
                    "The instance '{id}' is not in a state from which it can be terminated."
                );
                return Err(Refusal::new("IncorrectInstanceState", message));
            }
        }
        let is_protected = |id: &&InstanceId| {
            let is_over = |id| {
                let instance = self.instances.get(id);
                instance.is_some_and(|instance| instance.state == InstanceState::Terminated)
            };
            self.protected.get(*id) == Some(&Protection::Termination) && !is_over(*id)
        };
        let protected: Vec<&InstanceId> = ids.iter().filter(is_protected).collect();
        let zone = |id: &InstanceId| self.instances.get(id).map(|instance| instance.zone.clone());
        let closed: Vec<Option<String>> = protected.iter().map(|id| zone(id)).collect();
        let message = protected.first().map(|id| {
            format!(
                "The instance '{id}' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again."
            )
        });
        let ended: Vec<&InstanceId> = ids
            .iter()
            .filter(|id| !closed.contains(&zone(id)))
            .collect();
        for id in ended {
            self.terminate(id, now);
        }
        match message {
            Some(message) => Err(Refusal::new("OperationNotPermitted", message)),
            None => Ok(()),
        }
    }

    /// Checks that the instance's Auto Scaling group has the lifecycle hook.
    pub(crate) fn check_hook(&self, id: &InstanceId, action: &str) -> Result<(), CloudError> {
        if self.without_hook.contains(id) {
            let message = "AutoScalingGroup or lifecycle hook not found";
            return Err(Refusal::new("ValidationError", message).into_error(action));
        }
        Ok(())
    }
}

impl ApiServer {
    /// Runs the admission policies on a change of this object.
    pub(crate) fn check_admission(&self, object: &Protected) -> Result<(), ClusterError> {
        let what = object.to_string();
        let message =
            format!("admission policy \"forensics\" denied the request: {what} is frozen");
        match self.protected.get(object) {
            None => Ok(()),
            Some(Admission::Denied) => Err(ClusterError::Denied {
                action: format!("changing {what}"),
                message,
            }),
            Some(Admission::Invalid) => Err(ClusterError::Invalid { what, message }),
            Some(Admission::WebhookDown) => {
                let message = "failed calling webhook \"forensics\"".to_owned();
                Err(ClusterError::Admission { what, message })
            }
        }
    }
}
