//! Conversions from API objects to the types of `model`, and from decisions to API objects.
//!
//! Conversion from API objects is total. Parts that cannot be parsed are omitted and reported in the object's
//! `problems` (pods) or `not_ready` (NodePools) with the field, the value and the expected values, so that one bad
//! object never stops the others.

mod amounts;
mod boot_image;
mod capacity_buffer;
pub mod catalog_file;
mod claim_conditions;
mod devices;
mod node;
mod node_claim;
mod node_pool;
mod patch;
mod pod;
mod pod_requests;
mod selector;
mod storage;
mod workload;

pub use capacity_buffer::{BufferTarget, Scalable, Unresolved, buffer_target, capacity_buffer};
pub use claim_conditions::{ConditionChange, change_conditions};
pub use patch::{NodeClaimPatch, NodePatch};
pub use storage::StorageObjects;

/// Namespace of manifests that specify none.
const DEFAULT_NAMESPACE: &str = "default";

#[cfg(test)]
mod tests;
