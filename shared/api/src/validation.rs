//! Runtime validation of objects: rules that a schema cannot express, and objects stored without schema validation.
//!
//! Each check returns all problems. NodePools: docs/spec/scheduling.md#node-pool-validation. NodeOverlays:
//! docs/spec/lifecycle.md#node-overlay. EC2NodeClasses: docs/spec/aws.md#ec2-node-class-fields,
//! docs/spec/aws.md#ec2-node-class-refusals.

mod ec2_node_class;
mod node_overlay;
mod node_pool;
mod requirement;

use std::fmt;

pub use ec2_node_class::ec2_node_class;
pub use node_overlay::node_overlay;
pub use node_pool::node_pool;
pub use requirement::requirement;

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
