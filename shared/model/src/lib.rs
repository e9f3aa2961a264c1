//! The data types of Whittle: the state that a turn reads (`Snapshot`), its decision (`Plan`) and the rows of the
//! ledger.
//!
//! Plain data with the few operations that define its meaning (requirement algebra, resource arithmetic, taint
//! matching). This crate knows no Kubernetes client, no AWS SDK, no clock, randomness or I/O, and must never depend on
//! anything that does.

pub mod addresses;
pub mod budget;
pub mod caps;
pub mod catalog;
pub mod devices;
pub mod evidence;
pub mod experience;
pub mod ids;
pub mod interruption;
pub mod journal;
pub mod labels;
mod lane;
pub mod launch;
pub mod ledger;
pub mod limits;
mod memo;
pub mod node;
pub mod node_claim;
pub mod node_pool;
pub mod notification;
mod pairs;
pub mod plan;
pub mod pod;
pub mod quantity;
pub mod requirement;
pub mod resources;
pub mod selector;
mod shared_shape;
pub mod snapshot;
pub mod spelling;
pub mod status;
pub mod surcharge;
pub mod taint;
pub mod view;
pub mod volume;
pub mod wake;
mod warning;
mod wording;

pub use addresses::FreeAddresses;
pub use catalog::{CapacityType, InstanceType, NanosPerHour, Offering};
pub use evidence::Evidence;
pub use experience::Experience;
pub use ids::{
    ClusterName, InstanceId, InstanceTypeName, NodeClaimName, NodeClassName, NodeName,
    NodePoolName, PodKey, Uid,
};
pub use interruption::{Interruption, InterruptionKind};
pub use lane::Lane;
pub use memo::Memo;
pub use notification::{Notification, NotificationClass};
pub use plan::{Action, Plan};
pub use resources::Resources;
pub use shared_shape::{ShapeAddress, SharedShape, share_shapes};
pub use snapshot::Snapshot;
pub use surcharge::Surcharge;
pub use wake::{Batch, Wake};
pub use warning::Warning;
pub use wording::{counted, singular_or_plural};
