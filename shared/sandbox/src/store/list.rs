use std::{collections::BTreeMap, sync::Arc};

use super::{
    Store, TableId,
    history::Event,
    object::{Object, ObjectKey},
};

/// Position at which a page begins.
#[derive(Clone, Debug)]
pub enum Start {
    Beginning,
    /// After the last key of the page before.
    After(ObjectKey),
}

/// Objects of a table at one revision.
#[derive(Debug)]
pub struct Listing {
    pub revision: u64,
    /// Objects, sorted by namespace and name.
    pub objects: Vec<Arc<Object>>,
}

impl Store {
    /// Objects of a table at the present revision.
    pub fn list(&self, table: &TableId, namespace: Option<&str>, start: &Start) -> Listing {
        let objects = match self.tables.get(table) {
            Some(table) => select(&table.objects, namespace, start),
            None => Vec::new(),
        };
        Listing {
            revision: self.revision,
            objects,
        }
    }

    /// Objects of a table at a past revision, so that the pages of a list are consistent; `None` if the history does
    /// not reach back that far.
    pub fn list_at(
        &self,
        table: &TableId,
        revision: u64,
        namespace: Option<&str>,
        start: &Start,
    ) -> Option<Listing> {
        let mut since = self.events_after(table, revision)?.peekable();
        if since.peek().is_none() {
            return Some(Listing {
                revision,
                ..self.list(table, namespace, start)
            });
        }
        let mut past = self
            .tables
            .get(table)
            .map(|table| table.objects.clone())
            .unwrap_or_default();
        let events: Vec<&Event> = since.collect();
        for event in events.into_iter().rev() {
            match event.change.before() {
                Some(before) => past.insert(event.change.key(), before.clone()),
                None => past.remove(&event.change.key()),
            };
        }
        Some(Listing {
            revision,
            objects: select(&past, namespace, start),
        })
    }
}

fn select(
    objects: &BTreeMap<ObjectKey, Arc<Object>>,
    namespace: Option<&str>,
    start: &Start,
) -> Vec<Arc<Object>> {
    use std::ops::Bound;
    let first = match (start, namespace) {
        (Start::After(key), _) => Bound::Excluded(key.clone()),
        (Start::Beginning, Some(namespace)) => Bound::Included(ObjectKey::new(namespace, "")),
        (Start::Beginning, None) => Bound::Unbounded,
    };
    objects
        .range((first, Bound::Unbounded))
        .take_while(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace))
        .map(|(_, object)| object.clone())
        .collect()
}
