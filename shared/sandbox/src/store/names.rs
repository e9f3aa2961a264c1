/// Unique identifiers and name suffixes from a seed, so that a run can be repeated.
#[derive(Debug)]
pub(super) struct Identifiers {
    state: u64,
}

/// Letters of generated names: no vowels, so that no words appear.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

impl Identifiers {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// SplitMix64: every state gives a different number, so identifiers never repeat.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn uid(&mut self) -> String {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        let hex = format!("{bits:032x}");
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        format!(
            "{}-{}-4{}-8{}-{}",
            part(0, 8),
            part(8, 12),
            part(13, 16),
            part(17, 20),
            part(20, 32)
        )
    }

    pub(super) fn suffix(&mut self) -> String {
        let mut bits = self.next();
        (0..SUFFIX_LENGTH)
            .map(|_| {
                let letters = SUFFIX_LETTERS.len() as u64;
                let at = usize::try_from(bits % letters).unwrap_or_default();
                bits /= letters;
                SUFFIX_LETTERS.get(at).copied().map_or('x', char::from)
            })
            .collect()
    }
}

/// Longest object name: a DNS-1123 subdomain.
const NAME_LENGTH: usize = 253;

/// Returns whether a text is a DNS-1123 subdomain, as most object names must be.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= NAME_LENGTH
        && text.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}
