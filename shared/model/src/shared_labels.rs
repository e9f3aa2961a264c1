//! Labels of pods: the pods of one Deployment carry the same ones, so they share them, and whoever looks at tens of thousands
//! of pods looks at each set of labels once.

use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Memo, pod::Pod};

/// Labels, perhaps shared with other objects. Reads like a map; changing them makes them the object's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedLabels(Arc<BTreeMap<String, String>>);

/// Tells apart labels that are stored apart; equal labels may have several. Valid as long as the labels are borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredAt(usize);

impl SharedLabels {
    pub fn stored_at(&self) -> StoredAt {
        StoredAt(Arc::as_ptr(&self.0).addr())
    }
}

/// Lets pods with equal labels share them.
pub fn share_labels(pods: &mut [Pod]) {
    let mut at: Memo<SharedLabels, usize> = Memo::default();
    let mut all: Vec<SharedLabels> = Vec::new();
    for pod in pods {
        let labels = &mut pod.labels;
        match at.get(labels).and_then(|at| all.get(at)) {
            Some(known) => *labels = known.clone(),
            None => {
                at.insert(labels.clone(), all.len());
                all.push(labels.clone());
            }
        }
    }
}

impl Deref for SharedLabels {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for SharedLabels {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl From<BTreeMap<String, String>> for SharedLabels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        Self(Arc::new(labels))
    }
}

impl<'a> IntoIterator for &'a SharedLabels {
    type Item = (&'a String, &'a String);
    type IntoIter = std::collections::btree_map::Iter<'a, String, String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Serialize for SharedLabels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::share_labels;
    use crate::pod::Pod;

    fn pod(app: &str) -> Pod {
        Pod {
            labels: BTreeMap::from([("app".to_owned(), app.to_owned())]).into(),
            ..Pod::default()
        }
    }

    #[test]
    fn equal_labels_are_stored_once_until_one_of_them_changes() {
        let mut pods = [pod("web"), pod("web"), pod("db")];
        share_labels(&mut pods);
        let [first, second, other] = &mut pods;
        assert_eq!(first.labels.stored_at(), second.labels.stored_at());
        assert_ne!(first.labels.stored_at(), other.labels.stored_at());

        second.labels.insert("tier".to_owned(), "front".to_owned());
        assert_ne!(first.labels.stored_at(), second.labels.stored_at());
        assert_eq!(first.labels, pod("web").labels);
    }
}
