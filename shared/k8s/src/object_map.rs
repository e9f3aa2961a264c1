//! Containers for the objects of one kind that are kept between turns.

use std::collections::BTreeMap;

use model::{PodKey, pod::Pod};

/// Namespace and name.
pub(crate) type Key = (String, String);

/// Objects by namespace and name.
pub(crate) trait ObjectMap: Default + Send + 'static {
    type Object: Send + 'static;

    fn upsert(&mut self, key: Key, object: Self::Object);
    fn delete(&mut self, key: &Key);
    fn len(&self) -> usize;
    fn all(&self) -> Vec<Self::Object>;
}

impl<M: Clone + Send + 'static> ObjectMap for BTreeMap<Key, M> {
    type Object = M;

    fn upsert(&mut self, key: Key, object: M) {
        self.insert(key, object);
    }

    fn delete(&mut self, key: &Key) {
        self.remove(key);
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn all(&self) -> Vec<M> {
        self.values().cloned().collect()
    }
}

/// A compact form, because 50,000 pods take 300 MB otherwise.
impl ObjectMap for view::Pods {
    type Object = Pod;

    fn upsert(&mut self, _: Key, pod: Pod) {
        self.upsert(pod);
        self.tidy();
    }

    fn delete(&mut self, (namespace, name): &Key) {
        self.remove(&PodKey::new(namespace, name));
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn all(&self) -> Vec<Pod> {
        self.iter().collect()
    }
}
