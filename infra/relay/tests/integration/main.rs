//! The relay against a cluster and an AWS that behave, and misbehave, as real ones do.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

mod api_server;
mod aws;
mod chart;
mod cluster;
mod moto;
mod running;
