//! The sweep over all clusters, once a minute.

mod collect;
mod deleted_cluster;
mod housekeeper;
mod identity;
mod leader;
mod relay_version;
mod shifts;
mod wake_reason;

pub use self::housekeeper::housekeep;
