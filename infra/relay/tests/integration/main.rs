//! The relay against a cluster and an AWS that misbehave as real ones do, and the chart that deploys it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

mod api_server;
mod boards;
mod chart;
mod cluster;
mod documented;
mod karpenter_boards;
mod running;
#[path = "../support/mod.rs"]
mod support;
mod told;
