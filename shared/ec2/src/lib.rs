//! AWS as turns see it: EC2 instances and launches, the catalog of instance types, the resources that NodeClasses select, the registry of
//! clusters and access to their API servers.
//!
//! This is the only crate that names the SDKs of EC2, Auto Scaling, EKS, IAM and Pricing, besides those of SSM and STS. It translates:
//! `aws-rules` decides which requests are made, and turns decide when. No SDK type leaves it. It must never depend on planning.

mod access;
mod account;
mod catalog;
mod cloud;
mod cluster_facts;
mod discovery;

mod errors;
mod filters;
mod housekeeping;
mod launches;
mod meter;
mod notifier;
mod onboarding;
mod prerequisites;
mod prices;
mod registry;
mod sdk;
mod session;
mod zonal_shifts;

pub use access::{ClusterAccess, ClusterCredentials, EksCluster};
pub use account::{Account, Options};
pub use onboarding::{CallerIdentity, PodIdentityAssociation};
pub use prerequisites::AccessEntry;
pub use registry::StackMemory;
pub use sdk::sdk_config;
pub use signed::Bucket;
