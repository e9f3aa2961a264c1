//! API objects in their wire format: Karpenter's custom resources ([`karpenter`]) with the CRDs generated from them
//! ([`schema`]), and the fields of Kubernetes' own objects that planning needs ([`kubernetes`]). Also the trait
//! [`LaunchBuilder`], by which the executor applies EC2's launch rules; it is defined here because its methods take API
//! objects as well as types of `model`.
//!
//! Types keep the user's text (durations and quantities as text, absent distinct from empty), tolerate unknown fields,
//! and omit unset ones when serialized. Semantics beyond a single object belong to `model` and the planner.
//!
//! This crate is pure: no Kubernetes client, no AWS SDK, no tokio, no clock, randomness, environment or I/O. It must
//! never depend on a crate that has one of these.

pub mod conditions;
pub mod convert;
mod device_settings;
pub mod duration;
mod feature_gates;
pub mod karpenter;
pub mod kubernetes;
mod launch;
pub mod manifests;
pub mod meta;
pub mod names;
pub mod old_version;
pub mod quantity;
mod scheduler_config;
pub mod schema;
pub mod syntax;
pub mod validation;
mod wire;

pub use conditions::{Condition, ConditionSet, ConditionStatus};
pub use device_settings::{DeviceSettings, DeviceSettingsError};
pub use duration::{GoDuration, NillableDuration};
pub use feature_gates::{
    AWS_FEATURE_GATES, FEATURE_GATES, FeatureGateError, NODE_CLASS_CEL, aws_feature_gate,
    feature_gate, feature_gates,
};
pub use karpenter::{CapacityBuffer, EC2NodeClass, NodeClaim, NodeOverlay, NodePool};
pub use launch::LaunchBuilder;
pub use meta::{
    List, ObjectMeta, OwnerReference, PageMetadata, Resource, Scope, UnreadableItem, page_metadata,
};
pub use quantity::{Quantity, ResourceList};
pub use scheduler_config::{SchedulerConfigError, default_topology_spread};
