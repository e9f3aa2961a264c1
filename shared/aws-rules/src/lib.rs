//! Rules about EC2 without I/O: the instance types of a NodeClass and their capacity, user data of nodes, choice of images, CreateFleet
//! requests, and the meaning of EC2's error codes.
//!
//! Facts come in as plain data and requests go out as plain data, so everything here can be read and tested without an account. This crate
//! depends on `api` and `model` only: it must never name an AWS SDK type, and it knows no clock, randomness, environment or I/O.

pub mod ami;
pub mod cluster;
pub mod collection;
pub mod compatibility;
pub mod errors;
pub mod expressions;
pub mod families;
pub mod instance_types;
pub mod interruption;
pub mod launch;
pub mod node_class;
pub mod node_role;
pub mod placement;
pub mod prices;
pub mod resource;
pub mod settings;
pub mod user_data;
pub mod zonal_shift;

pub use cluster::ClusterFacts;
pub use launch::{Claim, LaunchInput, LaunchRefusal, fleet_request};
pub use settings::ProviderSettings;
