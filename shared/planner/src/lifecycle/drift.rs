//! Drift of nodes from their NodePool and NodeClass (docs/spec/lifecycle.md#drifted).

use api::{
    conditions::{
        ConditionSet,
        types::{DRIFTED, LAUNCHED},
    },
    names::{annotation, label},
};
use jiff::SignedDuration;
use model::{
    CapacityType, Offering, Snapshot,
    node_claim::NodeClaim,
    node_pool::NodePool,
    requirement::{Requirement, Requirements},
    selector::Operator,
};

/// Age up to which a NodeClaim's instance type is known to be in the catalog, because it was planned with it.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Value of the condition Drifted.
pub(super) enum Drifted {
    /// Not every reason could be judged, and none of the others applies: the condition stays as it is.
    AsIs,
    No,
    Because(String),
}

/// Judges reasons that need no provider data first.
pub(super) fn judge(snapshot: &Snapshot, claim: &NodeClaim) -> Drifted {
    if !claim.is_true(LAUNCHED) {
        return Drifted::No;
    }
    let pool = claim
        .node_pool()
        .and_then(|name| snapshot.node_pools.iter().find(|pool| pool.name == name));
    if let Some(pool) = pool {
        let reason = if is_static(pool, claim) {
            Some("NodePoolDrifted")
        } else if misses_requirements(pool, claim) {
            Some("RequirementsDrifted")
        } else if is_off_the_catalog(snapshot, pool, claim) {
            Some("InstanceTypeNotFound")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Drifted::Because(reason.to_owned());
        }
    }
    match snapshot.drift.get(&claim.name) {
        Some(Some(reason)) => Drifted::Because(reason.clone()),
        Some(None) => Drifted::No,
        None => Drifted::AsIs,
    }
}

pub(super) fn write(drifted: &Drifted, conditions: &mut ConditionSet<'_>) {
    match drifted {
        Drifted::AsIs => {}
        Drifted::No => {
            // Drifted does not affect readiness, so it can always be cleared.
            let _ = conditions.clear(DRIFTED);
        }
        Drifted::Because(reason) => {
            conditions.set(DRIFTED, api::ConditionStatus::True, reason, reason);
        }
    }
}

/// Whether the template hashes of NodePool and NodeClaim differ. Hashes of different versions are not compared.
fn is_static(pool: &NodePool, claim: &NodeClaim) -> bool {
    let both = |key: &str| pool.annotations.get(key).zip(claim.annotations.get(key));
    let version = both(annotation::NODE_POOL_HASH_VERSION);
    let hash = both(annotation::NODE_POOL_HASH);
    version.is_some_and(|(of_pool, of_claim)| of_pool == of_claim)
        && hash.is_some_and(|(of_pool, of_claim)| of_pool != of_claim)
}

/// Whether the NodeClaim's labels violate the NodePool's requirements. An absent label satisfies only NotIn and DoesNotExist.
fn misses_requirements(pool: &NodePool, claim: &NodeClaim) -> bool {
    let wanted = Requirements::from_selector(&pool.template.requirements);
    let misses = |wanted: &Requirement| match claim.labels.get(&wanted.key) {
        Some(value) => !wanted.has(value),
        None => !matches!(wanted.operator(), Operator::NotIn | Operator::DoesNotExist),
    };
    wanted.0.values().any(misses)
}

/// Whether the catalog no longer has an offering, available or not, that matches the node.
fn is_off_the_catalog(snapshot: &Snapshot, pool: &NodePool, claim: &NodeClaim) -> bool {
    let age = claim.created_at.map(|at| snapshot.now.duration_since(at));
    if age.is_none_or(|age| age <= SETTLED_AFTER) {
        return false;
    }
    // An unknown catalog proves nothing.
    let Some(types) = snapshot.instance_types.get(&pool.name) else {
        return false;
    };
    if types.is_empty() {
        return false;
    }
    let name = claim.labels.get(label::INSTANCE_TYPE);
    let instance_type = types
        .iter()
        .find(|instance_type| Some(&instance_type.name) == name);
    let zone = claim.labels.get(label::ZONE);
    !instance_type.is_some_and(|instance_type| {
        let mut offerings = instance_type.offerings.iter();
        offerings.any(|offering| {
            zone.is_none_or(|zone| *zone == offering.zone) && is_bought_so(offering, claim)
        })
    })
}

/// Whether the offering matches the node's labels. A node launched into a reservation may continue on demand without it.
fn is_bought_so(offering: &Offering, claim: &NodeClaim) -> bool {
    let labelled = |key: &str| claim.labels.get(key).map(String::as_str);
    let capacity = labelled(label::CAPACITY_TYPE);
    let was_reserved = capacity == Some(CapacityType::Reserved.as_str());
    let sold_so = capacity.is_none_or(|capacity| {
        capacity == offering.capacity_type.as_str()
            || (was_reserved && offering.capacity_type == CapacityType::OnDemand)
    });
    let of_reservations = [
        label::CAPACITY_RESERVATION_ID,
        label::CAPACITY_RESERVATION_TYPE,
        label::CAPACITY_RESERVATION_INTERRUPTIBLE,
    ];
    let admits = |wanted: &Requirement| {
        let is_exempt = was_reserved && of_reservations.contains(&wanted.key.as_str());
        is_exempt || labelled(&wanted.key).is_none_or(|value| wanted.has(value))
    };
    sold_so && offering.requirements.0.values().all(admits)
}
