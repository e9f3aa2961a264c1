//! Plans what to do about a cluster: from a [`model::Snapshot`] to a [`model::Plan`], as data with reasons.
//!
//! All functions are pure and total: no clock (the snapshot has its `now`), randomness, environment or I/O. An invalid object
//! does not prevent planning for the others. This crate must never depend on an adapter, an SDK or a runtime.

mod by_instance;
mod claim_conditions;
mod decision;
mod digest;
mod disrupt;
mod do_not_disrupt;
#[cfg(test)]
mod fixtures;
mod freed;
mod inventory;
mod lifecycle;
mod machine;
mod managed;
mod measurements;
mod node_pool_hash;
mod orchestration;
mod pdb_limits;
mod pods;
mod pods_of_nodes;
mod provision;
mod registration_health;
mod repair;
mod replaced;
mod share;
mod static_capacity;
mod terminate;
mod unmanaged;

pub use decision::{About, Decision, Note};
pub use disrupt::{
    Alternative, BalancedVerdict, Blocked, Command, DeletionCost, DisruptionResult, Method,
    NodeDeletionCosts, NodeReport, POD_DELETION_COST_GATE, PoolBudget, Reason, Rejection,
    VALIDATED_AFTER, deletion_costs, disrupt, disrupt_at_any_price, disrupt_within, eligible_nodes,
    newly_empty, node_reports, pool_budgets, simulate_apply, validate, validation_wait,
};
pub use do_not_disrupt::{do_not_disrupt_notes, must_not_be_disrupted};
pub use freed::await_freed_instance;
pub use inventory::{Inventory, StateNode, any_leaves, overdue_at};
pub use lifecycle::{Timeouts, lifecycle, lifecycle_with};
pub use measurements::measurements;
pub use node_pool_hash::{NODE_POOL_HASH_VERSION, node_pool_hash};
pub use orchestration::{Advance, advance, forgotten_marks, spent};
pub use pods::is_reschedulable;
pub use provision::{
    EffectiveZone, Exceeded, OverlayProblem, PendingPods, buffer_pods, conflicting_overlays,
    exceeded, ineffective_overlays, is_provisionable, overlaid_types, pending_pods, pool_spending,
    priced_previews, provision, provision_full, provision_with, spending,
};
pub use registration_health::RegistrationHealth;
pub use repair::{Failures, failures};
pub use replaced::replaced;
pub use share::Share;
pub use static_capacity::static_capacity;
pub use terminate::{
    CompletedNotices, InstanceStatuses, RebootCall, Reboots, cordon, mark, reboot, reboot_issued,
    reboot_refused, terminate, terminate_unmanaged,
};
pub use unmanaged::{Announcement, UnmanagedNodeSettings, rebooted};
