//! The object store: every kind's objects by namespace and name, one revision counter, and a bounded history per kind
//! from which watches and lists of the past are served. Pure: time comes in as an argument, identifiers from a seed.

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
pub use owners::Place;
use serde_json::Value;

use history::History;
use owners::Owners;

/// Events kept per kind: enough for a watcher to reconnect after a pause, little enough to stay in tens of megabytes.
pub const HISTORY_LIMIT: usize = 8_192;

/// So many objects that were written last are kept as values, not as text: whoever writes one mostly writes it again.
const AWAKE_MAX: usize = 4_096;

#[derive(Debug)]
pub struct Store {
    revision: u64,
    identifiers: names::Identifiers,
    tables: BTreeMap<TableId, Table>,
    owners: Owners,
    history_limit: usize,
    /// The objects that were written last, with their revisions, oldest first.
    awake: VecDeque<(Place, u64)>,
}

#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    history: History,
    /// The revision of the last write to this table.
    revision: u64,
}

impl Table {
    /// The same object as text, which the history knows from now on, too.
    fn rest(&mut self, object: &Object) -> Arc<Object> {
        let resting = Arc::new(object.at_rest());
        self.history.replace(&resting);
        resting
    }
}

impl Store {
    pub fn new(seed: u64, history_limit: usize) -> Self {
        Self {
            // As on a real server, which has written a little before anybody reads; 0 has a meaning of its own.
            revision: 1,
            identifiers: names::Identifiers::new(seed),
            tables: BTreeMap::new(),
            owners: Owners::default(),
            history_limit,
            awake: VecDeque::new(),
        }
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of the last write to one table.
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

    /// A fresh `metadata.uid`.
    pub fn next_uid(&mut self) -> String {
        self.identifiers.uid()
    }

    /// A fresh end for `metadata.generateName`.
    pub fn next_suffix(&mut self) -> String {
        self.identifiers.suffix()
    }

    /// Writes an object, new or not.
    pub fn put(&mut self, id: &TableId, value: Value) -> Arc<Object> {
        self.revision += 1;
        let new = Arc::new(Object::new(value, self.revision));
        let key = new.key();
        let place = (id.clone(), key.clone());
        let table = self.tables.entry(id.clone()).or_default();
        let old = table.objects.insert(key, new.clone());
        let old = old.map(|old| table.rest(&old));
        table.revision = self.revision;
        let change = match old {
            Some(old) => {
                self.owners.remove(&place, &old);
                Change::Modified {
                    old,
                    new: new.clone(),
                }
            }
            None => Change::Added(new.clone()),
        };
        self.owners.add(&place, &new);
        table.history.push(
            Event {
                revision: self.revision,
                change,
            },
            self.history_limit,
        );
        self.awake.push_back((place, self.revision));
        self.rest();
        new
    }

    /// What was written long ago rests as text.
    fn rest(&mut self) {
        while self.awake.len() > AWAKE_MAX {
            let Some(((table, key), revision)) = self.awake.pop_front() else {
                return;
            };
            let Some(table) = self.tables.get_mut(&table) else {
                continue;
            };
            // What was written again since rests already.
            let object = table.objects.get(&key).cloned();
            if let Some(object) = object.filter(|object| object.revision() == revision) {
                let resting = table.rest(&object);
                table.objects.insert(key, resting);
            }
        }
    }

    /// Takes an object away; answers with it under the revision of its deletion.
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

    /// The writes to a table after a revision; `None` if the history does not reach back that far.
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

    /// Forgets all history, as compaction does: older revisions answer 410.
    pub fn compact(&mut self) {
        for table in self.tables.values_mut() {
            table.history.compact(self.revision);
        }
    }

    /// Whether an object with this uid exists.
    pub fn is_living(&self, uid: &str) -> bool {
        self.owners.is_living(uid)
    }

    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Place> {
        self.owners.dependents(uid)
    }

    /// Objects marked for deletion and still here.
    pub(crate) fn terminating(&self) -> impl Iterator<Item = (&TableId, &Arc<Object>)> {
        self.owners
            .terminating()
            .filter_map(|(table, key)| Some((table, self.get(table, key)?)))
    }

    /// Objects that may have lost their last owner since the last call.
    pub(crate) fn take_suspects(&mut self) -> impl Iterator<Item = Place> + use<> {
        self.owners.take_suspects().into_iter()
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
    fn what_was_written_long_ago_rests_as_text_and_reads_as_before() {
        let mut store = Store::new(1, HISTORY_LIMIT);
        for name in 0..AWAKE_MAX + 2 {
            store.put(&PODS, pod(name, "a"));
        }
        let old = store.put(&PODS, pod(1, "b"));
        let object = |name: usize| {
            let key = ObjectKey::new("default", name.to_string());
            store.get(&PODS, &key).unwrap()
        };
        assert!(object(0).rests() && !object(5).rests() && !old.rests());
        let added: Vec<_> = store.events_after(&PODS, 0).unwrap().take(2).collect();
        for event in added {
            let Change::Added(new) = &event.change else {
                panic!("{event:?}");
            };
            assert!(new.rests(), "nobody keeps the value: {event:?}");
        }
        let looked = object(0).look(|value| value["spec"]["nodeName"] == "a");
        assert!(looked && object(0).rests(), "a look does not wake it");
        assert_eq!(object(0).labels()["app"], "web");
        assert_eq!(object(0).value()["metadata"]["resourceVersion"], "2");
        assert_eq!(object(0).encoded(), object(0).value().to_string());
    }
}
