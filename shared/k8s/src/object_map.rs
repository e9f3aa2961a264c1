//! Where the objects of a kind are kept between turns.

use std::collections::BTreeMap;

use model::{PodKey, pod::Pod};

/// Namespace and name.
pub(crate) type Key = (String, String);

/// A place for objects, by namespace and name.
pub(crate) trait Keep: Default + Send + 'static {
    type Object: Send + 'static;

    fn keep(&mut self, key: Key, object: Self::Object);
    fn drop(&mut self, key: &Key);
    fn len(&self) -> usize;
    fn all(&self) -> Vec<Self::Object>;
}

impl<M: Clone + Send + 'static> Keep for BTreeMap<Key, M> {
    type Object = M;

    fn keep(&mut self, key: Key, object: M) {
        self.insert(key, object);
    }

    fn drop(&mut self, key: &Key) {
        self.remove(key);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn all(&self) -> Vec<M> {
        self.values().cloned().collect()
    }
}

/// 50,000 whole pods are 300 MB.
impl Keep for view::Pods {
    type Object = Pod;

    fn keep(&mut self, _: Key, pod: Pod) {
        self.see(pod);
        self.tidy();
    }

    fn drop(&mut self, (namespace, name): &Key) {
        self.lose(&PodKey::new(namespace, name));
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn all(&self) -> Vec<Pod> {
        self.iter().collect()
    }
}
