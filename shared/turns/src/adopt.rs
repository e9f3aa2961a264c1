//! NodeClaims that somebody else made are launched like our own (PROTOCOL A1).

use std::collections::BTreeMap;

use executor::{ClassFacts, Executor};
use model::{
    CapacityType, InstanceType, NodeClassName, Offering, Snapshot,
    ids::PlanId,
    labels,
    ledger::{Intent, IntentState},
    node_claim::NodeClaim,
    plan::{ExpectedOffering, Launch},
    requirement::{Requirement, Requirements},
    selector::Operator,
};
use ports::ledger::Moved;

use crate::{TurnError, lane::Turn, observe::is_our_class};

/// Puts an intent for every NodeClaim that has neither one nor an instance; answers those that are ours to launch now.
pub(crate) async fn adopt(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    snapshot: &Snapshot,
    classes: &BTreeMap<NodeClassName, ClassFacts>,
) -> Result<Vec<Intent>, TurnError> {
    let mut adopted = Vec::new();
    let orphans = snapshot.node_claims.iter().filter(|claim| {
        claim.deleted_at.is_none()
            && claim.status.provider_id.is_empty()
            && is_our_class(&claim.spec.node_class)
    });
    for claim in orphans {
        if turn
            .world
            .ledger
            .intent(turn.cluster, &claim.name)
            .await?
            .is_some()
        {
            continue;
        }
        let Some(launch) = launch(claim, classes) else {
            continue;
        };
        let intent = Intent {
            plan: PlanId::default(),
            generation: snapshot.generation,
            launch,
            state: IntentState::Claimed {
                uid: claim.uid.clone(),
                attempt: 1,
            },
            lease: Some(executor.lease()),
            committed_at: turn.world.clock.now(),
        };
        let due = executor.lease().until;
        if turn
            .world
            .ledger
            .adopt_intent(turn.cluster, &intent, turn.lane, due)
            .await?
            == Moved::Yes
        {
            adopted.push(intent);
        }
    }
    Ok(adopted)
}

/// What is to be launched for a NodeClaim: every type that it admits. `None` while its NodeClass is not usable.
fn launch(claim: &NodeClaim, classes: &BTreeMap<NodeClassName, ClassFacts>) -> Option<Launch> {
    let class = classes.get(&claim.spec.node_class.name)?;
    let wanted = Requirements::from_selector(&claim.spec.requirements);
    let mut options: Vec<(&InstanceType, &Offering)> = class
        .types
        .iter()
        .filter_map(|kind| Some((kind, cheapest(kind, &wanted, claim)?)))
        .collect();
    options.sort_by(|(a, x), (b, y)| (x.price, &a.name).cmp(&(y.price, &b.name)));
    let (kind, offering) = options.first()?;
    Some(Launch {
        name: claim.name.clone(),
        node_pool: claim.node_pool().unwrap_or_default(),
        node_pool_uid: model::Uid::default(),
        labels: claim.labels.clone(),
        annotations: claim.annotations.clone(),
        spec: claim.spec.clone(),
        pods: Vec::new(),
        cheapest: ExpectedOffering {
            instance_type: kind.name.clone(),
            capacity_type: offering.capacity_type,
            zone: offering.zone.clone(),
            price: offering.price,
            capacity: kind.capacity.clone(),
        },
        instance_types: options
            .iter()
            .map(|(kind, _)| kind.name.as_str().into())
            .take(Launch::INSTANCE_TYPES_MAX)
            .collect(),
    })
}

/// The cheapest available offering of a type that the NodeClaim admits, if the type is big enough.
fn cheapest<'a>(
    kind: &'a InstanceType,
    wanted: &Requirements,
    claim: &NodeClaim,
) -> Option<&'a Offering> {
    let compatible = wanted.0.values().all(|requirement| {
        kind.requirements
            .get(&requirement.key)
            .is_none_or(|offered| offered.intersects(requirement))
    });
    if !compatible || !claim.spec.requests.fits(&kind.allocatable()) {
        return None;
    }
    let allows = |key: &str, value: &str| {
        let exactly = Requirement::new(key, Operator::In, [value.to_owned()]);
        wanted
            .get(key)
            .is_none_or(|requirement| requirement.intersects(&exactly))
    };
    let admitted = |offering: &&Offering| {
        let capacity_type: CapacityType = offering.capacity_type;
        offering.available
            && allows(labels::ZONE, &offering.zone)
            && allows(labels::CAPACITY_TYPE, capacity_type.as_str())
    };
    kind.offerings
        .iter()
        .filter(admitted)
        .min_by_key(|offering| offering.price)
}
