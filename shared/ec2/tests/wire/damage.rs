//! Damage to answers, by a generator that is deterministic for a seed.

/// Marsaglia's xorshift generator.
pub(crate) struct Damage(u64);

/// Values that no number of an answer should have.
const NUMBERS: &[&str] = &[
    "",
    "-1",
    "0",
    "2147483647",
    "2147483648",
    "-2147483649",
    "99999999999999999999",
    "1e400",
    "NaN",
    "0x10",
    "٣",
];
/// Values that no text of an answer should have.
const TEXTS: &[&str] = &[
    "",
    " ",
    "nobody-knows",
    "2026-13-32T25:61:61Z",
    "\u{0}",
    "&lt;a&gt;",
    "<item/>",
    "\u{1f980}",
    "true",
];

impl Damage {
    pub(crate) fn new(seed: u64, call: usize) -> Self {
        let call = u64::try_from(call).unwrap();
        let mut damage = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (call + 1));
        for _ in 0..4 {
            damage.next();
        }
        damage
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    fn one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.below(texts.len())]
    }

    /// The status and text of an answer; about half of the answers stay undamaged.
    pub(crate) fn of(&mut self, answer: &str) -> (u16, String) {
        let mut answer = answer.to_owned();
        if self.below(2) == 0 {
            return (200, answer);
        }
        for _ in 0..=self.below(4) {
            answer = self.once(&answer);
        }
        let status = [200, 200, 200, 200, 204, 400, 403, 500, 503][self.below(9)];
        (status, answer)
    }

    fn once(&mut self, answer: &str) -> String {
        match self.below(5) {
            0 => {
                let (from, to) = self.range(answer);
                format!("{}{}", &answer[..from], &answer[to..])
            }
            1 => {
                let (from, to) = self.range(answer);
                format!("{}{}", &answer[..to], &answer[from..])
            }
            2 => answer[..self.boundary(answer)].to_owned(),
            3 => self.replaced(answer, |c| c.is_ascii_digit(), NUMBERS),
            _ => self.replaced(answer, |c| !"<>\"{}".contains(c), TEXTS),
        }
    }

    /// Replaces a run of characters by something else.
    fn replaced(&mut self, answer: &str, is_part: impl Fn(char) -> bool, by: &[&str]) -> String {
        let at = self.boundary(answer);
        let Some(from) = answer[at..].find(&is_part).map(|found| at + found) else {
            return answer.to_owned();
        };
        let length = answer[from..].find(|c| !is_part(c));
        let to = length.map_or(answer.len(), |length| from + length);
        let from = answer[..from].rfind(|c| !is_part(c)).map_or(0, |before| {
            let mut after = before + 1;
            while !answer.is_char_boundary(after) {
                after += 1;
            }
            after
        });
        format!("{}{}{}", &answer[..from], self.one_of(by), &answer[to..])
    }

    fn range(&mut self, answer: &str) -> (usize, usize) {
        let (first, second) = (self.boundary(answer), self.boundary(answer));
        (first.min(second), first.max(second))
    }

    fn boundary(&mut self, answer: &str) -> usize {
        let mut at = self.below(answer.len() + 1);
        while !answer.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}
