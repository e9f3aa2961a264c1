//! The embedded world: a simulated cluster that speaks Kubernetes' wire protocol on localhost.
mod clock;
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

pub use clock::WorldClock;
pub use sandbox::{Credential, Sandbox, SandboxOptions, StartError};
pub use world::{World, WorldOptions};
