//! AWS's announcements about instances, and how Whittle responds to them (docs/spec/aws.md#interruptions).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{catalog::CapacityType, ids::InstanceId};

/// An announcement about one instance: a fact that cannot be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    pub instance: InstanceId,
    pub kind: InterruptionKind,
    /// Time of the event, according to the announcement.
    pub at: Option<Timestamp>,
    /// Time at which the instance ends, if known.
    pub deadline: Option<Timestamp>,
    /// Lifecycle hook that holds the instance until Whittle completes it.
    pub hook: Option<LifecycleHook>,
    /// Id of the event that announced it; empty if it was found by polling.
    pub event: String,
    /// Whether the instance reboots and stays in service afterwards.
    pub reboots: bool,
}

impl Interruption {
    /// A sentence for events and notifications.
    pub fn announcement(&self) -> String {
        let (kind, instance) = (self.kind.as_str().replace('_', " "), &self.instance);
        let what = format!("AWS announced {kind} for instance {instance}");
        match self.deadline {
            Some(deadline) => format!("{what}: it ends at {deadline:.0}"),
            None => what,
        }
    }
}

/// A lifecycle hook of an Auto Scaling group, for one of its instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleHook {
    pub group: String,
    pub name: String,
    /// Identifies the one lifecycle action that waits.
    pub token: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptionKind {
    SpotInterrupted,
    RebalanceRecommendation,
    CapacityReservationInterrupted,
    ScheduledChange,
    InstanceStopped,
    InstanceTerminated,
    InstanceStatus,
    SystemStatus,
    EventStatus,
    /// The instance's Auto Scaling group terminates it and waits for a lifecycle hook.
    GroupTerminating,
    /// The capacity block that the instance runs in is about to end.
    CapacityBlockExpiring,
}

/// Response to an interruption of a node's instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptionAction {
    /// Delete the NodeClaim immediately and drain the node.
    #[default]
    Drain,
    /// Like `Drain`, once the node's pods have places on nodes that are ready.
    Replace,
    /// Remove the node without waiting: its kubelet cannot be expected to answer.
    Force,
    /// Keep the node, but let no new pods schedule to it.
    Cordon,
}

impl InterruptionAction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Replace => "replace",
            Self::Force => "force",
            Self::Cordon => "cordon",
        }
    }
}

impl InterruptionKind {
    pub const ALL: [Self; 11] = [
        Self::SpotInterrupted,
        Self::RebalanceRecommendation,
        Self::CapacityReservationInterrupted,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::InstanceStatus,
        Self::SystemStatus,
        Self::EventStatus,
        Self::GroupTerminating,
        Self::CapacityBlockExpiring,
    ];

    /// Name in metrics and in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpotInterrupted => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::CapacityReservationInterrupted => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::InstanceStatus => "instance_status",
            Self::SystemStatus => "system_status",
            Self::EventStatus => "event_status",
            Self::GroupTerminating => "group_terminating",
            Self::CapacityBlockExpiring => "capacity_block_expiring",
        }
    }

    /// Response for a node that Whittle manages; `None` if its NodePool decides.
    pub fn action(self) -> Option<InterruptionAction> {
        match self {
            Self::RebalanceRecommendation => None,
            Self::InstanceStatus | Self::SystemStatus => Some(InterruptionAction::Force),
            Self::SpotInterrupted
            | Self::CapacityReservationInterrupted
            | Self::ScheduledChange
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::EventStatus
            | Self::GroupTerminating
            | Self::CapacityBlockExpiring => Some(InterruptionAction::Drain),
        }
    }

    /// Whether the announcement only reports that the instance stopped or terminated. EC2 sends these for every
    /// instance of the account, including those that Whittle terminates itself.
    pub fn is_state_change(self) -> bool {
        matches!(self, Self::InstanceStopped | Self::InstanceTerminated)
    }

    /// Whether announcements of this kind come for every instance of the account. Owners of instances that the ledger
    /// does not know are not looked up then.
    pub fn is_account_wide(self) -> bool {
        self.is_state_change()
            || matches!(
                self,
                Self::InstanceStatus | Self::SystemStatus | Self::EventStatus
            )
    }

    /// Whether this kind is found by polling, and so found again each time while it lasts.
    pub fn is_polled(self) -> bool {
        matches!(
            self,
            Self::InstanceStatus
                | Self::SystemStatus
                | Self::EventStatus
                | Self::CapacityBlockExpiring
        )
    }

    /// Whether this kind applies to instances of a capacity type: only spot instances are interrupted or get rebalance
    /// recommendations.
    pub fn applies_to_capacity_type(self, capacity_type: CapacityType) -> bool {
        match self {
            Self::SpotInterrupted | Self::RebalanceRecommendation => {
                capacity_type == CapacityType::Spot
            }
            Self::CapacityReservationInterrupted
            | Self::ScheduledChange
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::InstanceStatus
            | Self::SystemStatus
            | Self::EventStatus
            | Self::GroupTerminating
            | Self::CapacityBlockExpiring => true,
        }
    }

    /// The kind with this name; the inverse of [`as_str`](Self::as_str).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Type and reason of the Kubernetes event on the Node and the NodeClaim.
    pub fn event(self) -> (&'static str, &'static str) {
        match self {
            Self::SpotInterrupted => ("Warning", "SpotInterrupted"),
            Self::RebalanceRecommendation => ("Normal", "SpotRebalanceRecommendation"),
            Self::CapacityReservationInterrupted => {
                ("Warning", "CapacityReservationInstanceInterrupted")
            }
            Self::CapacityBlockExpiring => ("Warning", "CapacityBlockExpiring"),
            Self::InstanceStopped => ("Warning", "InstanceStopping"),
            Self::InstanceTerminated | Self::GroupTerminating => ("Warning", "InstanceTerminating"),
            Self::ScheduledChange
            | Self::InstanceStatus
            | Self::SystemStatus
            | Self::EventStatus => ("Warning", "InstanceUnhealthy"),
        }
    }
}

/// The account and Region of the stack. Events of other accounts and Regions are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackLocation {
    pub account: String,
    pub region: String,
}

/// Content of a message in the interruption queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueMessage {
    /// At least one announcement.
    Announced(Vec<Interruption>),
    CapacityBlockEnds(CapacityBlockEnd),
    Ignored(Ignored),
}

/// A Capacity Block that is about to end, with all instances that run in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityBlockEnd {
    /// Id of the capacity reservation.
    pub reservation: String,
    /// Time of the announcement.
    pub at: Timestamp,
    /// Time at which the block ends, if the announcement gives one.
    pub end: Option<Timestamp>,
}

/// Reason why a message concerns no instance. Counted in metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The message's version, source or detail type is unknown.
    Unknown {
        version: String,
        source: String,
        detail_type: String,
    },
    /// The event is of a known kind but threatens no instance, such as a state change to `running`.
    Harmless { what: String },
    /// The event belongs to another account or Region.
    Elsewhere { account: String, region: String },
}

impl Ignored {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown",
            Self::Harmless { .. } => "harmless",
            Self::Elsewhere { .. } => "elsewhere",
        }
    }
}
