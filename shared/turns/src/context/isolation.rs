//! Isolation of failures: an error about one object ends the work on this object; an error of a whole port ends the step that
//! met it.

use std::fmt::Display;

use jiff::{SignedDuration, Timestamp};
use ports::{
    ClusterError, LedgerError,
    cluster::{Event, EventKind, EventTarget},
};

use crate::TurnError;

/// Reason of events about an object that may not be changed.
pub(crate) const CHANGE_REFUSED: &str = "ChangeRefused";

/// Delay before an object that changed in the meantime is read again.
pub(crate) const AFTER_CHANGE: SignedDuration = SignedDuration::from_secs(10);
/// Delay before an object whose change is refused is tried again. A webhook may refuse while it is rolled out, so that joining
/// nodes wait for it; an unnecessary turn costs little.
pub(crate) const AFTER_REFUSAL: SignedDuration = SignedDuration::from_secs(20);

/// Failures of single objects, as a turn met them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectFailures {
    pub(crate) problems: Vec<String>,
    pub(crate) events: Vec<Event>,
    /// Time at which the first of these objects is tried again.
    pub(crate) again: Option<Timestamp>,
}

impl TurnError {
    /// Whether the error is about the one object that was acted on, so that it has no meaning for any other.
    pub(crate) fn is_about_one_object(&self) -> bool {
        match self {
            Self::Cluster(error) => error.is_about_one_object(),
            Self::Cloud(error) => error.is_about_one_object(),
            // A row that cannot be read, if rows are read one by one.
            Self::Ledger(LedgerError::Newer { .. } | LedgerError::Corrupt { .. }) => true,
            Self::Ledger(
                LedgerError::Throttled { .. }
                | LedgerError::Denied { .. }
                | LedgerError::Invalid { .. }
                | LedgerError::Unavailable { .. },
            )
            | Self::Entry { .. }
            | Self::Late { .. }
            | Self::Queue(_)
            | Self::Registry(_) => false,
        }
    }

    /// Whether the object changed or vanished since it was read, which is no failure.
    fn is_overtaken(&self) -> bool {
        matches!(
            self,
            Self::Cluster(ClusterError::NotFound { .. } | ClusterError::Conflict { .. })
        )
    }
}

impl ObjectFailures {
    /// Outcome of a step that concerns `about` alone; `None` if the step failed for reasons of this object, which are recorded and
    /// reported on it. Errors of a whole port are returned.
    pub(crate) fn isolate<T, E: Into<TurnError>>(
        &mut self,
        about: &EventTarget,
        now: Timestamp,
        step: Result<T, E>,
    ) -> Result<Option<T>, TurnError> {
        let step = step.map_err(Into::into);
        if let Err(error) = &step
            && error.is_about_one_object()
            && !error.is_overtaken()
        {
            self.events.push(Event {
                about: about.clone(),
                kind: EventKind::Warning,
                reason: CHANGE_REFUSED.to_owned(),
                message: match matches!(error, TurnError::Cluster(_)) {
                    true => format!("{error}; check the cluster's admission policies and webhooks"),
                    false => error.to_string(),
                },
                at: now,
            });
        }
        self.isolate_unseen(about, now, step)
    }

    /// [`Self::isolate`] for things without an object in the cluster that an event could be about.
    pub(crate) fn isolate_unseen<T, E: Into<TurnError>>(
        &mut self,
        about: impl Display,
        now: Timestamp,
        step: Result<T, E>,
    ) -> Result<Option<T>, TurnError> {
        let error = match step.map_err(Into::into) {
            Ok(done) => return Ok(Some(done)),
            Err(error) if error.is_about_one_object() => error,
            Err(error) => return Err(error),
        };
        if error.is_overtaken() {
            self.retry_at(now + AFTER_CHANGE);
        } else {
            self.retry_at(now + AFTER_REFUSAL);
            self.problems.push(format!("{about}: {error}"));
        }
        Ok(None)
    }

    fn retry_at(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(error: impl Into<TurnError>) -> Result<(), TurnError> {
        Err(error.into())
    }

    fn node() -> EventTarget {
        EventTarget::Node("a".into(), "a-uid".into())
    }

    #[test]
    fn refusal_of_one_object_is_reported_on_the_object() {
        let mut failures = ObjectFailures::default();
        let denied = ClusterError::Denied {
            action: "changing it".into(),
            message: "frozen".into(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let isolated = failures.isolate(&node(), now, step(denied));
        assert!(matches!(isolated, Ok(None)));
        assert_eq!(failures.problems.len(), 1);
        assert_eq!(failures.events[0].about, node());
        assert_eq!(failures.again, Some(now + AFTER_REFUSAL));
    }

    #[test]
    fn changed_object_is_retried_without_an_event() {
        let mut failures = ObjectFailures::default();
        let conflict = ClusterError::Conflict { what: "it".into() };
        let now = Timestamp::UNIX_EPOCH;
        assert!(matches!(
            failures.isolate(&node(), now, step(conflict)),
            Ok(None)
        ));
        assert!(failures.problems.is_empty() && failures.events.is_empty());
        assert_eq!(failures.again, Some(now + AFTER_CHANGE));
    }

    #[test]
    fn error_of_the_whole_port_is_returned() {
        let mut failures = ObjectFailures::default();
        let down = ClusterError::Unavailable {
            action: "all".into(),
            message: "closed".into(),
        };
        let isolated = failures.isolate(&node(), Timestamp::UNIX_EPOCH, step(down));
        assert!(isolated.is_err());
        assert_eq!(failures, ObjectFailures::default());
    }
}
