//! From a NodeClaim to the CreateFleet request that launches its instance (docs/spec/aws.md#launch-templates,
//! docs/spec/aws.md#launching).
//!
//! [`fleet_request`] is pure and deterministic: the same claim on the same facts gives the same request, byte for byte, so
//! claims whose requests are equal can share one call ([`freeze`]) and a resumed call finds the launch templates it made.

mod block_devices;
mod builder;
mod filters;
mod outcome;
mod subnets;
mod templates;
mod trial;

use std::collections::BTreeMap;

use api::{
    EC2NodeClass,
    conditions::types::READY,
    names::{annotation, label, tag},
};
use model::{
    CapacityType, FreeAddresses, InstanceType,
    ids::LaunchToken,
    launch::{AllocationStrategy, FleetRequest, ReservationKind},
    node_claim::{NodeClaim, NodeClaimSpec},
    plan::Launch,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

use crate::{
    ClusterFacts, ProviderSettings,
    node_class::{STATIC_HASH_VERSION, static_hash},
};
pub(crate) use block_devices::block_devices;
pub use builder::Builder;
pub use filters::Candidate;
pub use model::launch::LaunchRefusal;
pub use outcome::{
    LaunchObservations, NO_SPOT_ROLE, call_refusal, launched_claim, observations, reading, refusal,
};
pub use templates::TEMPLATE_PREFIX;
pub use trial::{Trial, trial};

/// Inputs of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchInput<'a> {
    pub cluster: &'a ClusterFacts,
    pub settings: &'a ProviderSettings,
    /// The NodeClass with its status: launches use the resources that its selectors were resolved to.
    pub node_class: &'a EC2NodeClass,
    /// Every type of the claim's NodePool, as resolved through this NodeClass.
    pub instance_types: &'a [InstanceType],
    pub free_addresses: &'a FreeAddresses,
}

/// The part of a NodeClaim that its launch depends on.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub labels: &'a BTreeMap<String, String>,
    pub annotations: &'a BTreeMap<String, String>,
    pub spec: &'a NodeClaimSpec,
}

impl<'a> From<&'a Launch> for Claim<'a> {
    fn from(launch: &'a Launch) -> Self {
        Self {
            labels: &launch.labels,
            annotations: &launch.annotations,
            spec: &launch.spec,
        }
    }
}

impl<'a> From<&'a NodeClaim> for Claim<'a> {
    fn from(claim: &'a NodeClaim) -> Self {
        Self {
            labels: &claim.labels,
            annotations: &claim.annotations,
            spec: &claim.spec,
        }
    }
}

impl Claim<'_> {
    pub fn requirements(&self) -> Requirements {
        Requirements::from_selector(&self.spec.requirements)
    }

    fn is_relaxed(&self) -> bool {
        self.annotations
            .get(annotation::MIN_VALUES_RELAXED)
            .is_some_and(|relaxed| relaxed == "true")
    }
}

/// The request for one instance of this claim, still without a token. Claims with equal requests may share a call.
pub fn fleet_request(
    input: &LaunchInput<'_>,
    claim: Claim<'_>,
) -> Result<FleetRequest, LaunchRefusal> {
    ready(input.node_class)?;
    let tags = tags(input, claim)?;
    let requirements = claim.requirements();
    let candidates = filters::candidates(input, claim, &requirements)?;
    let capacity_type = filters::capacity_type(&candidates);
    let mut pinned = requirements;
    pinned.add(Requirement::new(
        label::CAPACITY_TYPE,
        Operator::In,
        [capacity_type.as_str().to_owned()],
    ));
    let subnets = subnets::by_zone(input)?;
    let templates = templates::templates(input, claim, &pinned, &candidates, &subnets, &tags)?;
    let kind = templates
        .first()
        .map_or(ReservationKind::Default, templates::reservation_kind);
    Ok(FleetRequest {
        cluster: input.cluster.name.clone(),
        token: LaunchToken::default(),
        node_class: input.node_class.metadata.name.as_str().into(),
        capacity_type,
        target_capacity: 1,
        allocation: allocation(capacity_type, kind, claim),
        context: input
            .node_class
            .spec
            .context
            .clone()
            .filter(|_| !claim.is_relaxed()),
        templates,
        tags,
        claim_annotations: claim_annotations(input),
    })
}

/// The request as it is frozen and sent: for `claims` NodeClaims, under this token, which every instance is tagged with
/// (docs/protocol.md#a2).
pub fn freeze(request: FleetRequest, token: LaunchToken, claims: u32) -> FleetRequest {
    let mut tags = request.tags;
    tags.insert(tag::LAUNCH.to_owned(), token.to_string());
    FleetRequest {
        token,
        target_capacity: claims,
        tags,
        ..request
    }
}

/// Checks that the NodeClass is ready in its present generation, as launches require (docs/spec/aws.md#launch-preconditions).
fn ready(class: &EC2NodeClass) -> Result<(), LaunchRefusal> {
    use api::ConditionStatus;
    let name = &class.metadata.name;
    if class.metadata.is_deleting() {
        return Err(LaunchRefusal::InsufficientCapacity {
            message: format!("EC2NodeClass {name} is being deleted"),
        });
    }
    let conditions = class
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    let ready = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.r#type == READY);
    match ready {
        Some(ready) if ready.status == ConditionStatus::True => {
            let judged = ready.observed_generation.unwrap_or_default();
            let present = class.metadata.generation.unwrap_or_default();
            if judged == present {
                Ok(())
            } else {
                Err(LaunchRefusal::NodeClassNotReady {
                    message: format!(
                        "EC2NodeClass {name} has not been validated since it was changed (generation {present}, last validated {judged})"
                    ),
                })
            }
        }
        Some(ready) if ready.status == ConditionStatus::False => {
            Err(LaunchRefusal::NodeClassNotReady {
                message: format!("EC2NodeClass {name} is not ready: {}", ready.message),
            })
        }
        Some(_) | None => Err(LaunchRefusal::Create {
            reason: "NodeClassReadinessUnknown",
            message: format!("EC2NodeClass {name} is in Ready=Unknown"),
        }),
    }
}

/// Tags of every resource made for a claim: the user's tags, overridden by the tags that mark ownership (docs/spec/aws.md#resource-tags).
fn tags(
    input: &LaunchInput<'_>,
    claim: Claim<'_>,
) -> Result<BTreeMap<String, String>, LaunchRefusal> {
    let mut tags = input.node_class.spec.tags.clone().unwrap_or_default();
    if let Some(key) = tags.keys().find(|key| is_restricted(key)) {
        return Err(LaunchRefusal::NodeClassNotReady {
            message: format!("spec.tags[{key}] is not allowed: Whittle sets this tag itself"),
        });
    }
    let cluster = input.cluster.name.as_str();
    let node_pool = claim.labels.get(label::NODE_POOL);
    tags.extend([
        (format!("{}{cluster}", tag::CLUSTER_PREFIX), "owned".into()),
        (tag::EKS_CLUSTER.into(), cluster.to_owned()),
        (
            tag::NODE_POOL.into(),
            node_pool.cloned().unwrap_or_default(),
        ),
        (
            tag::EC2_NODE_CLASS.into(),
            input.node_class.metadata.name.clone(),
        ),
    ]);
    Ok(tags)
}

/// Annotations of a NodeClaim that describe the NodeClass it was launched by (docs/spec/aws.md#node-class-hash).
fn claim_annotations(input: &LaunchInput<'_>) -> BTreeMap<String, String> {
    let class = input.node_class;
    let authority = &input.cluster.certificate_authority;
    // Without a hash, static drift is not judged.
    let hash = static_hash(class, authority).ok();
    let version = hash.is_some().then(|| STATIC_HASH_VERSION.to_owned());
    let status = class.status.as_ref();
    let profile = status.and_then(|status| status.instance_profile.clone());
    [
        (annotation::EC2_NODE_CLASS_HASH, hash),
        (annotation::EC2_NODE_CLASS_HASH_VERSION, version),
        (annotation::INSTANCE_PROFILE_NAME, profile),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect()
}

/// Tags that mark ownership, which users may not set.
pub fn is_restricted(key: &str) -> bool {
    let of_a_cluster = |rest: &str| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric())
            && rest
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    key.is_empty()
        || key == tag::LAUNCH
        || key == tag::CLUSTER_UID
        || tag::RESTRICTED.contains(&key)
        || key
            .strip_prefix(tag::CLUSTER_PREFIX)
            .is_some_and(of_a_cluster)
}

/// The allocation strategy. Prioritized strategies apply only if a NodeOverlay changed prices: EC2 itself knows the real ones
/// (docs/spec/aws.md#create-fleet).
fn allocation(
    capacity_type: CapacityType,
    kind: ReservationKind,
    claim: Claim<'_>,
) -> Option<AllocationStrategy> {
    let overlaid = claim
        .annotations
        .contains_key(annotation::PRICE_OVERLAY_APPLIED);
    match (capacity_type, kind, overlaid) {
        (CapacityType::Spot, _, false) => Some(AllocationStrategy::PriceCapacityOptimized),
        (CapacityType::Spot, _, true) => Some(AllocationStrategy::CapacityOptimizedPrioritized),
        (CapacityType::Reserved, ReservationKind::CapacityBlock, _)
        | (CapacityType::Reserved, ReservationKind::Interruptible, _) => None,
        (_, _, false) => Some(AllocationStrategy::LowestPrice),
        (_, _, true) => Some(AllocationStrategy::Prioritized),
    }
}

fn not_ready(message: String) -> LaunchRefusal {
    LaunchRefusal::NodeClassNotReady { message }
}
