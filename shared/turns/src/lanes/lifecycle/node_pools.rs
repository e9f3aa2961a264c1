//! NodePool status: whether it can launch, and the resources of its nodes (docs/spec/lifecycle.md#node-pool-status).

use api::{
    Condition, ConditionSet, ConditionStatus, EC2NodeClass, NodePool, ObjectMeta,
    conditions::types, karpenter::NodePoolStatus, names::annotation::REGISTRATIONS,
};
use jiff::Timestamp;
use model::{
    Lane, NodePoolName, Resources,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NODES, PODS, amount_text},
};
use planner::Inventory;
use ports::cluster::{Event, EventTarget};

use crate::{
    Report, TurnError,
    context::Turn,
    lanes::lifecycle::{hashes, registrations},
    observe::Observed,
    report::events,
};

/// Writes outdated hashes and statuses of NodePools.
pub(crate) async fn update_status(
    turn: &Turn<'_>,
    observed: &mut Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    hashes::update_node_pools(turn, &mut observed.snapshot, report).await;
    emit_warnings(turn, observed, report).await;
    let inventory = Inventory::new(&observed.snapshot);
    for pool in &mut observed.node_pools {
        let name = NodePoolName::from(pool.metadata.name.as_str());
        let usage = inventory.usage(&name);
        let about = target_of(&pool.metadata);
        let updated = update_one(turn, pool, &observed.node_classes, &usage, report).await;
        if !report.may_continue_after(&about, updated) {
            break;
        }
    }
    Ok(())
}

async fn emit_warnings(turn: &Turn<'_>, observed: &Observed, report: &mut Report) {
    let unreadable = observed.unreadable_pools.iter();
    let unreadable = unreadable.map(|pool| events::of_unreadable_pool(pool, turn.now));
    let old = observed.node_pools.iter().filter_map(|pool| {
        let metadata = &pool.metadata;
        events::of_old_version(target_of(metadata), metadata, turn.now)
    });
    let emitted: Vec<Event> = unreadable.chain(old).collect();
    events::post(turn, &emitted, report).await;
}

pub(super) fn target_of(metadata: &ObjectMeta) -> EventTarget {
    EventTarget::NodePool(metadata.name.as_str().into(), metadata.uid.clone().into())
}

async fn update_one(
    turn: &Turn<'_>,
    pool: &mut NodePool,
    classes: &[EC2NodeClass],
    usage: &Resources,
    report: &mut Report,
) -> Result<(), TurnError> {
    let name = NodePoolName::from(pool.metadata.name.as_str());
    let emitted = events::of_annotations(pool, turn.now);
    events::post(turn, &emitted, report).await;
    let status = status(pool, classes, usage, turn.now);
    if pool.status.as_ref() == Some(&status) {
        return Ok(());
    }
    if registrations::is_outdated(pool, class_of(pool, classes))
        && pool.metadata.annotations.contains_key(REGISTRATIONS)
    {
        let reset = registrations::reset_annotation(pool);
        turn.api.annotate_node_pool(&name, &reset).await?;
        pool.metadata.annotations.extend(reset);
    }
    turn.api.update_node_pool_status(&name, &status).await?;
    let about = target_of(&pool.metadata);
    let before = conditions(pool.status.as_ref());
    let after = conditions(Some(&status));
    let emitted = events::of_conditions(&about, before, after, turn.now);
    let becomes_ready = is_ready(after) && !is_ready(before);
    pool.status = Some(status);
    if becomes_ready {
        // A turn that was woken when the NodeClass became ready may have read the NodePool as it was before.
        turn.wake(Lane::Provisioner, "nodepool-ready").await?;
    }
    events::post(turn, &emitted, report).await;
    Ok(())
}

fn conditions(status: Option<&NodePoolStatus>) -> &[Condition] {
    let conditions = status.and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default()
}

fn is_ready(conditions: &[Condition]) -> bool {
    let mut conditions = conditions.iter();
    let ready = conditions.find(|condition| condition.r#type == types::READY);
    ready.is_some_and(|ready| ready.status == ConditionStatus::True)
}

fn class_of<'a>(pool: &NodePool, classes: &'a [EC2NodeClass]) -> Option<&'a EC2NodeClass> {
    let name = &pool.spec.template.spec.node_class_ref.name;
    classes.iter().find(|class| class.metadata.name == *name)
}

fn status(
    pool: &NodePool,
    classes: &[EC2NodeClass],
    usage: &Resources,
    now: Timestamp,
) -> NodePoolStatus {
    let mut status = pool.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.take().unwrap_or_default();
    let condition_types = types::node_pool();
    let mut set = ConditionSet::new(&condition_types, &mut conditions, &pool.metadata, now);
    let problems: Vec<String> = api::validation::node_pool(pool)
        .iter()
        .map(ToString::to_string)
        .collect();
    if problems.is_empty() {
        set.set_true(types::VALIDATION_SUCCEEDED);
    } else {
        set.set_false(
            types::VALIDATION_SUCCEEDED,
            "NodePoolValidationFailed",
            &problems.join("; "),
        );
    }
    let class = class_of(pool, classes);
    set_class_condition(class, &mut set);
    if registrations::is_outdated(pool, class) {
        let awaited = (
            "AwaitingReconciliation",
            "object is awaiting reconciliation",
        );
        set.set_unknown(types::NODE_REGISTRATION_HEALTHY, awaited.0, awaited.1);
    }
    if let Some(class) = class {
        status.node_class_observed_generation = class.metadata.generation;
    }
    status.conditions = Some(conditions);
    status.nodes = usage.get(NODES);
    let mut shown = Resources::default();
    for name in [CPU, MEMORY, PODS, EPHEMERAL_STORAGE, NODES] {
        shown.set(name, 0);
    }
    shown.0.extend(usage.0.clone());
    let text = |(name, amount): (&str, i64)| {
        (
            name.to_owned(),
            serde_json::Value::String(amount_text(name, amount)),
        )
    };
    let list: serde_json::Map<String, serde_json::Value> = shown.iter().map(text).collect();
    status.resources = serde_json::from_value(serde_json::Value::Object(list)).ok();
    status
}

fn set_class_condition(class: Option<&EC2NodeClass>, set: &mut ConditionSet<'_>) {
    let kind = types::NODE_CLASS_READY;
    let Some(class) = class else {
        set.set_false(kind, "NodeClassNotFound", "NodeClass not found on cluster");
        return;
    };
    if class.metadata.is_deleting() {
        set.set_false(kind, "NodeClassTerminating", "NodeClass is Terminating");
        return;
    }
    let conditions = class
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    match conditions
        .iter()
        .find(|condition| condition.r#type == types::READY)
    {
        Some(ready) if ready.status == ConditionStatus::True => set.set_true(kind),
        Some(ready) if ready.status == ConditionStatus::False => {
            set.set_false(kind, &ready.reason, &ready.message)
        }
        Some(_) | None => {
            set.set_false(
                kind,
                "NodeClassReadinessUnknown",
                "Node Class Readiness Unknown",
            );
        }
    }
}
