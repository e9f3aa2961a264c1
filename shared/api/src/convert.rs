//! From objects as the API server holds them to the nouns of `model`, and from decisions back to API objects.
//!
//! Reading is total: whatever a user wrote, there is a result. What cannot be understood is left out and said so in the
//! object's own `problems` (pods) or `not_ready` (NodePools), with the field, the value and what is allowed, so that one bad
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

pub use capacity_buffer::{Pattern, Scalable, Unresolved, capacity_buffer, pattern};
pub use claim_conditions::{ConditionChange, change_conditions};
pub use patch::{NodeClaimPatch, NodePatch};
pub use storage::StorageObjects;

/// Where manifests that name no namespace go.
const DEFAULT_NAMESPACE: &str = "default";

#[cfg(test)]
mod tests;
