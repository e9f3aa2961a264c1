use std::fmt;

/// An invalid value in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `spec.template.spec.requirements[0].operator`.
    pub field: String,
    /// The invalid value; empty if the field is missing.
    pub value: String,
    /// Description of the allowed values.
    pub allowed: String,
}

impl Problem {
    pub fn new(
        field: impl Into<String>,
        value: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            value: value.into(),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            field,
            value,
            allowed,
        } = self;
        if value.is_empty() {
            write!(f, "{field}: must not be empty: expected {allowed}")
        } else {
            write!(f, "{field}: \"{value}\" is not allowed: expected {allowed}")
        }
    }
}
