//! Tests of the rules, from raw EC2 facts to requests and statuses. `world` contains a cluster, a NodeClass and twelve instance types.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "helpers of tests fail as tests do, by panicking"
)]

mod ami;
mod bad_input;
mod collection;
mod drift;
mod dry_runs;
mod experience;
mod expressions;
mod instance_types;
mod interruption;
mod launch;
mod node_class;
mod outcome;
mod placement;
mod prices;
mod profile;
mod user_data;
mod world;
