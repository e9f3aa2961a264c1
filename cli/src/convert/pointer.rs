//! Steps of JSON pointers.

/// A key escaped as a step of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

pub(super) fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
