//! Runtime validation of objects: rules that a schema cannot express, and objects stored without schema validation.
//!
//! Each check returns all problems. NodePools: docs/spec/scheduling.md#node-pool-validation. NodeOverlays:
//! docs/spec/lifecycle.md#node-overlay. EC2NodeClasses: docs/spec/aws.md#ec2-node-class-fields,
//! docs/spec/aws.md#ec2-node-class-refusals.

mod ec2_node_class;
mod node_overlay;
mod node_pool;
mod problem;
mod requirement;

pub use ec2_node_class::ec2_node_class;
pub use node_overlay::node_overlay;
pub use node_pool::node_pool;
pub use problem::Problem;
pub use requirement::requirement;
