//! A map that is only ever looked up, never iterated, so that its order cannot leak into a decision.

use std::{borrow::Borrow, hash::Hash};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// The hasher has no seed, so that lookups cost the same in every run.
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

    /// Inserts a value and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Returns the value of `key`, after inserting `value` if there was none.
    pub fn get_or_insert(&mut self, key: K, value: V) -> V {
        *self.0.entry(key).or_insert(value)
    }
}

impl<K: Eq + Hash, V> FromIterator<(K, V)> for Memo<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Memo;

    #[test]
    fn get_or_insert_keeps_existing_value_and_insert_replaces_it() {
        let mut memo: Memo<&str, u32> = [("a", 1)].into_iter().collect();
        assert_eq!((memo.get("a"), memo.get("b")), (Some(1), None));
        assert_eq!(
            (memo.get_or_insert("a", 2), memo.get_or_insert("b", 2)),
            (1, 2)
        );
        assert_eq!((memo.insert("a", 3), memo.get("a")), (Some(1), Some(3)));
    }
}
