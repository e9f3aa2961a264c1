use std::collections::BTreeMap;

use model::{Memo, PodKey, SharedShape, pod::Pod};

use crate::shape::{Own, join, split};

/// So many shapes are kept at least before it is asked which of them no pod has any more.
const SHAPES_MIN: usize = 1_000;

/// Many pods in little room: what those of one owner have in common is kept once.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    shapes: Vec<SharedShape>,
    numbers: Memo<SharedShape, u32>,
    pods: BTreeMap<PodKey, (u32, Own)>,
    /// How many shapes there were when those that no pod has any more were last forgotten.
    compacted: usize,
}

impl Pods {
    /// A pod is as shown. Whether that is new.
    pub fn see(&mut self, pod: Pod) -> bool {
        let (key, shape, own) = split(pod);
        let seen = (self.number(shape), own);
        let is_new = self.pods.get(&key) != Some(&seen);
        if is_new {
            self.pods.insert(key, seen);
        }
        is_new
    }

    /// A pod is gone. Whether it was there.
    pub fn lose(&mut self, key: &PodKey) -> bool {
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

    /// Whole pods, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = Pod> {
        let pods = self.pods.iter();
        pods.filter_map(|(key, (shape, own))| {
            let shape = self.shape(*shape)?.clone();
            Some(join(key.clone(), shape, own))
        })
    }

    /// In the order of their numbers.
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

    /// Puts a pod of a known shape there. Whether the shape is known.
    pub(crate) fn put(&mut self, key: PodKey, shape: u32, own: Own) -> bool {
        let is_known = self.shape(shape).is_some();
        if is_known {
            self.pods.insert(key, (shape, own));
        }
        is_known
    }

    /// Forgets shapes that no pod has any more, as soon as they may be half of all. Numbers of shapes change.
    pub fn tidy(&mut self) {
        if self.shapes.len() > SHAPES_MIN.max(2 * self.compacted) {
            self.compact();
        }
    }

    /// Forgets shapes that no pod has any more, and numbers the others anew.
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
            self.see(pod);
        }
    }
}
