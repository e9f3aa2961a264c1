//! A table that is only ever looked up, never iterated, so that its order cannot leak into a decision.

use std::{borrow::Borrow, hash::Hash};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// The hash has no seed: what is looked up costs the same in every run.
#[derive(Clone, Debug)]
pub struct Memo<K, V>(HashMap<K, V, FxBuildHasher>);

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash, V: Copy> Memo<K, V> {
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.0.get(key).copied()
    }

    /// What was known of `key` before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// What is known of `key`, or `value` from now on.
    pub fn get_or_insert(&mut self, key: K, value: V) -> V {
        *self.0.entry(key).or_insert(value)
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for Memo<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}
