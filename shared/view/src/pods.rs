use std::collections::BTreeMap;

use model::{Memo, PodKey, SharedShape, pod::Pod};

use crate::shape::{Own, join, split};

/// Number of shapes below which unused ones are not looked for.
const COMPACTION_MIN: usize = 1_000;

/// Pods in little memory: the fields that pods of one owner share are stored once.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    shapes: Vec<SharedShape>,
    numbers: Memo<SharedShape, u32>,
    pods: BTreeMap<PodKey, (u32, Own)>,
    /// Number of shapes after unused ones were last removed.
    compacted: usize,
}

impl Pods {
    /// Adds or updates a pod. Returns whether that changes anything.
    pub fn upsert(&mut self, pod: Pod) -> bool {
        let (key, shape, own) = split(pod);
        let row = (self.number(shape), own);
        let is_new = self.pods.get(&key) != Some(&row);
        if is_new {
            self.pods.insert(key, row);
        }
        is_new
    }

    /// Removes a pod. Returns whether it was there.
    pub fn remove(&mut self, key: &PodKey) -> bool {
        self.pods.remove(key).is_some()
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub fn keys(&self) -> impl Iterator<Item = &PodKey> {
        self.pods.keys()
    }

    /// Whole pods, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = Pod> {
        let pods = self.pods.iter();
        pods.filter_map(|(key, (shape, own))| {
            let shape = self.shape(*shape)?.clone();
            Some(join(key.clone(), shape, own))
        })
    }

    /// Shapes in the order of their numbers.
    pub(crate) fn shapes(&self) -> &[SharedShape] {
        &self.shapes
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&PodKey, u32, &Own)> {
        let pods = self.pods.iter();
        pods.map(|(key, (shape, own))| (key, *shape, own))
    }

    pub(crate) fn row(&self, key: &PodKey) -> Option<(u32, &Own)> {
        let (shape, own) = self.pods.get(key)?;
        Some((*shape, own))
    }

    /// Adds a shape under the next number.
    pub(crate) fn add_shape(&mut self, shape: SharedShape) {
        self.shapes.push(shape);
    }

    /// Adds a pod with a shape's number. Returns whether the shape is known.
    pub(crate) fn put(&mut self, key: PodKey, shape: u32, own: Own) -> bool {
        let is_known = self.shape(shape).is_some();
        if is_known {
            self.pods.insert(key, (shape, own));
        }
        is_known
    }

    /// Removes unused shapes as soon as they may be half of all. Numbers of shapes change.
    pub fn tidy(&mut self) {
        if self.shapes.len() > COMPACTION_MIN.max(2 * self.compacted) {
            self.compact();
        }
    }

    /// Removes unused shapes, and renumbers the others.
    pub(crate) fn compact(&mut self) {
        let old = std::mem::take(&mut self.shapes);
        self.numbers = Memo::default();
        let mut renumbered: BTreeMap<u32, u32> = BTreeMap::new();
        let mut pods = std::mem::take(&mut self.pods);
        pods.retain(|_, (number, _)| {
            let new = match renumbered.get(number) {
                Some(new) => *new,
                None => {
                    let index = usize::try_from(*number).unwrap_or(usize::MAX);
                    let Some(shape) = old.get(index) else {
                        return false;
                    };
                    let new = self.number(shape.clone());
                    renumbered.insert(*number, new);
                    new
                }
            };
            *number = new;
            true
        });
        self.pods = pods;
        self.compacted = self.shapes.len();
    }

    fn shape(&self, number: u32) -> Option<&SharedShape> {
        self.shapes.get(usize::try_from(number).ok()?)
    }

    fn number(&mut self, shape: SharedShape) -> u32 {
        let next = u32::try_from(self.shapes.len()).unwrap_or(u32::MAX);
        let number = self.numbers.get_or_insert(shape.clone(), next);
        if number == next {
            self.shapes.push(shape);
        }
        number
    }
}

impl Extend<Pod> for Pods {
    fn extend<T: IntoIterator<Item = Pod>>(&mut self, pods: T) {
        for pod in pods {
            self.upsert(pod);
        }
    }
}
