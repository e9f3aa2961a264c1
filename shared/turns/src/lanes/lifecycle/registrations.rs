//! Registration health of NodePools: every outcome of a registration is recorded on the NodePool
//! (docs/spec/lifecycle.md#registration-health).

use std::collections::BTreeMap;

use api::{
    ConditionSet, ConditionStatus, EC2NodeClass, NodePool,
    conditions::types::{self, LAUNCHED, NODE_REGISTRATION_HEALTHY, REGISTERED},
    names::annotation::REGISTRATIONS,
};
use model::{
    Action, NodeClaimName, NodePoolName, Uid,
    node_claim::NodeClaim,
    plan::{NodeClaimUpdate, Planned},
};
use planner::RegistrationHealth;

use super::node_pools;
use crate::{Report, TurnError, act::apply::Applied, context::Turn, observe::Observed};

/// A NodeClaim whose registration has ended, and whether its node joined.
struct Sample<'a> {
    claim: &'a NodeClaim,
    joined: bool,
}

/// Records the registrations of this turn. Failures are reported and have no other effect.
pub(crate) async fn record(
    turn: &Turn<'_>,
    observed: &Observed,
    actions: &[Planned],
    applied: &Applied,
    report: &mut Report,
) {
    let done = actions.iter().enumerate();
    let done = done.filter(|(index, _)| applied.done.contains(index));
    let mut pools: BTreeMap<NodePoolName, Vec<Sample<'_>>> = BTreeMap::new();
    for sample in done.filter_map(|(_, planned)| sample(observed, &planned.action)) {
        if let Some(pool) = sample.claim.node_pool() {
            pools.entry(pool).or_default().push(sample);
        }
    }
    for pool in &observed.node_pools {
        let name = NodePoolName::from(pool.metadata.name.as_str());
        let Some(samples) = pools.get(&name) else {
            continue;
        };
        let about = node_pools::target_of(&pool.metadata);
        let added = add_samples(turn, pool, samples).await;
        if !report.may_continue_after(&about, added) {
            break;
        }
    }
}

/// Outcome for a NodeClaim that registers now, or is given up before it did.
fn sample<'a>(observed: &'a Observed, action: &Action) -> Option<Sample<'a>> {
    let of = |name: &NodeClaimName, joined| {
        let mut claims = observed.snapshot.node_claims.iter();
        let claim = claims.find(|claim| claim.name == *name)?;
        (!claim.is_true(REGISTERED)).then_some(Sample { claim, joined })
    };
    // A launch that EC2 refused shows nothing about nodes that join.
    let refused = |name: &NodeClaimName| {
        let mut intents = observed.snapshot.intents.iter();
        intents.any(|intent| intent.name() == name && !intent.is_in_flight())
    };
    match action {
        Action::UpdateNodeClaim(update) if sets_registered(update) => of(&update.name, true),
        Action::DeleteNodeClaim(target) if !refused(&target.name) => of(&target.name, false),
        Action::DeleteNodeClaim(_)
        | Action::Reboot(_)
        | Action::UpdateNodeClaim(_)
        | Action::Launch(_)
        | Action::UpdateNode(_)
        | Action::Evict { .. }
        | Action::DeletePod { .. }
        | Action::Terminate { .. } => None,
    }
}

fn sets_registered(update: &NodeClaimUpdate) -> bool {
    let mut conditions = update.conditions.iter();
    conditions.any(|condition| {
        condition.kind == REGISTERED && condition.status == model::node::ConditionStatus::True
    })
}

async fn add_samples(
    turn: &Turn<'_>,
    pool: &NodePool,
    samples: &[Sample<'_>],
) -> Result<(), TurnError> {
    let name = NodePoolName::from(pool.metadata.name.as_str());
    let mut health = recorded_health(pool);
    let mut status = pool.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let before = conditions.clone();
    let condition_types = types::node_pool();
    let mut set = ConditionSet::new(&condition_types, &mut conditions, &pool.metadata, turn.now);
    for sample in samples {
        health.add(sample.joined);
        update_condition(&health, sample, &mut set);
    }
    turn.api
        .annotate_node_pool(&name, &annotation(pool, &health))
        .await?;
    if conditions != before {
        status.conditions = Some(conditions);
        turn.api.update_node_pool_status(&name, &status).await?;
    }
    Ok(())
}

/// Updates the condition: only a success makes it healthy, and only a failure unhealthy.
fn update_condition(health: &RegistrationHealth, sample: &Sample<'_>, set: &mut ConditionSet<'_>) {
    use model::node::ConditionStatus::{False, True};
    match (sample.joined, health.status()) {
        (true, True) => set.set_true(NODE_REGISTRATION_HEALTHY),
        (false, False) => {
            let launched = sample.claim.condition(LAUNCHED);
            let (reason, message) = launched
                .filter(|condition| condition.status != True)
                .map_or(
                    ("RegistrationFailed", "Failed to register node"),
                    |condition| (condition.reason.as_str(), condition.message.as_str()),
                );
            set.set_false(NODE_REGISTRATION_HEALTHY, reason, message);
        }
        _ => {}
    }
}

/// Whether the recorded registrations are about an earlier generation of the NodePool or its NodeClass.
pub(crate) fn is_outdated(pool: &NodePool, class: Option<&EC2NodeClass>) -> bool {
    let status = pool.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let condition = conditions.find(|condition| condition.r#type == NODE_REGISTRATION_HEALTHY);
    let about = status.and_then(|status| status.node_class_observed_generation);
    let of_class = class.and_then(|class| class.metadata.generation);
    condition.is_none_or(|condition| condition.observed_generation != pool.metadata.generation)
        || class.is_some() && about != of_class
}

/// Annotation that resets a NodePool's recorded registrations.
pub(crate) fn reset_annotation(pool: &NodePool) -> BTreeMap<String, String> {
    annotation(pool, &RegistrationHealth::default())
}

fn annotation(pool: &NodePool, health: &RegistrationHealth) -> BTreeMap<String, String> {
    let text = health.write(&Uid(pool.metadata.uid.clone()));
    BTreeMap::from([(REGISTRATIONS.to_owned(), text)])
}

/// Recorded registrations of a NodePool.
fn recorded_health(pool: &NodePool) -> RegistrationHealth {
    let annotation = pool.metadata.annotations.get(REGISTRATIONS);
    let uid = Uid(pool.metadata.uid.clone());
    let status = pool.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let condition = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.r#type == NODE_REGISTRATION_HEALTHY)
        .map_or(ConditionStatus::Unknown, |condition| {
            condition.status.clone()
        });
    RegistrationHealth::read(annotation.map(String::as_str), &uid).or_as_shown(condition.into())
}
