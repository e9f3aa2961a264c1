//! Objects that refuse, and those that an unreadable row tells of: laws about how long anything may take judge all others.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::deeds::Refused;

/// Longest time until an instance that EC2 refused to end is asked for again.
const ASKED_AGAIN_WITHIN: SignedDuration = SignedDuration::from_mins(15);

/// Names of NodeClaims, Nodes and instances, with when a person saw to each.
#[derive(Default)]
pub(crate) struct RefusedObjects(BTreeMap<String, Option<Timestamp>>);

impl RefusedObjects {
    pub(crate) fn add(&mut self, names: Refused) {
        self.0.extend(names.into_iter().map(|name| (name, None)));
    }

    /// A person sees to all of them.
    pub(crate) fn lift(&mut self, now: Timestamp) {
        for at in self.0.values_mut() {
            at.get_or_insert(now);
        }
    }

    /// Whether an object may be left alone for now.
    pub(super) fn excuses(&self, name: &str, now: Timestamp) -> bool {
        let lifted = self.0.get(name);
        lifted.is_some_and(|at| at.is_none_or(|at| now.duration_since(at) <= ASKED_AGAIN_WITHIN))
    }
}
