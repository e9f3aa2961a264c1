//! The real sink and the real process against moto's SQS and DynamoDB.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

mod moto;
mod process;
mod sink;
mod stack;
#[expect(dead_code, reason = "the harness locates programs")]
#[path = "../support/mod.rs"]
mod support;
