use jiff::{SignedDuration, Timestamp};
use model::ClusterName;
use ports::{CloudError, ClusterError, LedgerError, QueueError, RegistryError};

/// Failure of one port call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Throttled,
    Denied,
    /// The object has changed in between; ports without conflicts report the call as unavailable.
    Conflict,
    /// No answer, and the call had no effect.
    Unavailable,
    /// No answer, but the call took effect.
    LostAnswer,
}

/// One invocation of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: u64,
    /// Lead of the process's clock over the world's.
    pub skew: SignedDuration,
}

/// Decides the outcome of every port call of a [`Process`].
pub trait FaultSchedule: Send {
    /// `cluster` is the cluster whose API server the process uses.
    fn outcome(
        &mut self,
        process: u64,
        cluster: Option<&ClusterName>,
        call: &'static str,
        now: Timestamp,
    ) -> CallOutcome;
}

/// Outcome of one port call; by default it is answered immediately and succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOutcome {
    /// Number of times that the call yields to other tasks before it starts.
    pub yields: u64,
    /// Time until the call takes effect.
    pub delay: SignedDuration,
    pub fault: Option<Fault>,
    pub crash: Option<CrashTiming>,
}

/// Moment at which a process crashes, relative to the effect of its last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashTiming {
    Before,
    After,
}

/// Crashes a process at a chosen point: from then on every port call fails without effect, until the crash point is reset.
///
/// Every port call passes two points: one before it takes effect, and one before its answer arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrashPoint {
    passed: u64,
    crash_at: Option<u64>,
}

impl CrashPoint {
    /// Crashes at the point with this number; the first is 1.
    pub fn at(point: u64) -> Self {
        Self {
            passed: 0,
            crash_at: Some(point),
        }
    }

    /// Number of points passed so far.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    pub fn is_reached(&self) -> bool {
        self.crash_at.is_some_and(|point| self.passed >= point)
    }

    /// Passes one point; returns whether the process is still running.
    pub(crate) fn pass(&mut self) -> bool {
        if !self.is_reached() {
            self.passed += 1;
        }
        !self.is_reached()
    }
}

/// An error type that a [`Fault`] can be converted to.
pub(crate) trait FromFault {
    fn from_fault(fault: Fault, call: &str) -> Self;
}

fn action(call: &str) -> String {
    call.to_owned()
}

const NO_ANSWER: &str = "the connection was closed";
const NOT_ALLOWED: &str = "not authorized";

impl FromFault for CloudError {
    fn from_fault(fault: Fault, call: &str) -> Self {
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

impl FromFault for ClusterError {
    fn from_fault(fault: Fault, call: &str) -> Self {
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

impl FromFault for LedgerError {
    fn from_fault(fault: Fault, call: &str) -> Self {
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

impl FromFault for RegistryError {
    fn from_fault(fault: Fault, call: &str) -> Self {
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

impl FromFault for QueueError {
    fn from_fault(_: Fault, _: &str) -> Self {
        Self::Unavailable {
            lane: model::Lane::Provisioner,
            message: NO_ANSWER.into(),
        }
    }
}
