//! The relay against a cluster and AWS with realistic failures, and the chart that deploys it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]

mod api_server;
mod busy_cluster;
mod chart;
mod cluster;
mod dashboards;
mod documentation;
mod function_metrics;
mod karpenter_dashboards;
mod running;
#[path = "../support/mod.rs"]
mod support;
