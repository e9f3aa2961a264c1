//! What the search tries next: a sequence without a pattern, but always the same one, so that equal questions have equal
//! answers.

pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new() -> Self {
        Self(0)
    }

    /// One of the numbers below `limit`; 0 if there is none. (SplitMix64, which has a period of 2⁶⁴.)
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // Of the upper half, so that the product does not overflow.
        let limit = u64::try_from(limit).unwrap_or(u64::from(u32::MAX));
        usize::try_from(((mixed >> 32) * limit) >> 32).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, limit: usize) -> bool {
        self.below(limit) == 0
    }
}
