//! Simulated cluster that serves Kubernetes' wire protocol on localhost, so that `kubectl`, the relay and the functions
//! work against it as against a real cluster.
//!
//! [`Sandbox`] serves a [`World`] over HTTP and advances it by the wall clock, by an accelerated clock, or on request.
//! The layers below are pure: [`store`] keeps objects, [`server`] implements the rules of the API server,
//! [`controllers`] simulates the scheduler, the kubelets and the control plane's controllers.
//!
//! The simulation covers what decides about nodes and pods. It has no container logs or exec, no service traffic, no
//! preemption, no autoscaling by load and no admission webhooks.
//!
//! For demonstrations and tests only. The crate may use tokio, axum and `k8s-openapi`, and implement `ports`. It must
//! never depend on an AWS SDK, on a Kubernetes client outside of tests, or on the crates that decide (scheduling,
//! planner): a simulation that shared their code would share their mistakes.

mod access;
mod clock;
pub mod controllers;
mod digest;
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
pub use clock::{RealTimeGuard, WorldClock};
pub use controllers::{KubeletOptions, NodeJoin};
pub use sandbox::{
    Credential, NEWEST_KUBERNETES, OLDEST_KUBERNETES, Sandbox, SandboxOptions, StartError,
};
pub use world::{World, WorldOptions};
