//! The embedded world over the wire, by the clients that people use: `kubectl` and kube-rs.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::expect_used,
    reason = "a test ends where something unexpected happens"
)]

mod client;
mod crds;
mod faults;
mod kubectl;
mod scale;
mod support;
