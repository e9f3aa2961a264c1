use std::collections::{BTreeMap, BTreeSet};

use super::object::{Object, ObjectKey, TableId};

pub type Place = (TableId, ObjectKey);

/// Who lives, and who names whom as owner: what garbage collection asks.
#[derive(Debug, Default)]
pub(super) struct Owners {
    living: BTreeMap<String, Place>,
    dependents: BTreeMap<String, BTreeSet<Place>>,
    /// Objects that may have lost their last owner.
    suspects: BTreeSet<Place>,
    /// Objects marked for deletion.
    terminating: BTreeSet<Place>,
}

impl Owners {
    pub(super) fn add(&mut self, place: &Place, object: &Object) {
        if object.is_terminating() {
            self.terminating.insert(place.clone());
        }
        self.living.insert(object.uid().to_owned(), place.clone());
        for owner in object.owner_uids() {
            self.dependents
                .entry(owner.to_owned())
                .or_default()
                .insert(place.clone());
            if !self.living.contains_key(owner) {
                self.suspects.insert(place.clone());
            }
        }
    }

    pub(super) fn remove(&mut self, place: &Place, object: &Object) {
        self.terminating.remove(place);
        self.living.remove(object.uid());
        for owner in object.owner_uids() {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(place);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        if let Some(dependents) = self.dependents.get(object.uid()) {
            self.suspects.extend(dependents.iter().cloned());
        }
    }

    pub(super) fn is_living(&self, uid: &str) -> bool {
        self.living.contains_key(uid)
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Place> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    pub(super) fn take_suspects(&mut self) -> BTreeSet<Place> {
        std::mem::take(&mut self.suspects)
    }

    pub(super) fn terminating(&self) -> impl Iterator<Item = &Place> {
        self.terminating.iter()
    }
}
