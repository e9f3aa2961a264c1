//! Tests of the simulated cluster over the network, with `kubectl` and kube-rs.

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
