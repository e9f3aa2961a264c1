//! Objects that an EC2NodeClass selects, its status, and drift of its nodes (docs/spec/aws.md#ec2-node-class, docs/spec/aws.md#discovery,
//! docs/spec/aws.md#drift).

mod drift;
mod dry_run;
mod profile;
mod refresh;
mod reservations;
mod selectors;
mod static_hash;
mod status;

pub use drift::{Drift, DriftUnknown, InstanceFacts, drift, drift_of_instance, instance_of};
pub use dry_run::{DryRunAct, DryRuns, Refusal, ValidationMemory, Verdict};
pub use profile::{
    ProfileAct, ProfileAnswer, ProfileMemory, ProfileSearch, legacy_profile_name, profile_path,
    profile_tags, profiles_path,
};
pub use refresh::{is_final, next_look};
pub use reservations::{ReservationFact, ReservationQuery, reservation_queries, reservations};
pub use selectors::{Filters, security_group_queries, subnet_queries, tag_filters};
pub use static_hash::{STATIC_HASH_VERSION, static_hash};
pub use status::{Discovered, Discovery, StatusDraft, StatusInput, SubnetFact, draft, status};
