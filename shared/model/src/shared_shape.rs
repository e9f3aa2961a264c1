//! Reference-counted pod shapes. Pods of one Deployment differ only in their names and nodes, so they share one
//! [`PodShape`]. Clusters of tens of thousands of pods need little memory, and per-shape work is done once.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Memo,
    pod::{Pod, PodShape},
};

/// A reference-counted pod shape. Dereferences to [`PodShape`]; mutable access clones a shared shape (copy on write).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SharedShape(Arc<PodShape>);

/// Address of a shape in memory, as a cheap key for maps. Equal shapes may have several addresses. Valid while the
/// shape is borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShapeAddress(usize);

impl SharedShape {
    pub fn shape_address(&self) -> ShapeAddress {
        ShapeAddress(Arc::as_ptr(&self.0).addr())
    }
}

/// Makes pods with equal shapes share one allocation.
pub fn share_shapes(pods: &mut [Pod]) {
    let mut at: Memo<SharedShape, usize> = Memo::default();
    let mut stored: Memo<ShapeAddress, ()> = Memo::default();
    let mut all: Vec<SharedShape> = Vec::new();
    for pod in pods {
        let shape = &mut pod.shape;
        if stored.get(&shape.shape_address()).is_some() {
            continue;
        }
        match at.get(shape).and_then(|at| all.get(at)) {
            Some(known) => *shape = known.clone(),
            None => {
                stored.insert(shape.shape_address(), ());
                at.insert(shape.clone(), all.len());
                all.push(shape.clone());
            }
        }
    }
}

impl Deref for SharedShape {
    type Target = PodShape;

    fn deref(&self) -> &PodShape {
        &self.0
    }
}

impl DerefMut for SharedShape {
    fn deref_mut(&mut self) -> &mut PodShape {
        Arc::make_mut(&mut self.0)
    }
}

impl From<PodShape> for SharedShape {
    fn from(shape: PodShape) -> Self {
        Self(Arc::new(shape))
    }
}

impl Serialize for SharedShape {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        PodShape::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::share_shapes;
    use crate::pod::Pod;

    fn pod(app: &str) -> Pod {
        let mut pod = Pod::default();
        pod.labels.insert("app".to_owned(), app.to_owned());
        pod
    }

    #[test]
    fn equal_shapes_are_stored_once_until_one_of_them_changes() {
        let mut pods = [pod("web"), pod("web"), pod("db")];
        share_shapes(&mut pods);
        let [first, second, other] = &mut pods;
        assert_eq!(first.shape.shape_address(), second.shape.shape_address());
        assert_ne!(first.shape.shape_address(), other.shape.shape_address());

        second.priority = Some(7);
        assert_ne!(first.shape.shape_address(), second.shape.shape_address());
        assert_eq!(first.shape, pod("web").shape);
    }

    #[test]
    fn shape_serializes_as_fields_of_its_pod() {
        let written = serde_json::to_value(pod("web")).unwrap();
        assert_eq!(written["labels"]["app"], "web");
        assert_eq!(written["phase"], "Pending");
        let read: Pod = serde_json::from_value(written).unwrap();
        assert_eq!(read, pod("web"));
    }
}
