//! Instance types as resolved through a NodeClass.

use std::collections::BTreeSet;

use anyhow::Result;
use api::{EC2NodeClass, names::label};
use aws_rules::{families::Family, instance_types::incompatible};
use model::{
    InstanceType, Resources, catalog::Offering, requirement::Requirements, resources::amount_text,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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
    types: BTreeSet<String>,
    #[serde(default)]
    state: AccountState,
    /// Parts of a type that the case asks about.
    expect: Expected,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    #[serde(default)]
    instance_types: Vec<Parts>,
}

#[derive(Default, Deserialize)]
struct Parts {
    requirements: Option<serde::de::IgnoredAny>,
    offerings: Option<serde::de::IgnoredAny>,
}

pub(super) fn decide(case: Case, facts: &RegionFacts) -> Result<Value> {
    let class = &case.node_class;
    let family = Family::of(&class.spec)?;
    let settings = case.settings.provider()?;
    let region = &case.settings.region;
    let mut types = case
        .state
        .resolve(facts, &case.types, None, class, &settings, region)?;
    case.state
        .unavailable(class)
        .mark_unavailable(&mut types, class);
    let parts = case.expect.instance_types.first();
    let shown = |instance_type: &InstanceType| {
        let mut shown = shown(instance_type);
        if parts.is_some_and(|parts| parts.requirements.is_some()) {
            shown.insert(
                "requirements".to_owned(),
                requirements(&instance_type.requirements),
            );
        }
        if parts.is_some_and(|parts| parts.offerings.is_some()) {
            let offerings = instance_type.offerings.iter().map(offering).collect();
            shown.insert("offerings".to_owned(), Value::Array(offerings));
        }
        Value::Object(shown)
    };
    let group = case.state.placement_group(class);
    let infos = case.types.iter().filter_map(|name| facts.types.get(name));
    let incompatible: Vec<_> = infos
        .filter(|info| incompatible(info, family, &class.spec, group))
        .map(|info| &info.instance_type)
        .collect();
    Ok(json!({
        "instanceTypes": types.iter().map(shown).collect::<Vec<_>>(),
        "incompatibleWithNodeClass": incompatible,
    }))
}

fn shown(instance_type: &InstanceType) -> Map<String, Value> {
    let overhead = &instance_type.overhead;
    let fields = [
        ("name", json!(instance_type.name)),
        ("capacity", resources(&instance_type.capacity)),
        ("allocatable", resources(&instance_type.allocatable())),
        (
            "overhead",
            json!({
                "kubeReserved": resources(&overhead.kube_reserved),
                "systemReserved": resources(&overhead.system_reserved),
                "evictionThreshold": resources(&overhead.eviction_threshold),
            }),
        ),
    ];
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

pub(super) fn resources(resources: &Resources) -> Value {
    resources
        .iter()
        .map(|(name, amount)| (name.to_owned(), json!(amount_text(name, amount))))
        .collect()
}

fn requirements(requirements: &Requirements) -> Value {
    let entries = requirements
        .to_selector()
        .into_iter()
        .map(|entry| json!({"key": entry.key, "operator": entry.operator, "values": entry.values}));
    entries.collect()
}

fn offering(offering: &Offering) -> Value {
    let bound_to = |key: &str| {
        let requirement = offering.requirements.get(key);
        requirement.and_then(|requirement| requirement.values.first())
    };
    json!({
        "available": offering.available,
        "capacityType": offering.capacity_type.as_str(),
        "price": dollars(offering.price.0),
        "zone": offering.zone,
        "zoneId": offering.zone_id,
        "reservationId": offering.reservation.as_ref().map(|reservation| &reservation.id),
        "reservationCapacity": offering.reservation.as_ref().map(|reservation| reservation.capacity),
        "reservationType": bound_to(label::CAPACITY_RESERVATION_TYPE),
        "reservationInterruptible": bound_to(label::CAPACITY_RESERVATION_INTERRUPTIBLE),
        "partition": bound_to(label::PLACEMENT_GROUP_PARTITION),
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "prices are far below 2^53 nano-dollars"
)]
pub(super) fn dollars(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}
