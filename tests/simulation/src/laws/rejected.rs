//! Objects whose changes are rejected, and those with an unreadable row: time limits apply only to all others.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Longest time until the termination of an instance is retried after EC2 refused it.
const RETRIED_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// Names of NodeClaims, Nodes and instances, with the time at which the rejection was lifted.
#[derive(Default)]
pub(crate) struct RejectedObjects(BTreeMap<String, Option<Timestamp>>);

impl RejectedObjects {
    pub(crate) fn add(&mut self, names: Vec<String>) {
        self.0.extend(names.into_iter().map(|name| (name, None)));
    }

    /// Lifts all rejections.
    pub(crate) fn lift(&mut self, now: Timestamp) {
        for at in self.0.values_mut() {
            at.get_or_insert(now);
        }
    }

    /// Returns whether an object may be delayed by a rejection.
    pub(super) fn excuses(&self, name: &str, now: Timestamp) -> bool {
        let lifted = self.0.get(name);
        lifted.is_some_and(|at| at.is_none_or(|at| now.duration_since(at) <= RETRIED_WITHIN))
    }
}
