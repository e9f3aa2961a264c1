//! End of capacity blocks: the end time is known, and EC2 takes the instances back half an hour before it
//! (docs/spec/aws.md#capacity-blocks).

use std::collections::BTreeMap;

use api::{EC2NodeClass, karpenter::CapacityReservationType, names::label};
use jiff::{SignedDuration, Timestamp};
use model::{InstanceId, Interruption, InterruptionKind, interruption::CapacityBlockEnd};

use super::interrupt;
use crate::{
    Report, TurnError, World,
    context::{Turn, node_claims::instance_of},
    observe::Observed,
};

/// Time before the block's end at which its nodes are drained.
const DRAINED_BEFORE_END: SignedDuration = SignedDuration::from_mins(40);
/// Time before the block's end at which EC2 begins to take its instances back.
const RECLAIMED_BEFORE_END: SignedDuration = SignedDuration::from_mins(30);

/// Handles nodes of blocks that are about to end as if AWS had announced the end of each instance. The turn is scheduled again
/// for the other blocks.
pub(crate) async fn handle_ending_blocks(
    turn: &Turn<'_>,
    observed: &Observed,
    report: &mut Report,
) {
    let ends = block_ends(&observed.node_classes);
    let mut facts = Vec::new();
    let claims = observed.snapshot.node_claims.iter();
    for claim in claims.filter(|claim| claim.deleted_at.is_none()) {
        let reservation = claim.labels.get(label::CAPACITY_RESERVATION_ID);
        let Some(end) = reservation.and_then(|id| ends.get(id.as_str())) else {
            continue;
        };
        let at = end
            .saturating_sub(DRAINED_BEFORE_END)
            .unwrap_or(Timestamp::MIN);
        if turn.now < at {
            report.run_again_at(at);
        } else if let Some(instance) = instance_of(claim) {
            facts.push(expiring_fact(instance, at, *end));
        }
    }
    if facts.is_empty() {
        return;
    }
    let outcomes = Box::pin(interrupt(turn.world, &facts, turn.id)).await;
    for (fact, outcome) in facts.iter().zip(outcomes) {
        let (instance, kind) = (&fact.instance, fact.kind.as_str());
        tracing::info!(%instance, kind, ?outcome, "interruption handled");
        if let Err(error) = outcome {
            report
                .problems
                .push(format!("{kind} of {instance}: {error}"));
        }
    }
}

/// Interruptions of all instances in a block whose end is announced, even if no EC2NodeClass selects the block any
/// more.
pub(crate) async fn interruptions_of_block(
    world: &World,
    block: &CapacityBlockEnd,
) -> Result<Vec<Interruption>, TurnError> {
    let instances = world
        .cloud
        .instances_of_reservation(&block.reservation)
        .await?;
    // AWS announces the end this long before.
    let end = block
        .end
        .or_else(|| block.at.checked_add(DRAINED_BEFORE_END).ok());
    let alive = instances
        .into_iter()
        .filter(|instance| instance.state.is_alive());
    let facts = alive.filter_map(|instance| Some(expiring_fact(instance.id, block.at, end?)));
    Ok(facts.collect())
}

fn expiring_fact(instance: InstanceId, at: Timestamp, end: Timestamp) -> Interruption {
    Interruption {
        instance,
        kind: InterruptionKind::CapacityBlockExpiring,
        at: Some(at),
        deadline: end.checked_sub(RECLAIMED_BEFORE_END).ok(),
        hook: None,
        event: String::new(),
        reboots: false,
    }
}

/// End times of all blocks that NodeClasses select, by reservation id.
fn block_ends(classes: &[EC2NodeClass]) -> BTreeMap<&str, Timestamp> {
    let reservations = classes
        .iter()
        .filter_map(|class| class.status.as_ref()?.capacity_reservations.as_ref());
    reservations
        .flatten()
        .filter(|reservation| {
            reservation.reservation_type == CapacityReservationType::CapacityBlock
        })
        .filter_map(|block| Some((block.id.as_str(), block.end_time?)))
        .collect()
}
