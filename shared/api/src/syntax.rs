//! Syntax of names in Kubernetes: label keys, label values, DNS names.

pub use model::spelling::nearest;

/// Upper bound on the name part of a key, and on a label value, in characters.
pub const NAME_MAX: usize = 63;
/// Upper bound on a DNS subdomain, and so on the prefix of a key, in characters.
pub const SUBDOMAIN_MAX: usize = 253;

/// Description of a qualified name, for messages.
pub const QUALIFIED_NAME: &str = "a name of at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, with an optional DNS prefix such as example.com/name";
/// Description of a label value, for messages.
pub const LABEL_VALUE: &str = "nothing, or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit";

/// Whether `key` has the syntax of label, annotation and taint keys: `name` or `dns.prefix/name`.
pub fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(key),
    }
}

/// Whether `value` has the syntax of a label value, which may be empty.
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

#[cfg(test)]
mod tests {
    use super::*;

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
