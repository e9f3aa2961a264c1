//! Karpenter's custom resources with all fields of v1.14, from which the CRDs in `infra/chart/charts/crds/templates`
//! are generated.
//!
//! Validation is declared on the fields, as schemars attributes; [`crate::schema`] converts the types to CRDs. Field
//! names, patterns, CEL rules and their messages are interface (docs/spec/scheduling.md#node-pool,
//! docs/spec/aws.md#ec2-node-class).

mod capacity_buffer;
mod ec2_node_class;
mod node_claim;
mod node_overlay;
mod node_pool;
mod requirement;

pub use capacity_buffer::{
    CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus, LocalObjectReference,
    ScalableReference,
};
pub use ec2_node_class::*;
pub use node_claim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequests};
pub use node_overlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use node_pool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate,
    NodeClaimTemplateSpec, NodePool, NodePoolSpec, NodePoolStatus, TemplateMetadata,
};
pub use requirement::{NodeClassReference, Operator, Requirement, Taint, TaintEffect};

use crate::duration::{GoDuration, NillableDuration};

/// Default lifetime of nodes.
fn default_expire_after() -> NillableDuration {
    hours(720, "720h")
}

fn hours(hours: i64, text: &'static str) -> NillableDuration {
    NillableDuration::After(GoDuration::known(
        text,
        jiff::SignedDuration::from_hours(hours),
    ))
}
