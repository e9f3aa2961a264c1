use jiff::{SignedDuration, Timestamp};
use model::ClusterName;
use ports::{CloudError, ClusterError, LedgerError, QueueError, RegistryError};

/// How one port call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Throttled,
    Denied,
    /// The object changed meanwhile; ports that know no conflicts do not answer.
    Conflict,
    /// No answer, and nothing was done.
    Unavailable,
    /// No answer, but it was done.
    LostAnswer,
}

/// One run of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: u64,
    /// How far its clock is ahead of the world's.
    pub skew: SignedDuration,
}

/// Decides what becomes of every port call of a [`Process`].
pub trait Weather: Send {
    /// `cluster` is the one whose API server the process reaches now.
    fn fate(
        &mut self,
        process: u64,
        cluster: Option<&ClusterName>,
        call: &'static str,
        now: Timestamp,
    ) -> Fate;
}

/// What becomes of one port call; by default it is answered at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// How often it gives way to others first.
    pub gives_way: u64,
    /// Until it takes effect.
    pub takes: SignedDuration,
    pub fault: Option<Fault>,
    pub dies: Option<Death>,
}

/// When a process ends, seen from the effect of its last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    Before,
    After,
}

/// Ends a process at a certain point: from then on every port call fails and does nothing, until it is mended.
///
/// Every port call passes two points, one before it acts and one before its answer arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fuse {
    passed: u64,
    blows_at: Option<u64>,
}

impl Fuse {
    /// Blows at the point with this number; the first is 1.
    pub fn blowing_at(point: u64) -> Self {
        Self {
            passed: 0,
            blows_at: Some(point),
        }
    }

    /// Points passed so far.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    pub fn is_blown(&self) -> bool {
        self.blows_at.is_some_and(|point| self.passed >= point)
    }

    /// Passes one point, and says whether the process still lives.
    pub(crate) fn pass(&mut self) -> bool {
        if !self.is_blown() {
            self.passed += 1;
        }
        !self.is_blown()
    }
}

/// An error that can stand for a fault.
pub(crate) trait Trouble {
    fn of(fault: Fault, call: &str) -> Self;
}

fn action(call: &str) -> String {
    call.to_owned()
}

const NO_ANSWER: &str = "the connection was closed";
const NOT_ALLOWED: &str = "not authorized";

impl Trouble for CloudError {
    fn of(fault: Fault, call: &str) -> Self {
        match fault {
            Fault::Throttled => Self::Throttled {
                action: action(call),
                code: "RequestLimitExceeded".into(),
            },
            Fault::Denied => Self::Denied {
                action: action(call),
                message: NOT_ALLOWED.into(),
            },
            Fault::Conflict | Fault::Unavailable | Fault::LostAnswer => Self::Unknown {
                action: action(call),
                message: NO_ANSWER.into(),
            },
        }
    }
}

impl Trouble for ClusterError {
    fn of(fault: Fault, call: &str) -> Self {
        match fault {
            Fault::Throttled => Self::Throttled {
                action: action(call),
                after_seconds: Some(1),
            },
            Fault::Denied => Self::Denied {
                action: action(call),
                message: NOT_ALLOWED.into(),
            },
            Fault::Conflict => Self::Conflict { what: action(call) },
            Fault::Unavailable | Fault::LostAnswer => Self::Unavailable {
                action: action(call),
                message: NO_ANSWER.into(),
            },
        }
    }
}

impl Trouble for LedgerError {
    fn of(fault: Fault, call: &str) -> Self {
        match fault {
            Fault::Throttled => Self::Throttled {
                action: action(call),
            },
            Fault::Denied => Self::Denied {
                action: action(call),
                message: NOT_ALLOWED.into(),
            },
            Fault::Conflict | Fault::Unavailable | Fault::LostAnswer => Self::Unavailable {
                action: action(call),
                message: NO_ANSWER.into(),
            },
        }
    }
}

impl Trouble for RegistryError {
    fn of(fault: Fault, call: &str) -> Self {
        match fault {
            Fault::Denied => Self::Denied {
                action: action(call),
                message: NOT_ALLOWED.into(),
            },
            Fault::Throttled | Fault::Conflict | Fault::Unavailable | Fault::LostAnswer => {
                Self::Unavailable {
                    action: action(call),
                    message: NO_ANSWER.into(),
                }
            }
        }
    }
}

impl Trouble for QueueError {
    fn of(_: Fault, _: &str) -> Self {
        Self::Unavailable {
            lane: model::Lane::Provisioner,
            message: NO_ANSWER.into(),
        }
    }
}
