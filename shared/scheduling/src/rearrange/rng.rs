//! Random numbers of the search, from a constant seed, so that equal requests have equal results.

/// SplitMix64 generator.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// Random number below `limit`; 0 if `limit` is 0. The generator is SplitMix64, with a period of 2⁶⁴.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The upper 32 bits, so that the product does not overflow.
        let limit = u64::try_from(limit).unwrap_or(u64::from(u32::MAX));
        usize::try_from(((mixed >> 32) * limit) >> 32).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference sequence for seed 0, in the upper 32 bits.
    #[test]
    fn numbers_are_those_of_splitmix64() {
        let mut rng = Rng::new();
        let drawn = [(); 4].map(|()| rng.below(1 << 32));
        assert_eq!(drawn, [0xe220_a839, 0x6e78_9e6a, 0x06c4_5d18, 0xf88b_b8a8]);
    }

    #[test]
    fn numbers_are_uniform_below_the_limit() {
        let mut rng = Rng::new();
        let drawn: Vec<usize> = (0..300).map(|_| rng.below(3)).collect();
        assert!((0..3).all(|value| drawn.iter().filter(|drawn| **drawn == value).count() > 80));
        assert!(drawn.iter().all(|drawn| *drawn < 3));
        assert_eq!((rng.below(1), rng.below(0)), (0, 0));
        let hits = (0..300).filter(|_| rng.one_in(3)).count();
        assert!((80..120).contains(&hits), "{hits}");
    }
}
