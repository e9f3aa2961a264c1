//! Port of Go's `sort.Slice`, for the order in which it leaves equal elements.
//!
//! The sort is a pattern-defeating quicksort: not stable, but deterministic. Upstream sorts types by price alone and keeps
//! the first 600. If types of equal price lie on both sides of that cut, the sort decides which of them are kept.
#![expect(
    clippy::indexing_slicing,
    reason = "every index lies within the bounds passed to the sort"
)]

/// Sorts by key with exactly the element moves of Go.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    let attempts = usize::BITS - items.len().leading_zeros();
    let end = items.len();
    let less = |a: &T, b: &T| key(a) < key(b);
    Sorting { items, less }.quick(0, end, attempts);
}

/// Length up to which ranges are sorted by insertion.
const SHORT: usize = 12;
/// Length from which the pivot is a median of medians, and a few misplaced elements are moved one by one.
const LONG: usize = 50;
/// Upper bound on misplaced elements that are moved while a range looks sorted, as in Go's `sort`.
const MISPLACED: usize = 5;
/// Comparisons in choosing a pivot. If all of them are inverted, the range looks descending.
const COMPARISONS: u32 = 12;

/// Range being sorted, with Go's `less` function.
struct Sorting<'a, T, L> {
    items: &'a mut [T],
    less: L,
}

impl<T, L: Fn(&T, &T) -> bool> Sorting<'_, T, L> {
    fn quick(&mut self, mut from: usize, mut to: usize, mut attempts: u32) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = to - from;
            if length <= SHORT {
                return self.insertion(from, to);
            }
            if attempts == 0 {
                return self.heap(from, to);
            }
            if !balanced {
                self.shuffle(from, to);
                attempts -= 1;
            }
            let (mut pivot, reversed) = self.pivot(from, to);
            if reversed == COMPARISONS {
                self.items[from..to].reverse();
                pivot = (to - 1) - (pivot - from);
            }
            let looks_sorted = reversed == 0 || reversed == COMPARISONS;
            if balanced && partitioned && looks_sorted && self.put_right(from, to) {
                return;
            }
            if from > 0 && !self.less(from - 1, pivot) {
                from = self.partition_equal(from, to, pivot);
                continue;
            }
            let middle;
            (middle, partitioned) = self.partition(from, to, pivot);
            let (left, right) = (middle - from, to - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.quick(from, middle, attempts);
                from = middle + 1;
            } else {
                self.quick(middle + 1, to, attempts);
                to = middle;
            }
        }
    }

    fn less(&self, a: usize, b: usize) -> bool {
        (self.less)(&self.items[a], &self.items[b])
    }

    fn insertion(&mut self, from: usize, to: usize) {
        for at in from + 1..to {
            self.sink(at, from);
        }
    }

    /// Moves an element down to its position, at most to `floor`.
    fn sink(&mut self, mut at: usize, floor: usize) {
        while at > floor && self.less(at, at - 1) {
            self.items.swap(at, at - 1);
            at -= 1;
        }
    }

    fn heap(&mut self, from: usize, to: usize) {
        let length = to - from;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift(root, length, from);
        }
        for last in (0..length).rev() {
            self.items.swap(from, from + last);
            self.sift(0, last, from);
        }
    }

    fn sift(&mut self, mut root: usize, length: usize, from: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.less(from + child, from + child + 1) {
                child += 1;
            }
            if !self.less(from + root, from + child) {
                return;
            }
            self.items.swap(from + root, from + child);
            root = child;
        }
    }

    /// Breaks up a pattern that led to an unbalanced partition. The length is the seed.
    fn shuffle(&mut self, from: usize, to: usize) {
        let length = to - from;
        let mask = (1_usize << (usize::BITS - length.leading_zeros())) - 1;
        let mut random = length as u64;
        let first = from + (length / 4) * 2 - 1;
        for at in first..first + 3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = usize::try_from(random & mask as u64).unwrap_or(0);
            let other = if other >= length {
                other - length
            } else {
                other
            };
            self.items.swap(at, from + other);
        }
    }

    /// Index of the pivot, and the number of inverted comparisons.
    fn pivot(&self, from: usize, to: usize) -> (usize, u32) {
        let length = to - from;
        let quarter = length / 4;
        let mut reversed = 0;
        let [first, second, third] =
            [from + quarter, from + 2 * quarter, from + 3 * quarter].map(|at| {
                if length >= LONG {
                    self.median([at - 1, at, at + 1], &mut reversed)
                } else {
                    at
                }
            });
        let pivot = self.median([first, second, third], &mut reversed);
        (pivot, reversed)
    }

    fn median(&self, [mut a, mut b, mut c]: [usize; 3], reversed: &mut u32) -> usize {
        let mut order = |low: &mut usize, high: &mut usize| {
            if self.less(*high, *low) {
                *reversed += 1;
                std::mem::swap(low, high);
            }
        };
        order(&mut a, &mut b);
        order(&mut b, &mut c);
        order(&mut a, &mut b);
        b
    }

    /// Whether the range is sorted after moving at most a few elements.
    fn put_right(&mut self, from: usize, to: usize) -> bool {
        let mut at = from + 1;
        for _ in 0..MISPLACED {
            while at < to && !self.less(at, at - 1) {
                at += 1;
            }
            if at == to {
                return true;
            }
            if to - from < LONG {
                return false;
            }
            self.items.swap(at, at - 1);
            if at - from >= 2 {
                self.sink(at - 1, 0);
            }
            if to - at >= 2 {
                self.rise(at, to);
            }
        }
        false
    }

    /// Moves an element up to its position, below `to`.
    fn rise(&mut self, at: usize, to: usize) {
        for above in at + 1..to {
            if !self.less(above, above - 1) {
                return;
            }
            self.items.swap(above, above - 1);
        }
    }

    /// Moves elements smaller than the pivot to its left. Returns the pivot's index, and whether nothing had to move.
    fn partition(&mut self, from: usize, to: usize, pivot: usize) -> (usize, bool) {
        self.items.swap(from, pivot);
        let (mut left, mut right) = (from + 1, to - 1);
        let mut moved = false;
        loop {
            while left <= right && self.less(left, from) {
                left += 1;
            }
            while left <= right && !self.less(right, from) {
                right -= 1;
            }
            if left > right {
                break;
            }
            self.items.swap(left, right);
            left += 1;
            right -= 1;
            moved = true;
        }
        self.items.swap(right, from);
        (right, !moved)
    }

    /// Moves elements equal to the pivot to its left, where none is smaller. Returns the index of the first greater
    /// element.
    fn partition_equal(&mut self, from: usize, to: usize, pivot: usize) -> usize {
        self.items.swap(from, pivot);
        let (mut left, mut right) = (from + 1, to - 1);
        loop {
            while left <= right && !self.less(from, left) {
                left += 1;
            }
            while left <= right && self.less(from, right) {
                right -= 1;
            }
            if left > right {
                return left;
            }
            self.items.swap(left, right);
            left += 1;
            right -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Sorting, sort_by_key};

    /// Linear congruential generator; returns numbers below the argument.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state: u64 = 42;
        move |modulus| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % modulus
        }
    }

    /// List with many equal keys.
    fn keys(length: usize, modulus: u64) -> Vec<u64> {
        let mut next = numbers();
        (0..length).map(|_| next(modulus)).collect()
    }

    /// Hash of the previous positions of the elements.
    fn digest(order: &[(u64, usize)]) -> u64 {
        digest_on(7, order)
    }

    fn digest_on(begun: u64, order: &[(u64, usize)]) -> u64 {
        let hash =
            |hash: u64, (_, at): &(u64, usize)| hash.wrapping_mul(31).wrapping_add(*at as u64);
        order.iter().fold(begun, hash)
    }

    fn sorted(keys: &[u64]) -> Vec<(u64, usize)> {
        let mut items: Vec<_> = keys.iter().copied().zip(0..).collect();
        sort_by_key(&mut items, |(key, _)| *key);
        assert!(items.is_sorted_by_key(|(key, _)| *key));
        items
    }

    /// The digests were computed by a Go program with `sort.Slice` on the same lists.
    #[test]
    fn equal_elements_are_ordered_as_by_go() {
        for (length, modulus, expected) in [
            (12, 3, 5_595_604_167_470_620_633),
            (40, 5, 3_884_554_278_428_203_117),
            (200, 10, 14_181_096_452_563_803_891),
            (1_000, 40, 17_929_703_617_904_031_875),
            (5_000, 3, 1_354_796_970_042_983_907),
        ] {
            assert_eq!(
                digest(&sorted(&keys(length, modulus))),
                expected,
                "{length}"
            );
        }
    }

    /// Half of the lists are sorted except for a few elements.
    #[test]
    fn thousands_of_lists_are_ordered_as_by_go() {
        let mut next = numbers();
        let mut below = |limit: usize| usize::try_from(next(limit as u64)).unwrap();
        let mut hash = 7;
        for _ in 0..3_000 {
            let length = 13 + below(300);
            let modulus = [2, 3, 7, 20, 100, 1_000][below(6)];
            let mut keys: Vec<u64> = (0..length).map(|_| below(modulus) as u64).collect();
            if below(2) == 1 {
                keys.sort_unstable();
                for _ in 0..below(7) {
                    keys.swap(below(length), below(length));
                }
            }
            hash = digest_on(hash, &sorted(&keys));
        }
        assert_eq!(hash, 15_276_283_936_008_264_527);
    }

    #[test]
    fn rising_falling_and_mixed_lists_are_ordered_as_by_go() {
        let rising = |at: u64| at / 3;
        let falling = |at: u64| 400 - at / 3;
        let organ = |at: u64| at.min(700 - at) / 4;
        let saw = |at: u64| at % 90;
        for (of, expected) in [
            (rising as fn(u64) -> u64, 8_317_108_146_184_683_749),
            (falling, 9_318_623_511_696_497_449),
            (organ, 17_532_681_930_585_338_219),
            (saw, 4_828_333_065_968_151_669),
        ] {
            let keys: Vec<u64> = (0..700).map(of).collect();
            assert_eq!(digest(&sorted(&keys)), expected);
        }
    }

    /// Keys on which this sort partitions as badly as it can, found by McIlroy's adversary: it decides comparisons only
    /// when asked, always so that the pivot is small.
    fn worst(length: usize) -> Vec<u64> {
        let gas = length as u64;
        let known = RefCell::new((vec![gas; length], 0, 0));
        let less = |x: &usize, y: &usize| {
            let (values, solid, candidate) = &mut *known.borrow_mut();
            if values[*x] == gas && values[*y] == gas {
                // The first elements alternate, because a range that looks sorted is not partitioned.
                let mixes = *solid < 12 && *solid % 2 == 1;
                let frozen = if *x == *candidate || mixes { *x } else { *y };
                values[frozen] = *solid;
                *solid += 1;
            }
            if values[*x] == gas {
                *candidate = *x;
            } else if values[*y] == gas {
                *candidate = *y;
            }
            values[*x] < values[*y]
        };
        let mut items: Vec<usize> = (0..length).collect();
        let attempts = usize::BITS - length.leading_zeros();
        let items = items.as_mut_slice();
        Sorting { items, less }.quick(0, length, attempts);
        known.into_inner().0
    }

    /// Keys are equal only in the range that heapsort sorts, so partitioning stays unbalanced before.
    #[test]
    fn unevenly_partitioned_lists_are_ordered_as_by_go() {
        for (length, alike, expected) in [
            (60, 1, 4_043_065_565_857_920_019),
            (60, 3, 8_665_867_253_665_474_835),
            (500, 1, 7_422_634_557_344_577_335),
            (500, 3, 1_850_486_105_114_424_601),
            (3_000, 1, 15_338_546_093_699_453_867),
            (3_000, 3, 18_041_138_298_785_124_003),
        ] {
            let late = length as u64 / 2;
            let key = |key: u64| key.min(late) + key.saturating_sub(late) / alike;
            let keys: Vec<u64> = worst(length).into_iter().map(key).collect();
            assert_eq!(digest(&sorted(&keys)), expected, "{length}, {alike}");
        }
    }
}
