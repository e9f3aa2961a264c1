//! The embedded world: a simulated cluster that speaks Kubernetes' wire protocol on localhost, so that `kubectl`, the
//! relay and the functions work against it as against a real one.
//!
//! [`Sandbox`] serves a [`World`] over HTTP and lets it act by the wall clock, by a faster one, or when told. Below that
//! everything is pure and works in turns: [`store`] keeps objects, [`server`] has the API server's rules,
//! [`controllers`] stand in for scheduler, kubelets and the control plane's controllers.
//!
//! It simulates what decides about nodes and pods, and leaves out what does not: containers have no logs and cannot be
//! entered, services carry no traffic, nobody preempts, scales by load or admits by webhook.
//!
//! For demonstrations and tests only. It may use tokio, axum and `k8s-openapi`, and implement `ports`; it must never
//! depend on an AWS SDK, on a Kubernetes client outside of tests, or on what decides (scheduling, planner): the world
//! must not share its mistakes with those who act in it.

mod access;
mod clock;
pub mod controllers;
pub mod ec2;
pub mod error;
pub mod faults;
mod http;
mod json;
pub mod kinds;
pub mod patch;
mod sandbox;
pub mod schema;
pub mod selectors;
pub mod server;
pub mod store;
mod world;

pub use access::UsedAccess;
pub use clock::{AtWork, WorldClock};
pub use controllers::{KubeletOptions, NodeJoin};
pub use sandbox::{
    Credential, NEWEST_KUBERNETES, OLDEST_KUBERNETES, Sandbox, SandboxOptions, StartError,
};
pub use world::{World, WorldOptions};
