use std::hash::{DefaultHasher, Hash, Hasher};

/// Identifies an object within its kind: a hash of namespace and name. The probability that two of 50,000 objects share a key is
/// below one in a billion, and the effect would be a missed wake, which the sweep corrects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

impl Key {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(fingerprint(&(namespace, name)))
    }

    pub fn node(name: &str) -> Self {
        Self::new("", name)
    }
}

/// A hash that is compared only within this process.
pub(super) fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
