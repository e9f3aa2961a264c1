use std::{collections::VecDeque, sync::Arc};

use super::object::{Object, ObjectKey};

/// Write event, as read by watches and by lists of past revisions.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: u64,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub enum Change {
    Added(Arc<Object>),
    Modified {
        old: Arc<Object>,
        new: Arc<Object>,
    },
    /// `last` is the deleted object, with the revision of its deletion.
    Deleted {
        old: Arc<Object>,
        last: Arc<Object>,
    },
}

impl Change {
    pub(super) fn key(&self) -> ObjectKey {
        match self {
            Self::Added(new) | Self::Modified { new, .. } => new.key(),
            Self::Deleted { old, .. } => old.key(),
        }
    }

    pub(super) fn before(&self) -> Option<&Arc<Object>> {
        match self {
            Self::Added(_) => None,
            Self::Modified { old, .. } | Self::Deleted { old, .. } => Some(old),
        }
    }
}

/// Latest events of one table, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    events: VecDeque<Event>,
    /// Revision up to which events have been dropped.
    forgotten: u64,
}

impl History {
    pub(super) fn push(&mut self, event: Event, limit: usize) {
        self.events.push_back(event);
        while self.events.len() > limit {
            if let Some(oldest) = self.events.pop_front() {
                self.forgotten = oldest.revision;
            }
        }
    }

    /// Replaces an object by its encoded form in the event of its last write.
    pub(super) fn replace(&mut self, object: &Arc<Object>) {
        let at = self
            .events
            .binary_search_by_key(&object.revision(), |event| event.revision);
        let event = at.ok().and_then(|at| self.events.get_mut(at));
        if let Some(Change::Added(new) | Change::Modified { new, .. }) =
            event.map(|event| &mut event.change)
        {
            *new = object.clone();
        }
    }

    /// Drops all events, as compaction does.
    pub(super) fn compact(&mut self, revision: u64) {
        self.events.clear();
        self.forgotten = revision;
    }

    /// Events after a revision; `None` if some of them have been dropped.
    pub(super) fn after(&self, revision: u64) -> Option<impl DoubleEndedIterator<Item = &Event>> {
        if revision < self.forgotten {
            return None;
        }
        let start = self
            .events
            .partition_point(|event| event.revision <= revision);
        Some(self.events.range(start..))
    }
}
