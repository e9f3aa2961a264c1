//! Collection of a deleted cluster's resources (docs/design.md#mass-absence). No API server can name those still needed, so
//! only EKS is asked, for a whole day; any other reason why the cluster cannot be reached proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use api::names::tag;
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, InstanceId, Uid, counted,
    launch::InstanceState,
    ledger::{Absence, Holder, Meta, Mode, PauseLevel, SweepMemory},
    singular_or_plural,
};
use ports::{Needs, ledger::Moved};

use crate::{
    SweepReport, TurnError, World,
    act::{
        spending,
        terminations::{end_instances, refused_recently},
    },
    context::{
        identity::{InstanceOwnership, ownership_of},
        isolation::ObjectFailures,
    },
};

/// Period during which EKS must report that it has no such cluster.
const BELIEVED_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// Longest gap between two such answers; after a longer one the period starts again.
const REPEATED_WITHIN: SignedDuration = SignedDuration::from_hours(1);
/// Instances terminated per sweep: few enough that a mistake can be stopped half way.
const TERMINATED_PER_SWEEP: usize = 20;
const TEMPLATES_EVERY: SignedDuration = SignedDuration::from_hours(1);

/// Handles EKS's answer that it has no such cluster: announces the collection, and collects everything once the answer has held
/// for a day.
pub(crate) async fn collect(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
    memory: &mut SweepMemory,
    report: &mut SweepReport,
) -> Result<(), TurnError> {
    let now = world.clock.now();
    let absence = continued_absence(memory.cluster_gone.as_ref(), now);
    let since = absence.since;
    memory.cluster_gone = Some(absence);
    let believed = since.saturating_add(BELIEVED_AFTER).unwrap_or(now);
    let mut failures = ObjectFailures::default();
    let formers = memory.formers();
    let (instances, is_alone) =
        remaining_instances(world, cluster, meta, &formers, &mut failures).await?;
    let what_is_left = format!(
        "{cluster}: EKS has had no cluster of this name since {since}, and {} of it {} left",
        counted(instances.len(), "instance"),
        singular_or_plural(&instances.len(), "is", "are")
    );
    if let Some(paused) = meta.paused(PauseLevel::All, now) {
        let held = format!("{what_is_left}: nothing is collected, because {paused}");
        report.alarms.push(held);
        return Ok(());
    }
    if meta.mode != Mode::Active {
        report.alarms.push(format!(
            "{what_is_left}: nothing is collected, because the cluster is not active; remove its registry entry if it is gone for good"
        ));
        return Ok(());
    }
    if now < believed {
        report.alarms.push(format!(
            "{what_is_left}: its instances are terminated from {believed} on; to keep them, set mode \"shadow\" in its registry entry"
        ));
        return Ok(());
    }
    let recently_refused = match instances.is_empty() {
        true => BTreeSet::new(),
        false => refused_recently(world, cluster).await?,
    };
    let mut due = BTreeMap::new();
    let to_terminate = instances
        .iter()
        .filter(|instance| !recently_refused.contains(instance));
    for instance in to_terminate.take(TERMINATED_PER_SWEEP) {
        let taken = take_row(world, cluster, instance).await;
        let about = format!("owner of instance {instance}");
        if failures.isolate_unseen(about, now, taken)? == Some(true) {
            due.insert(instance.clone(), believed);
        }
    }
    let results = end_instances(world, cluster, &due).await?;
    let unreadable = failures.problems.into_iter();
    report
        .problems
        .extend(unreadable.map(|problem| format!("{cluster}: {problem}")));
    report
        .problems
        .extend(results.refused.iter().map(|(instance, refusal)| {
            format!("{cluster}: EC2 refuses to terminate instance {instance}: {refusal}")
        }));
    if let Some((count, error)) = &results.unanswered {
        let instances = counted(*count, "instance");
        let problem = format!("{cluster}: terminating {instances}: {error}");
        report.problems.push(problem);
    }
    let mut collected: BTreeSet<String> = results.ended.iter().map(ToString::to_string).collect();
    if instances.is_empty() && is_alone && !is_fresh(memory.leftovers_deleted_at, now) {
        memory.leftovers_deleted_at = Some(now);
        let no_needs = Needs {
            node_classes: &[],
            node_claims: &[],
        };
        collected.append(&mut world.upkeep.collect(cluster, &no_needs, now).await?);
    }
    if instances.is_empty() {
        spending::remove_cluster(world, cluster, meta).await?;
    }
    let collected = collected.iter().map(|name| format!("{cluster}/{name}"));
    report.collected.extend(collected);
    report.alarms.push(format!(
        "{what_is_left}: all its resources are deleted; remove its registry entry"
    ));
    Ok(())
}

fn is_fresh(at: Option<Timestamp>, now: Timestamp) -> bool {
    at.is_some_and(|at| now.duration_since(at) < TEMPLATES_EVERY)
}

fn continued_absence(before: Option<&Absence>, now: Timestamp) -> Absence {
    let since = before
        .filter(|before| now.duration_since(before.last) <= REPEATED_WITHIN)
        .map_or(now, |before| before.since);
    Absence { since, last: now }
}

/// Instances that were launched for the cluster's NodePools: those that carry its uid or that of a former cluster, and those
/// without a uid that are its own by the ledger. A cluster that was deleted before its uid was recorded is known by its name
/// alone. The second value says whether no other cluster of that name exists: launch templates and instance profiles carry the
/// name only.
async fn remaining_instances(
    world: &World,
    cluster: &ClusterName,
    meta: &Meta,
    formers: &BTreeSet<Uid>,
    failures: &mut ObjectFailures,
) -> Result<(Vec<InstanceId>, bool), TurnError> {
    let instances = world.cloud.list_instances(cluster).await?;
    let of_pools = instances
        .into_iter()
        .filter(|instance| instance.tags.contains_key(tag::NODE_POOL))
        .filter(|instance| instance.state != InstanceState::ShuttingDown);
    let (mut left, mut is_alone) = (Vec::new(), true);
    for instance in of_pools {
        let is_left = match ownership_of(&instance, meta.uid.as_ref(), formers) {
            InstanceOwnership::Ours | InstanceOwnership::FormerCluster => true,
            InstanceOwnership::OtherCluster => false,
            InstanceOwnership::Unproven if meta.uid.is_none() => true,
            InstanceOwnership::Unproven => {
                let owner = world.ledger.owner(&instance.id).await;
                let about = format!("owner of instance {}", instance.id);
                let owner = failures.isolate_unseen(about, world.clock.now(), owner)?;
                let owner = owner.flatten();
                owner.is_some_and(|owner| owner.cluster == *cluster)
            }
        };
        match is_left {
            true => left.push(instance.id),
            false => is_alone = false,
        }
    }
    Ok((left, is_alone))
}

/// Takes the instance's row; the turn that takes it wins (docs/protocol.md#g1). The NodeClaim that may hold the instance went
/// with its cluster.
async fn take_row(
    world: &World,
    cluster: &ClusterName,
    instance: &InstanceId,
) -> Result<bool, TurnError> {
    let owner = world.ledger.owner(instance).await?;
    if let Some(Holder::Claim(claim)) = owner.map(|owner| owner.holder) {
        world.ledger.close_claim(cluster, &claim).await?;
    }
    let now = world.clock.now();
    Ok(world.ledger.collect(cluster, instance, now).await? == Moved::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_starts_again_after_more_than_an_hour_without_an_answer() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let first = continued_absence(None, at(0));
        let second = continued_absence(Some(&first), at(60));
        assert_eq!((second.since, second.last), (at(0), at(60)));
        let late = continued_absence(Some(&second), at(121));
        assert_eq!(late.since, at(121), "the time between is unknown");
    }
}
