//! Sets of small integers as words of bits: instance types that are still possible.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
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

    /// Becomes what a set of the same size is.
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

    /// Takes the members of `other` away.
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

    /// What it has in common with all of these, ascending, beginning with `from`.
    pub(crate) fn common<'b>(
        &'b self,
        others: [&'b Self; 3],
        from: usize,
    ) -> impl Iterator<Item = usize> + 'b {
        let [first, second, third] = others;
        let words = self.0.iter().zip(&first.0).zip(&second.0).zip(&third.0);
        let words = words.enumerate().skip(from / 64);
        words.flat_map(move |(at, (((own, first), second), third))| {
            let mut left = own & first & second & third;
            if at == from / 64 {
                left &= u64::MAX << (from % 64);
            }
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    at * 64 + bit
                })
            })
        })
    }

    /// The members, ascending.
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
    fn members_come_back_in_order() {
        let mut bits = Bits::none(200);
        for at in [199, 0, 64, 63] {
            bits.insert(at);
        }
        bits.remove(63);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [0, 64, 199]);
        assert!(Bits::all(65).contains(64) && !Bits::all(65).contains(65));
    }
}
