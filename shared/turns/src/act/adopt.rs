//! Adoption of NodeClaims that Whittle did not create: they are launched like Whittle's own (docs/protocol.md#a1).

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotation, finalizer, tag};
use executor::{Executor, ResolvedNodeClass};
use model::{
    Action, CapacityType, InstanceId, InstanceType, InstanceTypeName, Lane, NanosPerHour,
    NodeClaimName, NodeClassName, Offering, Plan, Snapshot,
    ids::PlanId,
    labels,
    launch::Instance,
    ledger::{Intent, IntentState, PauseLevel},
    node_claim::{NodeClaim, NodeClaimSpec},
    plan::{ExpectedOffering, Launch, Planned, Target},
    requirement::{Requirement, Requirements},
    selector::Operator,
};
use ports::ledger::Moved;

use crate::{
    Report, TurnError,
    context::{
        Turn,
        identity::{self, InstanceOwnership},
        node_claims::{instance_of, target_of},
    },
    observe::is_our_class,
};

/// Writes an intent for each of these orphans and returns the intents that this turn may launch now.
pub(crate) async fn adopt(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    snapshot: &Snapshot,
    classes: &BTreeMap<NodeClassName, ResolvedNodeClass>,
    orphans: &[&NodeClaim],
) -> Result<Vec<Intent>, TurnError> {
    let mut adopted = Vec::new();
    for claim in orphans {
        let Some(class) = classes.get(&claim.spec.node_class.name) else {
            continue;
        };
        let surcharge = snapshot.surcharge_of(claim.node_pool().as_ref());
        let launch = launch_of(claim, class, surcharge);
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
        // If this turn dies, the provisioner resumes the launch, as with every intent.
        let due = executor.lease().until;
        if turn
            .world
            .ledger
            .adopt_intent(turn.cluster, &intent, Lane::Provisioner, due)
            .await?
            == Moved::Yes
        {
            adopted.push(intent);
        }
    }
    Ok(adopted)
}

/// Takes NodeClaims that were created too late out of the orphans and deletes them: the API server carried out a create request
/// after its launch had been given up and its row was gone. A row lives as long as its NodeClaim (docs/protocol.md#a1), so no
/// instance is being launched for such a NodeClaim, unless only its row was lost.
pub(crate) async fn created_too_late(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    orphans: &mut Vec<&NodeClaim>,
    report: &mut Report,
) -> Result<Plan, TurnError> {
    let (committed, mut others): (Vec<&NodeClaim>, Vec<_>) = orphans.iter().partition(|claim| {
        let committed = claim.annotations.get(annotation::COMMITTED);
        committed.is_some_and(|name| name == claim.name.as_str())
    });
    if committed.is_empty() {
        return Ok(Plan::default());
    }
    let names = committed.iter().map(|claim| &claim.name).collect();
    let existing = existing_instances(turn, snapshot, &names, report).await?;
    let (launched, late): (Vec<&NodeClaim>, Vec<_>) = committed
        .into_iter()
        .partition(|claim| existing.contains_key(&claim.name));
    others.extend(launched);
    *orphans = others;
    let deletions = late.into_iter().map(|claim| Planned {
        action: Action::DeleteNodeClaim(Target {
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            resource_version: claim.resource_version.clone(),
        }),
        because: format!(
            "NodeClaim {} was created after its launch was given up",
            claim.name
        ),
    });
    Ok(Plan {
        actions: deletions.collect(),
        ..Plan::default()
    })
}

/// NodeClaims that have neither an instance nor a launch on record. While everything is paused, they wait
/// (docs/protocol.md#c4).
pub(crate) async fn orphans<'a>(
    turn: &Turn<'_>,
    snapshot: &'a Snapshot,
    report: &mut Report,
) -> Result<Vec<&'a NodeClaim>, TurnError> {
    let is_held = |claim: &NodeClaim| {
        let pool = claim.node_pool();
        let paused = snapshot.paused(pool.as_ref(), PauseLevel::All, turn.now);
        paused.is_some()
    };
    let without_instance = snapshot.node_claims.iter().filter(|claim| {
        claim.deleted_at.is_none()
            && !is_held(claim)
            && claim.status.provider_id.is_empty()
            && is_our_class(&claim.spec.node_class)
            // Deletion of the NodeClaim must wait for its instance: the finalizer is set first, then the call is made.
            && claim.finalizers.iter().any(|name| name == finalizer::TERMINATION)
    });
    let mut orphans = Vec::new();
    for claim in without_instance {
        let ledger = &turn.world.ledger;
        let intent = ledger.intent(turn.cluster, &claim.name).await;
        // A row that cannot be read counts as an intent, too.
        if let Some(None) = report.isolate(&target_of(claim), intent)? {
            orphans.push(claim);
        }
    }
    Ok(orphans)
}

/// Instances that were launched for these NodeClaims by a turn that died before it recorded them.
pub(crate) async fn existing_instances(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
    claims: &BTreeSet<&NodeClaimName>,
    report: &mut Report,
) -> Result<BTreeMap<NodeClaimName, Instance>, TurnError> {
    let named: BTreeSet<InstanceId> = snapshot
        .node_claims
        .iter()
        .filter_map(instance_of)
        .collect();
    let mut free: Vec<Instance> = Vec::new();
    for instance in turn.world.cloud.list_instances(turn.cluster).await? {
        let ownership = identity::ownership_of(&instance, turn.meta.uid.as_ref(), &BTreeSet::new());
        let is_taken = named.contains(&instance.id)
            || !instance.state.is_alive()
            || !matches!(
                ownership,
                InstanceOwnership::Ours | InstanceOwnership::Unproven
            );
        if is_taken {
            continue;
        }
        let owner = turn.world.ledger.owner(&instance.id).await;
        let about = format!("owner of instance {}", instance.id);
        // A row that cannot be read counts as an owner, too.
        if let Some(None) = report.isolate_unseen(about, owner)? {
            free.push(instance);
        }
    }
    free.sort_by(|a, b| (a.launched_at, &a.id).cmp(&(b.launched_at, &b.id)));
    let mut claims: Vec<&NodeClaim> = snapshot
        .node_claims
        .iter()
        .filter(|claim| claims.contains(&claim.name))
        .collect();
    claims.sort_by(|a, b| (a.created_at, &a.name).cmp(&(b.created_at, &b.name)));
    let mut existing = BTreeMap::new();
    for claim in claims {
        if let Some(found) = free
            .iter()
            .position(|instance| was_launched_for(instance, claim))
        {
            existing.insert(claim.name.clone(), free.remove(found));
        }
    }
    Ok(existing)
}

/// Whether an instance without an owner was launched for this NodeClaim, as far as its tags show: Karpenter tags an instance
/// with the NodeClaim's name only once its node has joined. An instance that this stack launched carries the stack's own tag.
fn was_launched_for(instance: &Instance, claim: &NodeClaim) -> bool {
    let tagged = |key: &str| instance.tags.get(key).map(String::as_str);
    if let Some(name) = tagged(tag::NODE_CLAIM) {
        return name == claim.name.as_str();
    }
    let wanted = Requirements::from_selector(&claim.spec.requirements);
    let admits = |key: &str, value: &str| {
        wanted
            .get(key)
            .is_none_or(|requirement| requirement.has(value))
    };
    tagged(tag::LAUNCH).is_none()
        && tagged(tag::NODE_POOL) == claim.node_pool().as_ref().map(|pool| pool.as_str())
        && tagged(tag::EC2_NODE_CLASS) == Some(claim.spec.node_class.name.as_str())
        && instance.launched_at >= claim.created_at
        && admits(labels::INSTANCE_TYPE, &instance.instance_type)
        && admits(labels::ZONE, &instance.zone)
        && admits(labels::CAPACITY_TYPE, instance.capacity_type.as_str())
}

/// Launch for a NodeClaim, with every instance type that the NodeClaim admits. If it admits none, the launch itself reports
/// that.
fn launch_of(claim: &NodeClaim, class: &ResolvedNodeClass, surcharge: NanosPerHour) -> Launch {
    let (instance_types, cheapest) = instance_type_options(&claim.spec, class, surcharge);
    Launch {
        name: claim.name.clone(),
        node_pool: claim.node_pool().unwrap_or_default(),
        node_pool_uid: model::Uid::default(),
        labels: claim.labels.clone(),
        annotations: claim.annotations.clone(),
        spec: claim.spec.clone(),
        pods: Vec::new(),
        cheapest,
        instance_types,
    }
}

/// Instance types that a NodeClaim admits, cheapest first, and the offering expected from them.
pub(crate) fn instance_type_options(
    spec: &NodeClaimSpec,
    class: &ResolvedNodeClass,
    surcharge: NanosPerHour,
) -> (Vec<InstanceTypeName>, ExpectedOffering) {
    let wanted = Requirements::from_selector(&spec.requirements);
    let mut options: Vec<(&InstanceType, &Offering)> = class
        .types
        .iter()
        .filter_map(|instance_type| {
            Some((
                instance_type,
                cheapest_offering(instance_type, &wanted, spec)?,
            ))
        })
        .collect();
    options.sort_by(|(a, x), (b, y)| (x.price, &a.name).cmp(&(y.price, &b.name)));
    let cheapest = options.first().map_or_else(
        || ExpectedOffering {
            instance_type: String::new(),
            capacity_type: CapacityType::OnDemand,
            zone: String::new(),
            price: NanosPerHour(0),
            capacity: spec.requests.clone(),
        },
        |(instance_type, offering)| ExpectedOffering {
            instance_type: instance_type.name.clone(),
            capacity_type: offering.capacity_type,
            zone: offering.zone.clone(),
            price: offering.price.plus(surcharge),
            capacity: instance_type.capacity.clone(),
        },
    );
    let types = options
        .iter()
        .map(|(instance_type, _)| instance_type.name.as_str().into());
    let types = types.take(Launch::INSTANCE_TYPES_MAX).collect();
    (types, cheapest)
}

/// Cheapest available offering of an instance type that the NodeClaim admits, if the type is big enough.
fn cheapest_offering<'a>(
    instance_type: &'a InstanceType,
    wanted: &Requirements,
    spec: &NodeClaimSpec,
) -> Option<&'a Offering> {
    let compatible = wanted.0.values().all(|requirement| {
        instance_type
            .requirements
            .get(&requirement.key)
            .is_none_or(|offered| offered.intersects(requirement))
    });
    if !compatible || !spec.requests.fits(&instance_type.allocatable()) {
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
    instance_type
        .offerings
        .iter()
        .filter(admitted)
        .min_by_key(|offering| offering.price)
}
