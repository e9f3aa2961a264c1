//! Names of objects, and names in commands.

/// A word in quotes, if a shell needs them.
pub(super) fn shell_word(word: &str) -> String {
    let quoted = shlex::try_quote(word).unwrap_or_default();
    quoted.into_owned()
}

/// Upper bound on the length of a NodePool's name, which is the value of a label.
const NAME_MAX: usize = 63;

/// A valid name for a NodePool.
pub(super) fn object_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let plain = lower.replace(
        |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.',
        "-",
    );
    let plain = plain.trim_matches(['-', '.']);
    let short = plain.get(..NAME_MAX).unwrap_or(plain);
    short.trim_end_matches(['-', '.']).to_owned()
}

/// The common prefix of two names, up to a separator; the first name if there is none.
pub(super) fn common_prefix(first: &str, second: &str) -> String {
    let shared = first
        .bytes()
        .zip(second.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let start = first.get(..shared).unwrap_or_default();
    let start = start
        .rfind(['-', '_', '.'])
        .and_then(|end| start.get(..end))
        .unwrap_or(start);
    match start.is_empty() {
        true => first.to_owned(),
        false => start.to_owned(),
    }
}
