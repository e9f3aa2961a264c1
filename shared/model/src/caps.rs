//! What launches may come to at most, in the words of whoever pays for them (docs/operations.md).

use serde::{Deserialize, Serialize};

use crate::{catalog::NanosPerHour, node_pool::NodePool};

/// Most that nodes may cost and number. Nodes on their way out do not count, so that what replaces them never waits for a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    pub price: Option<NanosPerHour>,
    pub nodes: Option<u32>,
}

impl Caps {
    /// On a NodePool: the most dollars that its nodes may cost an hour. Their number has `spec.limits.nodes`.
    pub const ANNOTATION: &str = "whittle.sh/max-dollars-per-hour";
    pub const DOLLARS: &str = "dollars, such as \"12.50\"";

    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// A NodePool's own. A value that cannot be read is no cap: the NodePool is not valid, and nothing is launched for it.
    pub fn of_pool(pool: &NodePool) -> Self {
        let text = pool.annotations.get(Self::ANNOTATION);
        Self {
            price: text.and_then(|text| NanosPerHour::from_dollars(text)),
            nodes: None,
        }
    }
}

impl NanosPerHour {
    /// Whole dollars, at most a million, and up to nine decimal places.
    pub fn from_dollars(text: &str) -> Option<Self> {
        const DOLLAR: i64 = 1_000_000_000;
        const MOST: i64 = 1_000_000;
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || decimals.len() > 9 || !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let whole: i64 = whole.parse().ok().filter(|whole| *whole <= MOST)?;
        let decimals: i64 = format!("{decimals:0<9}").parse().ok()?;
        Some(Self(whole * DOLLAR + decimals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_as_people_write_them() {
        let read = |text| NanosPerHour::from_dollars(text).map(|price| price.0);
        assert_eq!(read("12.5"), Some(12_500_000_000));
        assert_eq!(read("0"), Some(0));
        assert_eq!(read("1000000"), Some(1_000_000_000_000_000));
        for bad in ["", "-1", "1e3", ".5", "1.0000000001", "1000001", "$3", "1 "] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
