//! Bit sets.

/// A set of indexes below a fixed size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn none(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    pub(crate) fn of(size: usize, is_in: impl FnMut(&usize) -> bool) -> Self {
        let mut bits = Self::none(size);
        (0..size).filter(is_in).for_each(|index| bits.insert(index));
        bits
    }

    pub(crate) fn insert(&mut self, index: usize) {
        if let Some(word) = self.0.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0
            .get(index / 64)
            .is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let lowest = left.trailing_zeros() as usize;
                (left != 0).then(|| {
                    left &= left - 1;
                    at * 64 + lowest
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_larger_than_a_word_contain_inserted_indexes() {
        let set = |held: &[usize]| Bits::of(130, |index| held.contains(index));
        assert_eq!(set(&[1, 64, 129]).iter().collect::<Vec<_>>(), [1, 64, 129]);
        assert!(set(&[3, 70]).overlaps(&set(&[70, 80])));
        assert!(!set(&[3, 70]).overlaps(&set(&[4, 71])));
        assert!(set(&[]).is_empty());
        assert!(!set(&[128]).is_empty());
    }
}
