//! Decides what to do about a cluster: a [`model::Snapshot`] goes in, a [`model::Plan`] comes out, as data with reasons.
//!
//! Everything here is pure and total: no clock (the snapshot has its `now`), randomness, environment or I/O, and whatever is
//! wrong with one object, the others are planned for. This crate must never depend on an adapter, an SDK or a runtime.

mod claim_conditions;
mod decision;
mod digest;
mod disrupt;
mod inventory;
mod lifecycle;
mod managed;
mod measurements;
mod node_pool_hash;
mod pods;
mod provision;
mod terminate;
#[cfg(test)]
mod test_world;

pub use decision::Decision;
pub use disrupt::empty;
pub use inventory::{Inventory, Machine};
pub use lifecycle::lifecycle;
pub use measurements::measurements;
pub use node_pool_hash::{NODE_POOL_HASH_VERSION, node_pool_hash};
pub use pods::is_reschedulable;
pub use provision::{Share, provision, provision_with};
pub use terminate::{Gone, terminate};
