//! The cluster's API server behind [`ports::Cluster`]: connections, paged lists decoded into the few fields that decisions use,
//! patches with preconditions, evictions, events, Karpenter's Lease and the status document for the relay.
//!
//! The crate depends on `api` for the objects on the wire. It depends neither on an AWS SDK nor on planning.

mod bounds;
mod cluster;
mod connect;
mod error;
mod events;
mod lease;
mod lists;
mod object_map;
mod partial_object;
mod status;
mod transport;
mod watch;
mod watch_cache;

pub use cluster::KubeCluster;
pub use connect::{
    Access, ConnectError, ContextClient, ContextSelection, Credentials, from_kubeconfig,
};
pub use kube::{Client, Error};
