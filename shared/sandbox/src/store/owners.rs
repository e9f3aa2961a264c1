use std::collections::{BTreeMap, BTreeSet};

use super::object::{Object, ObjectKey, TableId};

pub type ObjectRef = (TableId, ObjectKey);

/// Index of existing objects and owner references, for garbage collection.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_uid: BTreeMap<String, ObjectRef>,
    dependents: BTreeMap<String, BTreeSet<ObjectRef>>,
    /// Objects that may have lost their last owner.
    possible_orphans: BTreeSet<ObjectRef>,
    /// Objects marked for deletion.
    terminating: BTreeSet<ObjectRef>,
}

impl Owners {
    pub(super) fn add(&mut self, object_ref: &ObjectRef, object: &Object) {
        if object.is_terminating() {
            self.terminating.insert(object_ref.clone());
        }
        self.by_uid
            .insert(object.uid().to_owned(), object_ref.clone());
        for owner in object.owner_uids() {
            self.dependents
                .entry(owner.to_owned())
                .or_default()
                .insert(object_ref.clone());
            if !self.by_uid.contains_key(owner) {
                self.possible_orphans.insert(object_ref.clone());
            }
        }
    }

    pub(super) fn remove(&mut self, object_ref: &ObjectRef, object: &Object) {
        self.terminating.remove(object_ref);
        self.by_uid.remove(object.uid());
        for owner in object.owner_uids() {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(object_ref);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        if let Some(dependents) = self.dependents.get(object.uid()) {
            self.possible_orphans.extend(dependents.iter().cloned());
        }
    }

    pub(super) fn exists(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<ObjectRef> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    pub(super) fn take_possible_orphans(&mut self) -> BTreeSet<ObjectRef> {
        std::mem::take(&mut self.possible_orphans)
    }

    pub(super) fn terminating(&self) -> impl Iterator<Item = &ObjectRef> {
        self.terminating.iter()
    }
}
