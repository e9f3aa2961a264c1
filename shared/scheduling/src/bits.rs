//! Bit sets of small integers, mostly rows of instance types.

/// Set of small integers, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BitSet(Box<[u64]>);

impl BitSet {
    pub(crate) fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)].into_boxed_slice())
    }

    pub(crate) fn all(len: usize) -> Self {
        let mut bits = Self::none(len);
        for at in 0..len {
            bits.insert(at);
        }
        bits
    }

    /// Copies a set of the same capacity without allocating.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }

    pub(crate) fn insert(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(crate) fn remove(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.0
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    pub(crate) fn and(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    pub(crate) fn or(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    /// Removes the members of `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// First common member of all sets, from `from` on.
    pub(crate) fn first_in_all(&self, others: &[&Self], from: usize) -> Option<usize> {
        let words = self.0.iter().enumerate().skip(from / 64);
        let mut common = words.map(|(at, word)| {
            let shared = |word, other: &&Self| word & other.0.get(at).copied().unwrap_or(0);
            let word = others.iter().fold(*word, shared);
            let unasked = if at == from / 64 { from % 64 } else { 0 };
            (at, word & u64::MAX << unasked)
        });
        let (at, word) = common.find(|(_, word)| *word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// Members in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_common_member_is_found() {
        let of = |members: &[usize]| {
            let mut bits = BitSet::none(200);
            members.iter().for_each(|at| bits.insert(*at));
            bits
        };
        let (own, all) = (of(&[3, 70, 130, 190]), BitSet::all(200));
        let other = of(&[70, 130, 191]);
        let first = |from| own.first_in_all(&[&all, &other], from);
        assert_eq!(
            [0, 70, 71, 131].map(first),
            [Some(70), Some(70), Some(130), None]
        );
        assert_eq!(own.first_in_all(&[], 191), None);
    }

    #[test]
    fn members_are_iterated_in_ascending_order() {
        let mut bits = BitSet::none(200);
        for at in [199, 0, 64, 63] {
            bits.insert(at);
        }
        bits.remove(63);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 64, 199]);
        assert!(BitSet::all(65).contains(64) && !BitSet::all(65).contains(65));
    }
}
