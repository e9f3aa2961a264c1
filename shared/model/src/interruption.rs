//! Announcements of AWS about instances, and what is to be done about them (docs/spec/aws.md#interruptions).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{catalog::CapacityType, ids::InstanceId};

/// One thing that is announced of one instance: a fact that cannot be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    pub instance: InstanceId,
    pub kind: InterruptionKind,
    /// When it happened, by the announcement.
    pub at: Option<Timestamp>,
    /// When the instance goes, if that is known.
    pub deadline: Option<Timestamp>,
    /// What holds the instance until we say that it may go.
    pub hook: Option<LifecycleHook>,
    /// The id of the event that announced it; empty where it was looked up.
    pub event: String,
    /// Whether the instance is to reboot, and to be of use again after that.
    pub reboots: bool,
}

impl Interruption {
    /// As people are told of it.
    pub fn announcement(&self) -> String {
        let (kind, instance) = (self.kind.as_str().replace('_', " "), &self.instance);
        let what = format!("AWS announced {kind} for instance {instance}");
        match self.deadline {
            Some(deadline) => format!("{what}: it goes at {deadline:.0}"),
            None => what,
        }
    }
}

/// A lifecycle hook of an Auto Scaling group, for one of its instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleHook {
    pub group: String,
    pub name: String,
    /// Names the one action that waits.
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
    /// Its Auto Scaling group ends it, and waits for a lifecycle hook.
    GroupTerminating,
    /// The capacity block that it runs in is about to end.
    CapacityBlockExpiring,
}

/// What is to become of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Course {
    /// Its NodeClaim is deleted at once, and the node drained.
    #[default]
    Drain,
    /// The same once its pods have places on nodes that are ready.
    Replace,
    /// Nothing on the machine can be waited for any more.
    Force,
    /// It takes no new pods, and nothing else happens to it.
    Cordon,
}

impl Course {
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

    /// As metrics and the ledger name it.
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

    /// What becomes of a node of ours; `None` where its NodePool decides.
    pub fn course(self) -> Option<Course> {
        match self {
            Self::RebalanceRecommendation => None,
            Self::InstanceStatus | Self::SystemStatus => Some(Course::Force),
            Self::SpotInterrupted
            | Self::CapacityReservationInterrupted
            | Self::ScheduledChange
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::EventStatus
            | Self::GroupTerminating
            | Self::CapacityBlockExpiring => Some(Course::Drain),
        }
    }

    /// Whether it only tells what has happened to the instance: these come for every instance of the account, also for
    /// those that we end ourselves.
    pub fn is_state_change(self) -> bool {
        matches!(self, Self::InstanceStopped | Self::InstanceTerminated)
    }

    /// Whether it comes for instances of the whole account, whosever they are: who is not known to the ledger is not looked up.
    pub fn comes_for_all(self) -> bool {
        self.is_state_change()
            || matches!(
                self,
                Self::InstanceStatus | Self::SystemStatus | Self::EventStatus
            )
    }

    /// Whether it is found by looking again and again, so that it comes every time as long as it holds.
    pub fn is_polled(self) -> bool {
        matches!(
            self,
            Self::InstanceStatus
                | Self::SystemStatus
                | Self::EventStatus
                | Self::CapacityBlockExpiring
        )
    }

    /// Whether it can happen to an instance of this capacity type: EC2 takes back spot instances only, and recommends to
    /// replace no others.
    pub fn can_happen_to(self, capacity_type: CapacityType) -> bool {
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

    /// The kind that [`as_str`](Self::as_str) names so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Type and reason of the event on the Node and the NodeClaim.
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

/// Where the stack lives: events of other accounts and Regions are not for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub account: String,
    pub region: String,
}

/// What a message of the queue says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Never empty.
    Announced(Vec<Interruption>),
    BlockEnds(BlockEnd),
    Ignored(Ignored),
}

/// A Capacity Block that is about to end, with whatever runs in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEnd {
    /// The id of the capacity reservation.
    pub reservation: String,
    /// When that was announced.
    pub at: Timestamp,
    /// When it ends, if that can be read.
    pub end: Option<Timestamp>,
}

/// Why a message concerns no instance; each is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Its version, source and type are not known here.
    Unknown {
        version: String,
        source: String,
        detail_type: String,
    },
    /// Of a known kind, but it ends nothing, such as an instance that starts to run.
    Harmless { what: String },
    /// Of another account or Region.
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
