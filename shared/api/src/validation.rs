//! Checks of objects at run time: what a schema cannot say, and what reaches us past one.
//!
//! Each check returns everything it finds. NodePools: docs/spec/scheduling.md#node-pool-validation. NodeOverlays:
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

/// Something in an object that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `spec.template.spec.requirements[0].operator`.
    pub field: String,
    /// What stands there; empty if nothing does.
    pub value: String,
    /// What may stand there.
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
