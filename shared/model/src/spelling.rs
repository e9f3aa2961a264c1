//! Suggestions for misspelt names: the nearest known label key, label value, or other word.

use crate::labels::{CAPACITY_TYPE, NODE_POOL};

/// Label keys of other versions and systems, with the equivalent Karpenter key.
const OTHER_KEYS: [(&str, &str); 3] = [
    ("karpenter.sh/provisioner-name", NODE_POOL),
    ("eks.amazonaws.com/capacityType", CAPACITY_TYPE),
    ("node.kubernetes.io/lifecycle", CAPACITY_TYPE),
];

/// Label values of other systems, with the equivalent Kubernetes or Karpenter value.
const OTHER_VALUES: [(&str, &str); 6] = [
    ("aarch64", "arm64"),
    ("arm", "arm64"),
    ("x64", "amd64"),
    ("x86_64", "amd64"),
    ("x86-64", "amd64"),
    ("ondemand", "on-demand"),
];

/// Upper bound on the length of compared words in characters, because a comparison costs the product of both lengths.
/// The longest label key has as many.
const LENGTH_MAX: usize = 316;

/// The known label key that was probably meant by a misspelt one. Considers keys with a similar prefix, and for
/// Kubernetes and Karpenter keys and keys without a prefix also equal names under another prefix. Keys with a prefix of
/// the user's own are not corrected.
pub fn nearest_key<'k>(key: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let other = OTHER_KEYS.iter().find(|(word, _)| *word == key);
    if let Some((_, meant)) = other {
        return Some(meant);
    }
    let (prefix, name) = prefix_and_name(key);
    let known = known
        .into_iter()
        .map(|known| (known, prefix_and_name(known)));
    let known: Vec<_> = known.collect();
    let is_common =
        prefix.is_empty() || prefix.contains("karpenter") || prefix.contains("kubernetes.io");
    let mut same_name = known.iter().filter(|_| is_common);
    let same_name = same_name.find(|(_, (_, known_name))| *known_name == name);
    let is_near = |known_prefix: &str| nearest(prefix, [known_prefix]).is_some();
    let near = || known.iter().filter(|(_, (known, _))| is_near(known));
    let meant = || {
        let meant = nearest(name, near().map(|(_, (_, known_name))| *known_name))?;
        near().find(|(_, (_, known_name))| *known_name == meant)
    };
    same_name.or_else(meant).map(|(known, _)| *known)
}

/// Splits `topology.kubernetes.io/zone` into `topology.kubernetes.io` and `zone`; the prefix is empty if there is none.
fn prefix_and_name(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// The known label value that was probably meant by a misspelt one. Instance types of the same size are preferred,
/// because one letter too many in the family would otherwise match another size.
pub fn nearest_value<'k>(value: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let known: Vec<&str> = known.into_iter().collect();
    let other = OTHER_VALUES.iter().find(|(word, _)| *word == value);
    if let Some(meant) = other.and_then(|(_, meant)| known.iter().find(|known| *known == meant)) {
        return Some(meant);
    }
    if value.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let all = || known.iter().copied();
    let same_size = value.rsplit_once('.').and_then(|(_, size)| {
        let is_same = |known: &&str| known.rsplit_once('.').is_some_and(|(_, own)| own == size);
        nearest(value, all().filter(is_same))
    });
    same_size.or_else(|| nearest(value, all()))
}

/// The known word that `word` most likely misspells: the nearest within an edit distance of a third of its length, and
/// the first of several. Case and separators are ignored.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |word: &str| -> Vec<char> {
        let word = word.chars().filter(|c| !['-', '_', '.', ' '].contains(c));
        word.flat_map(char::to_lowercase).collect()
    };
    let meant = plain(word);
    if meant.len() > LENGTH_MAX {
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

/// Edit distance (Damerau-Levenshtein, optimal string alignment): insertions, deletions, substitutions and swaps of
/// neighbouring characters.
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
    use crate::labels::{INSTANCE_TYPE, ZONE};

    #[test]
    fn nearest_known_word_is_suggested_within_edit_distance() {
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
    fn label_keys_of_other_versions_and_prefixes_are_corrected() {
        let of = |key| nearest_key(key, [INSTANCE_TYPE, NODE_POOL, ZONE]);
        assert_eq!(of("karpenter.sh/provisioner-name"), Some(NODE_POOL));
        assert_eq!(of("karpenter.k8s.aws/instance-type"), Some(INSTANCE_TYPE));
        assert_eq!(of("topology.kubernetes.io/zome"), Some(ZONE));
        assert_eq!(of("toplogy.kubernetes.io/zone"), Some(ZONE));
        assert_eq!(of("zone"), Some(ZONE));
    }

    #[test]
    fn custom_label_keys_are_not_corrected() {
        let known = [INSTANCE_TYPE, NODE_POOL, ZONE, "kubernetes.io/os", "team"];
        for own in [
            "type",
            "pool",
            "tier",
            "example.com/zone",
            "mycorp.io/os",
            "example.com/",
            "kubernetes.io/role",
            "",
        ] {
            assert_eq!(nearest_key(own, known), None, "{own}");
        }
        assert_eq!(nearest_key("teams", known), Some("team"));
    }

    #[test]
    fn values_of_other_systems_are_corrected_and_same_size_is_preferred() {
        let types = ["m5.large", "m5.xlarge", "c5.large"];
        assert_eq!(nearest_value("m55.large", types), Some("m5.large"));
        assert_eq!(nearest_value("x86_64", ["amd64", "arm64"]), Some("amd64"));
        assert_eq!(
            nearest_value("us-east-1", ["us-east-1a"]),
            Some("us-east-1a")
        );
        assert_eq!(nearest_value("12", ["1"]), None);
    }
}
