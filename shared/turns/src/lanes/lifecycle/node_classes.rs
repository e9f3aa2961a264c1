//! EC2NodeClass status: the resources that the selectors resolve to, and whether nodes can be launched with them
//! (docs/spec/aws.md#ec2-node-class).

use api::{EC2NodeClass, ObjectMeta, names::finalizer};
use model::{Lane, Snapshot, Warning};
use ports::{
    Resolved,
    cluster::{Event, EventTarget},
};

use super::hashes;
use crate::{
    Report, TurnError,
    context::Turn,
    observe::{Observed, node_class::readiness},
    report::events,
};

/// Resolves every NodeClass and writes changed statuses. A NodeClass that cannot be resolved does not stop the others.
pub(crate) async fn update_status(
    turn: &Turn<'_>,
    observed: &mut Observed,
    report: &mut Report,
) -> Result<(), TurnError> {
    for class in &mut observed.node_classes {
        let about = target_of(&class.metadata);
        let updated = update_one(turn, class, &mut observed.snapshot, report).await;
        if !report.may_continue_after(&about, updated) {
            break;
        }
    }
    emit_warnings(turn, observed, report).await;
    Ok(())
}

/// Emits events about old API versions, for each class, and about prices, which concern every NodeClass.
async fn emit_warnings(turn: &Turn<'_>, observed: &Observed, report: &mut Report) {
    let old = observed.node_classes.iter().filter_map(|class| {
        let metadata = &class.metadata;
        events::of_old_version(target_of(metadata), metadata, turn.now)
    });
    let old: Vec<Event> = old.collect();
    events::post(turn, &old, report).await;
    if observed.price_warnings.is_empty() {
        return;
    }
    let warning = Warning {
        reason: events::PRICES_NOT_CURRENT,
        message: observed.price_warnings.join("; "),
    };
    let classes = observed.node_classes.iter();
    let emitted: Vec<Event> = classes
        .map(|class| events::of_node_class(class, warning.clone(), turn.now))
        .collect();
    events::post(turn, &emitted, report).await;
}

fn target_of(metadata: &ObjectMeta) -> EventTarget {
    EventTarget::NodeClass(metadata.name.clone(), metadata.uid.as_str().into())
}

async fn update_one(
    turn: &Turn<'_>,
    class: &mut EC2NodeClass,
    snapshot: &mut Snapshot,
    report: &mut Report,
) -> Result<(), TurnError> {
    let name = class.metadata.name.clone();
    let held = class
        .metadata
        .finalizers
        .iter()
        .any(|other| other == finalizer::EC2_NODE_CLASS);
    if class.metadata.is_deleting() {
        let claims = snapshot.node_claims.iter();
        let in_use = claims
            .into_iter()
            .any(|claim| claim.spec.node_class.name.0 == name);
        if held && !in_use {
            turn.world.node_classes.release(turn.cluster, class).await?;
            turn.api.set_node_class_finalizer(&name, false).await?;
        }
        return Ok(());
    }
    if !held {
        turn.api.set_node_class_finalizer(&name, true).await?;
        class
            .metadata
            .finalizers
            .push(finalizer::EC2_NODE_CLASS.to_owned());
    }
    let Resolved {
        status,
        hash,
        warnings,
    } = turn
        .world
        .node_classes
        .resolve(turn.cluster, class, &snapshot.node_pools, turn.now)
        .await?;
    let emitted: Vec<Event> = warnings
        .into_iter()
        .map(|warning| events::of_node_class(class, warning, turn.now))
        .collect();
    events::post(turn, &emitted, report).await;
    if class.status.as_ref() != Some(&status) {
        turn.api.update_node_class_status(&name, &status).await?;
        let was_ready = readiness(class).is_ok();
        class.status = Some(status);
        if !was_ready && readiness(class).is_ok() {
            // Pods may wait for that alone.
            turn.wake(Lane::Provisioner, "nodeclass-ready").await?;
        }
    }
    if let Some(hash) = hash {
        hashes::update_node_class(turn, class, &hash, &mut snapshot.node_claims).await?;
    }
    Ok(())
}
