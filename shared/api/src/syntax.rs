//! The shapes of names in Kubernetes: label keys, label values, DNS names.

/// The longest name part of a key, and the longest label value.
pub const NAME_MAX: usize = 63;
/// The longest DNS subdomain, which also bounds the prefix of a key.
pub const SUBDOMAIN_MAX: usize = 253;

/// What a qualified name looks like, for messages.
pub const QUALIFIED_NAME: &str = "a name of at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, with an optional DNS prefix such as example.com/name";
/// What a label value looks like, for messages.
pub const LABEL_VALUE: &str = "nothing, or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";

/// `name` or `dns.prefix/name`: the shape of label, annotation and taint keys.
pub fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Also true for the empty value.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name(value)
}

pub fn is_dns_subdomain(name: &str) -> bool {
    !name.is_empty() && name.len() <= SUBDOMAIN_MAX && name.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    label.bytes().all(inner)
        && !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    name.len() <= NAME_MAX
        && name.bytes().all(inner)
        && edge(name.bytes().next())
        && edge(name.bytes().next_back())
}

/// The known word that `word` is most likely a misspelling of: the nearest one within a third of its length in edits, the first
/// of several. Case and separators count as nothing.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |word: &str| -> Vec<char> {
        let word = word.chars().filter(|c| !['-', '_', '.', ' '].contains(c));
        word.flat_map(char::to_lowercase).collect()
    };
    let meant = plain(word);
    // Each comparison costs the product of the lengths.
    if meant.len() > SUBDOMAIN_MAX + NAME_MAX {
        return None;
    }
    let within = meant.len() / 3;
    let candidates = known.into_iter().filter_map(|candidate| {
        let distance = edits(&meant, &plain(candidate));
        (distance <= within).then_some((distance, candidate))
    });
    let nearest = candidates.min_by_key(|(distance, _)| *distance);
    nearest.map(|(_, candidate)| candidate)
}

/// The number of characters to insert, remove, replace or swap with their neighbour that makes one word of the other.
fn edits(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let at =
                |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut best = (at(&row, j) + usize::from(a != b))
                .min(at(&row, j + 1) + 1)
                .min(at(&next, j) + 1);
            let is_swapped =
                i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if is_swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(from.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_named_and_no_word_of_ones_own() {
        let known = [
            "node.kubernetes.io/instance-type",
            "topology.kubernetes.io/zone",
        ];
        let of = |word| nearest(word, known);
        assert_eq!(of("node.kubernetes.io/instancetype"), Some(known[0]));
        assert_eq!(of("topology.kubernetes.io/zome"), Some(known[1]));
        assert_eq!(of("toplogy.kubernetes.io/Zone"), Some(known[1]));
        assert_eq!(of("example.com/team"), None);
        assert_eq!(
            nearest("on_demand", ["spot", "on-demand"]),
            Some("on-demand")
        );
        assert_eq!(nearest("amd46", ["arm64", "amd64"]), Some("amd64"));
        assert_eq!(nearest("", ["a"]), None);
    }

    #[test]
    fn keys_may_have_a_dns_prefix() {
        for key in [
            "a",
            "A-b_c.9",
            "example.com/a",
            "x.y-z.io/App",
            &"k".repeat(63),
        ] {
            assert!(is_qualified_name(key), "{key}");
        }
        for key in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "-a",
            "a-",
            "Example.com/a",
            "a b",
            "ä",
            "a..b/c",
            &"k".repeat(64),
        ] {
            assert!(!is_qualified_name(key), "{key}");
        }
    }

    #[test]
    fn label_values_may_be_empty() {
        for value in ["", "a", "1.2.3", "Upper_case"] {
            assert!(is_label_value(value), "{value}");
        }
        for value in ["a/b", ".a", "a.", "a b", &"v".repeat(64)] {
            assert!(!is_label_value(value), "{value}");
        }
    }
}
