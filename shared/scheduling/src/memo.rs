//! A table from `u64` keys to `u32` values that is only ever looked up, never iterated, so its order cannot leak.

/// Open addressing with linear probing; never more than half full.
#[derive(Default)]
pub(crate) struct Memo {
    slots: Vec<(u64, u32)>,
    len: usize,
}

/// Marks a free slot; no pair of ids reaches it.
const FREE: u64 = u64::MAX;
const SMALLEST: usize = 64;

impl Memo {
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = spread(key) & mask;
        loop {
            let (found, value) = *self.slots.get(at)?;
            if found == key {
                return Some(value);
            }
            if found == FREE {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    pub(crate) fn insert(&mut self, key: u64, value: u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = spread(key) & mask;
        while let Some(slot) = self.slots.get_mut(at) {
            if slot.0 == FREE || slot.0 == key {
                self.len += usize::from(slot.0 == FREE);
                *slot = (key, value);
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(SMALLEST);
        let old = std::mem::replace(&mut self.slots, vec![(FREE, 0); size]);
        self.len = 0;
        for (key, value) in old {
            if key != FREE {
                self.insert(key, value);
            }
        }
    }
}

/// The key for a pair of ids.
pub(crate) fn pair(a: u32, b: u32) -> u64 {
    u64::from(a) << 32 | u64::from(b)
}

fn spread(key: u64) -> usize {
    // Fibonacci hashing: the high bits of the product are well mixed.
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_found_and_nothing_else() {
        let mut memo = Memo::default();
        for n in 0..1_000 {
            memo.insert(pair(n, n * 7), n);
        }
        memo.insert(pair(3, 21), 99);
        assert_eq!(memo.get(pair(3, 21)), Some(99));
        assert_eq!(memo.get(pair(999, 6_993)), Some(999));
        assert_eq!(memo.get(pair(999, 6_994)), None);
    }
}
