//! Singular and plural forms in messages.

use std::fmt::Display;

/// Returns the number with its noun: `1 node`, `2 nodes`.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let plural = singular_or_plural(&number, "", "s");
    format!("{number} {noun}{plural}")
}

/// Returns the word that goes with the number: `1 node is`, `2 nodes are`.
pub fn singular_or_plural<'w, N: PartialEq + From<u8>>(
    number: &N,
    one: &'w str,
    many: &'w str,
) -> &'w str {
    if *number == N::from(1) { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_the_only_number_with_a_singular() {
        assert_eq!(counted(0_usize, "node"), "0 nodes");
        assert_eq!(counted(1_u32, "node"), "1 node");
        assert_eq!(counted(2_i64, "node"), "2 nodes");
        assert_eq!(singular_or_plural(&1_u64, "is", "are"), "is");
        assert_eq!(singular_or_plural(&2_u64, "is", "are"), "are");
    }
}
