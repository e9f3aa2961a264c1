//! The cluster's API server behind [`ports::Cluster`]: connecting, paged lists decoded into the few fields that
//! decisions use, patches with preconditions, evictions, events, Karpenter's Lease and what the relay is told.
//!
//! It depends on `api` for the objects on the wire and must never depend on an AWS SDK or on planning.

mod bounds;
mod cluster;
mod connect;
mod error;
mod events;
mod keep;
mod lease;
mod lists;
mod memory;
mod stand_in;
mod status;
mod transport;
mod watch;

pub use cluster::KubeCluster;
pub use connect::{Access, ConnectError, Credentials, from_kubeconfig};
pub use kube::{Client, Error};
