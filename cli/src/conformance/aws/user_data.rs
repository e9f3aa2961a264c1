//! User data of one instance.

use anyhow::{Context, Result};
use api::{EC2NodeClass, karpenter};
use aws_rules::{
    families::Family,
    user_data::{UserDataInput, render},
};
use model::{node_claim::NodeClaim, resources::PODS};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    account::{AccountState, RegionFacts, node_class},
    settings::CaseSettings,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    settings: CaseSettings,
    #[serde(deserialize_with = "node_class")]
    node_class: EC2NodeClass,
    node_claim: karpenter::NodeClaim,
    instance_type: String,
    capacity_type: String,
}

pub(super) fn decide(case: Case, facts: &RegionFacts) -> Result<Value> {
    let class = &case.node_class;
    let settings = case.settings.provider()?;
    let types = AccountState::default().resolve(
        facts,
        &[case.instance_type.clone()].into(),
        None,
        class,
        &settings,
        &case.settings.region,
    )?;
    let instance_type = types
        .first()
        .with_context(|| format!("{} is not an instance type", case.instance_type))?;
    let claim = NodeClaim::from(case.node_claim);
    let boot = UserDataInput {
        cluster: &case.settings.cluster()?,
        node_class: class,
        labels: &claim.labels,
        taints: &claim.spec.taints,
        startup_taints: &claim.spec.startup_taints,
        capacity_type: &case.capacity_type,
        max_pods: instance_type.capacity.get(PODS),
        resolved: settings.node_class_cel.then_some(&instance_type.overhead),
    };
    Ok(json!({"userData": render(Family::of(&class.spec)?, &boot)?}))
}
