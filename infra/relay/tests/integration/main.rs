//! The relay against a cluster and an AWS that behave, and misbehave, as real ones do.

mod api_server;
mod aws;
mod chart;
mod cluster;
mod moto;
mod running;
