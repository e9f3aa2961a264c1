//! Launches of an earlier turn.

use std::collections::BTreeMap;

use model::{
    CapacityType, InstanceType, Resources, Snapshot,
    ledger::{Intent, IntentState},
    node_claim::NodeClaimSpec,
    plan::{ExpectedOffering, Launch},
    selector::{NodeSelectorRequirement, Operator},
};

use crate::{cluster::find, given::InFlight, shorthand};

/// The intent of an in-flight launch, with the expected offering.
pub(crate) fn intent(
    snapshot: &Snapshot,
    in_flight: &InFlight,
    types: &[InstanceType],
) -> Result<Intent, String> {
    let of_type = find(types, &in_flight.r#type)?;
    let pool = snapshot
        .node_pools
        .iter()
        .find(|pool| pool.name.as_str() == in_flight.node_pool)
        .ok_or_else(|| format!("there is no NodePool {}", in_flight.node_pool))?;
    let capacity_type: CapacityType = in_flight
        .capacity_type
        .parse()
        .map_err(|error: model::catalog::UnknownCapacityType| error.to_string())?;
    let offering = of_type
        .offerings
        .iter()
        .find(|offering| offering.zone == in_flight.zone && offering.capacity_type == capacity_type)
        .ok_or_else(|| {
            format!(
                "{} is not offered as {capacity_type} in {}",
                of_type.name, in_flight.zone
            )
        })?;
    let is = |alias: &str, value: &str| NodeSelectorRequirement {
        key: shorthand::key(alias),
        operator: Operator::In,
        values: vec![value.to_owned()],
        min_values: None,
    };
    let mut labels = pool.template.labels.clone();
    labels.insert(shorthand::key("nodepool"), pool.name.0.clone());
    let launch = Launch {
        name: in_flight.name.as_str().into(),
        node_pool: pool.name.clone(),
        node_pool_uid: pool.uid.clone(),
        labels,
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec {
            node_class: pool.template.node_class.clone(),
            requirements: vec![
                is("instance-type", &of_type.name),
                is("zone", &in_flight.zone),
                is("capacity-type", &in_flight.capacity_type),
            ],
            requests: Resources::default(),
            taints: pool.template.taints.clone(),
            startup_taints: pool.template.startup_taints.clone(),
            expire_after: None,
            termination_grace_period: None,
        },
        pods: Vec::new(),
        instance_types: vec![of_type.name.as_str().into()],
        cheapest: ExpectedOffering {
            instance_type: of_type.name.clone(),
            capacity_type,
            zone: in_flight.zone.clone(),
            price: offering.price,
            capacity: of_type.capacity.clone(),
        },
    };
    Ok(Intent {
        plan: "earlier".into(),
        generation: 1,
        launch,
        state: IntentState::Intended,
        lease: None,
        committed_at: snapshot.now,
    })
}
