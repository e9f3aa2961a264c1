//! Drift: the changes of an EC2NodeClass that affect running nodes, and whether a node differs from its NodeClass.

use anyhow::{Context, Result};
use api::{EC2NodeClass, karpenter, names::label};
use aws_rules::node_class::{InstanceFacts, drift, instance_of, legacy_profile_name, static_hash};
use model::node_claim::NodeClaim;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    account::{AccountState, RegionFacts},
    settings::CaseSettings,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProfileNameCase {
    cluster_name: String,
    region: String,
    node_class: String,
}

pub(super) fn profile_name(case: ProfileNameCase) -> Value {
    let name = legacy_profile_name(&case.cluster_name, &case.region, &case.node_class);
    json!({"name": name})
}

#[derive(Deserialize)]
pub(super) struct HashCase {
    before: Hashed,
    after: Hashed,
}

#[derive(Deserialize)]
struct Hashed {
    spec: karpenter::EC2NodeClassSpec,
    #[serde(default, rename = "clusterCABundle")]
    cluster_ca_bundle: String,
}

impl Hashed {
    fn hash(self) -> Result<String> {
        let class = EC2NodeClass {
            metadata: Default::default(),
            spec: self.spec,
            status: None,
        };
        Ok(static_hash(&class, &self.cluster_ca_bundle)?)
    }
}

pub(super) fn hash(case: HashCase) -> Result<Value> {
    Ok(json!({"drifts": case.before.hash()? != case.after.hash()?}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    node_class: Option<EC2NodeClass>,
    node_claim: karpenter::NodeClaim,
    node_pool_exists: bool,
    /// The instance as EC2 shows it now; caches are not consulted.
    instance: Instance,
    settings: CaseSettings,
    #[serde(flatten)]
    state: AccountState,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Instance {
    #[serde(default)]
    security_groups: Vec<Group>,
    #[serde(default)]
    subnet_id: String,
    capacity_reservation_id: Option<String>,
    capacity_reservation_specification: Option<ReservationSpecification>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Group {
    group_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReservationSpecification {
    capacity_reservation_preference: String,
}

pub(super) fn decide(case: Case, facts: &RegionFacts) -> Result<Value> {
    let claim = NodeClaim::from(case.node_claim);
    let of_a_pool = case.node_pool_exists && claim.labels.contains_key(label::NODE_POOL);
    let Some(class) = case.node_class.filter(|_| of_a_pool) else {
        return Ok(json!({"reason": ""}));
    };
    instance_of(&claim.status.provider_id).with_context(|| {
        format!(
            "providerID \"{}\" names no instance",
            claim.status.provider_id
        )
    })?;
    let name = claim.labels.get(label::INSTANCE_TYPE).cloned();
    let settings = case.settings.provider()?;
    let types = name.into_iter().collect();
    let region = &case.settings.region;
    let types = case
        .state
        .resolve(facts, &types, None, &class, &settings, region)?;
    let specification = case.instance.capacity_reservation_specification;
    let is_reserved = specification
        .is_some_and(|s| s.capacity_reservation_preference == "capacity-reservations-only");
    let groups = case.instance.security_groups.into_iter();
    let instance = InstanceFacts {
        security_groups: groups.map(|group| group.group_id).collect(),
        subnet: case.instance.subnet_id,
        reservation: case
            .instance
            .capacity_reservation_id
            .filter(|_| is_reserved),
    };
    let group = case.state.placement_group(&class);
    let group = group.map(|group| group.group_id.as_str());
    let drift = drift(&class, group, &claim, Some(&instance), types.first())?;
    Ok(json!({"reason": drift.map(|drift| drift.to_string())}))
}
