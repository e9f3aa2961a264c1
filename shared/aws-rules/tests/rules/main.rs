//! The rules, from raw EC2 facts to requests and statuses. `world` holds a cluster, a NodeClass and twelve instance types.

mod ami;
mod instance_types;
mod launch;
mod node_class;
mod outcome;
mod user_data;
mod world;
