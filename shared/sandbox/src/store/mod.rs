//! Object store: the objects of every kind by namespace and name, one revision counter, and a bounded history per kind
//! that serves watches and lists of past revisions. Pure: time is an argument, and identifiers follow from a seed.

mod history;
mod list;
mod names;
mod object;
mod owners;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

pub use history::{Change, Event};
pub use list::{Listing, Start};
pub use names::is_name;
pub use object::{Object, ObjectKey, TableId};
pub use owners::ObjectRef;
use serde_json::Value;

use history::History;
use owners::Owners;

/// Events kept per kind: enough for a watcher to reconnect after a pause, few enough to stay in tens of megabytes.
pub const HISTORY_LIMIT: usize = 8_192;

/// Number of recently written objects that are kept decoded; older ones are kept as JSON text only. Objects are mostly
/// written again soon after a write.
const DECODED_MAX: usize = 4_096;

#[derive(Debug)]
pub struct Store {
    revision: u64,
    identifiers: names::Identifiers,
    tables: BTreeMap<TableId, Table>,
    owners: Owners,
    history_limit: usize,
    /// Objects that are kept decoded, with their revisions, oldest first.
    decoded: VecDeque<(ObjectRef, u64)>,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    history: History,
    /// Revision of the last write to this table.
    revision: u64,
}

impl Table {
    /// Encoded form of an object, which also replaces it in the history.
    fn encode(&mut self, object: &Object) -> Arc<Object> {
        let encoded = Arc::new(object.encoded_only());
        self.history.replace(&encoded);
        encoded
    }
}

impl Store {
    pub fn new(seed: u64, history_limit: usize) -> Self {
        Self {
            // Starts at 1 because resource version 0 has a special meaning; a real server has written before the first
            // read, too.
            revision: 1,
            identifiers: names::Identifiers::new(seed),
            tables: BTreeMap::new(),
            owners: Owners::default(),
            history_limit,
            decoded: VecDeque::new(),
        }
    }

    /// Revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Revision of the last write to one table.
    pub fn table_revision(&self, table: &TableId) -> u64 {
        self.tables.get(table).map_or(0, |table| table.revision)
    }

    pub fn get(&self, table: &TableId, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.tables.get(table)?.objects.get(key)
    }

    /// Every object of a table, by namespace and name.
    pub fn all<'a>(
        &'a self,
        table: &TableId,
    ) -> impl DoubleEndedIterator<Item = &'a Arc<Object>> + use<'a> {
        self.tables
            .get(table)
            .into_iter()
            .flat_map(|table| table.objects.values())
    }

    pub fn count(&self, table: &TableId) -> usize {
        self.tables
            .get(table)
            .map_or(0, |table| table.objects.len())
    }

    pub fn tables(&self) -> impl Iterator<Item = &TableId> {
        self.tables.keys()
    }

    /// Fresh `metadata.uid`.
    pub fn next_uid(&mut self) -> String {
        self.identifiers.uid()
    }

    /// Fresh suffix for `metadata.generateName`.
    pub fn next_suffix(&mut self) -> String {
        self.identifiers.suffix()
    }

    /// Writes an object, new or not.
    pub fn put(&mut self, id: &TableId, value: Value) -> Arc<Object> {
        self.revision += 1;
        let new = Arc::new(Object::new(value, self.revision));
        let key = new.key();
        let object_ref = (id.clone(), key.clone());
        let table = self.tables.entry(id.clone()).or_default();
        let old = table.objects.insert(key, new.clone());
        let old = old.map(|old| table.encode(&old));
        table.revision = self.revision;
        let change = match old {
            Some(old) => {
                self.owners.remove(&object_ref, &old);
                Change::Modified {
                    old,
                    new: new.clone(),
                }
            }
            None => Change::Added(new.clone()),
        };
        self.owners.add(&object_ref, &new);
        table.history.push(
            Event {
                revision: self.revision,
                change,
            },
            self.history_limit,
        );
        self.decoded.push_back((object_ref, self.revision));
        self.encode_older();
        new
    }

    /// Replaces the least recently written objects by their encoded form.
    fn encode_older(&mut self) {
        while self.decoded.len() > DECODED_MAX {
            let Some(((table, key), revision)) = self.decoded.pop_front() else {
                return;
            };
            let Some(table) = self.tables.get_mut(&table) else {
                continue;
            };
            // An object that was written again since has a newer entry in the queue.
            let object = table.objects.get(&key).cloned();
            if let Some(object) = object.filter(|object| object.revision() == revision) {
                let encoded = table.encode(&object);
                table.objects.insert(key, encoded);
            }
        }
    }

    /// Removes an object; returns it with the revision of its deletion.
    pub fn remove(&mut self, id: &TableId, key: &ObjectKey) -> Option<Arc<Object>> {
        let table = self.tables.get_mut(id)?;
        let old = table.objects.remove(key)?;
        self.revision += 1;
        table.revision = self.revision;
        self.owners.remove(&(id.clone(), key.clone()), &old);
        let last = Arc::new(Object::new(old.value().clone(), self.revision));
        table.history.push(
            Event {
                revision: self.revision,
                change: Change::Deleted {
                    old,
                    last: last.clone(),
                },
            },
            self.history_limit,
        );
        Some(last)
    }

    /// Writes to a table after a revision; `None` if the history does not reach back that far.
    pub fn events_after<'a>(
        &'a self,
        table: &TableId,
        revision: u64,
    ) -> Option<impl DoubleEndedIterator<Item = &'a Event> + use<'a>> {
        let events = match self.tables.get(table) {
            Some(table) => Some(table.history.after(revision)?),
            None => None,
        };
        Some(events.into_iter().flatten())
    }

    /// Drops all history, as compaction does: older revisions fail with 410.
    pub fn compact(&mut self) {
        for table in self.tables.values_mut() {
            table.history.compact(self.revision);
        }
    }

    /// Returns whether an object with this UID exists.
    pub fn exists(&self, uid: &str) -> bool {
        self.owners.exists(uid)
    }

    /// Objects that list this UID as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<ObjectRef> {
        self.owners.dependents(uid)
    }

    /// Objects that are marked for deletion.
    pub(crate) fn terminating(&self) -> impl Iterator<Item = (&TableId, &Arc<Object>)> {
        self.owners
            .terminating()
            .filter_map(|(table, key)| Some((table, self.get(table, key)?)))
    }

    /// Takes the objects that may have lost their last owner since the last call.
    pub(crate) fn take_possible_orphans(&mut self) -> impl Iterator<Item = ObjectRef> + use<> {
        self.owners.take_possible_orphans().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PODS: TableId = TableId::named("pods");

    fn pod(name: usize, node: &str) -> Value {
        json!({
            "kind": "Pod", "metadata": {"name": name.to_string(), "namespace": "default", "labels": {"app": "web"}},
            "spec": {"nodeName": node},
        })
    }

    #[test]
    fn older_objects_are_kept_encoded_and_read_unchanged() {
        let mut store = Store::new(1, HISTORY_LIMIT);
        for name in 0..DECODED_MAX + 2 {
            store.put(&PODS, pod(name, "a"));
        }
        let old = store.put(&PODS, pod(1, "b"));
        let object = |name: usize| {
            let key = ObjectKey::new("default", name.to_string());
            store.get(&PODS, &key).unwrap()
        };
        assert!(
            object(0).is_encoded_only() && !object(5).is_encoded_only() && !old.is_encoded_only()
        );
        let added: Vec<_> = store.events_after(&PODS, 0).unwrap().take(2).collect();
        for event in added {
            let Change::Added(new) = &event.change else {
                panic!("{event:?}");
            };
            assert!(
                new.is_encoded_only(),
                "the history keeps no decoded object: {event:?}"
            );
        }
        let peeked = object(0).peek(|value| value["spec"]["nodeName"] == "a");
        assert!(
            peeked && object(0).is_encoded_only(),
            "peeking does not decode it"
        );
        assert_eq!(object(0).labels()["app"], "web");
        assert_eq!(object(0).value()["metadata"]["resourceVersion"], "2");
        assert_eq!(object(0).encoded(), object(0).value().to_string());
    }
}
