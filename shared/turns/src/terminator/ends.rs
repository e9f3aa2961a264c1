//! Ends of instances: whether those of deleted NodeClaims have ended, and how launches of deleted NodeClaims turned out.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::types::{LAUNCHED, REGISTERED},
    names::tag,
};
use executor::{Executor, ReleaseState};
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, InstanceId, Snapshot,
    launch::{Instance, InstanceState},
    node::ConditionStatus,
    node_claim::NodeClaim,
};
use planner::Gone;
use ports::CloudError;

use super::LOOK_AGAIN;
use crate::{
    Report, TurnError,
    lane::Turn,
    lifecycle::{instance_of, target_of},
    metrics,
    observe::is_our_class,
    terminations::{end_instances, refusal_event, resting, retry_after},
};

/// Age up to which an instance that EC2 does not list may be too new to be listed.
const SHOWN_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Keeps a deleting NodeClaim without an instance until its launch is resolved and the launched instance is terminated
/// (docs/protocol.md#a5).
pub(super) async fn resolve_launches(
    turn: &Turn<'_>,
    executor: &Executor<'_>,
    snapshot: &Snapshot,
    report: &mut Report,
) -> Result<(), TurnError> {
    let mut launched = Vec::new();
    for claim in unlaunched(snapshot) {
        let released = executor.release(claim).await;
        match report.isolate(&target_of(claim), released)? {
            None | Some(ReleaseState::Free) => {}
            Some(ReleaseState::Wait(until)) => report.look_again(until),
            Some(ReleaseState::Instance(instance)) => launched.push((claim, instance)),
        }
    }
    if launched.is_empty() {
        return Ok(());
    }
    let found = described(turn, &launched).await?;
    let resting = resting(turn.world, turn.cluster).await?;
    let mut dying = BTreeMap::new();
    for (claim, instance) in &launched {
        let since = claim.deleted_at.unwrap_or(turn.now);
        let has_ended = match end_of(found.get(instance), snapshot, claim, instance) {
            End::Seen => true,
            End::Unshown => {
                let ended = end_unshown(turn, instance.clone(), since).await;
                report.isolate(&target_of(claim), ended)?.unwrap_or(false)
            }
            End::Begun => false,
            End::NotYet if resting.contains(instance) => {
                report.look_again(turn.now + retry_after(turn.now.duration_since(since)));
                continue;
            }
            End::NotYet => {
                dying.insert(instance.clone(), since);
                false
            }
        };
        if has_ended {
            let finished = executor.finish_claim(claim).await;
            report.isolate(&target_of(claim), finished)?;
        } else {
            report.look_again(turn.world.clock.now() + LOOK_AGAIN);
        }
    }
    let came = end_instances(turn.world, turn.cluster, &dying).await?;
    for (claim, instance) in &launched {
        if let Some(refusal) = came.refused.get(instance) {
            let event = refusal_event(target_of(claim), instance, refusal, turn.now);
            report.objects.events.push(event);
        }
    }
    let failed = metrics::of_ending(turn.lane, &came, &[]);
    report.metrics.extend(failed);
    report.take_unanswered(came.unanswered, turn.now + LOOK_AGAIN);
    Ok(())
}

/// Terminates an instance that EC2 does not list. Returns whether its NodeClaim may go. Descriptions lag behind: an unlisted
/// instance may live, and does not once its termination was accepted. A refusal is no proof of absence, since EC2 also denies
/// what exists; an answer that the instance is unknown is.
pub(crate) async fn end_unshown(
    turn: &Turn<'_>,
    instance: InstanceId,
    since: Timestamp,
) -> Result<bool, TurnError> {
    if resting(turn.world, turn.cluster).await?.contains(&instance) {
        return Ok(false);
    }
    let due = BTreeMap::from([(instance.clone(), since)]);
    let came = end_instances(turn.world, turn.cluster, &due).await?;
    if came.ended.contains(&instance) {
        return Ok(true);
    }
    if let Some(refusal) = came.refused.get(&instance) {
        if !turn.world.cloud.knows_instance(&instance).await? {
            return Ok(true);
        }
        return Err(TurnError::Cloud(CloudError::Invalid {
            action: format!("ending instance {instance}"),
            code: refusal.code.clone(),
            message: format!("{}; {}", refusal.message, refusal.remedy()),
        }));
    }
    match came.unanswered {
        Some((_, CloudError::Postponed { .. })) | None => Ok(false),
        Some((_, error)) => Err(error.into()),
    }
}

pub(super) fn unlaunched(snapshot: &Snapshot) -> impl Iterator<Item = &NodeClaim> {
    snapshot.node_claims.iter().filter(|claim| {
        claim.deleted_at.is_some()
            && claim.status.provider_id.is_empty()
            && is_our_class(&claim.spec.node_class)
    })
}

/// Instances of NodeClaims, read from EC2 by one call.
async fn described(
    turn: &Turn<'_>,
    wanted: &[(&NodeClaim, InstanceId)],
) -> Result<BTreeMap<InstanceId, Instance>, TurnError> {
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: Vec<InstanceId> = wanted.iter().map(|(_, id)| id.clone()).collect();
    let found = turn.world.cloud.describe_instances(&ids).await?;
    let found = found.into_iter();
    Ok(found
        .map(|instance| (instance.id.clone(), instance))
        .collect())
}

/// Whether the kubelet of an instance reports it ready.
fn speaks(snapshot: &Snapshot, instance: &InstanceId) -> bool {
    let mut nodes = snapshot.nodes.iter();
    nodes.any(|node| {
        node.ready.status == ConditionStatus::True
            && node.provider_id.rsplit('/').next() == Some(instance.as_str())
    })
}

/// Whether an instance has ended, by EC2's descriptions, which lag behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    /// EC2 shows the instance as shutting down, which nothing stops.
    Begun,
    /// EC2 shows the instance as terminated.
    Seen,
    /// EC2 does not list the instance although it is old enough to be listed, and no kubelet reports it ready.
    Unshown,
}

fn end_of(
    shown: Option<&Instance>,
    snapshot: &Snapshot,
    claim: &NodeClaim,
    id: &InstanceId,
) -> End {
    let is_new = |at: Timestamp| snapshot.now.duration_since(at) < SHOWN_AFTER;
    let launched = claim.condition(LAUNCHED);
    let launched = launched.map(|launched| launched.last_transition);
    match shown {
        Some(instance) if instance.state == InstanceState::Terminated => End::Seen,
        Some(instance) if instance.state == InstanceState::ShuttingDown => End::Begun,
        Some(_) => End::NotYet,
        None if claim.created_at.is_some_and(is_new) || launched.is_some_and(is_new) => End::NotYet,
        None if speaks(snapshot, id) => End::NotYet,
        None => End::Unshown,
    }
}

/// Ends of the instances of deleting NodeClaims and Nodes.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) gone: Gone,
    /// Instances that EC2 does not list: their termination is requested before they are believed gone.
    pub(super) unshown: BTreeSet<InstanceId>,
}

/// Reads the ends of all these instances by one call.
pub(super) async fn ends(turn: &Turn<'_>, snapshot: &Snapshot) -> Result<Ends, TurnError> {
    let deleted_nodes: BTreeSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| node.deleted_at.is_some())
        .map(|node| node.provider_id.as_str())
        .collect();
    let dying: Vec<(&NodeClaim, InstanceId)> = snapshot
        .node_claims
        .iter()
        .filter(|claim| {
            claim.deleted_at.is_some() || deleted_nodes.contains(claim.status.provider_id.as_str())
        })
        .filter_map(|claim| Some((claim, instance_of(claim)?)))
        .collect();
    let found = described(turn, &dying).await?;
    let resting = match dying.is_empty() {
        true => BTreeSet::new(),
        false => resting(turn.world, turn.cluster).await?,
    };
    let mut ends = Ends::default();
    for (claim, id) in dying {
        let instance = found.get(&id);
        let end = end_of(instance, snapshot, claim, &id);
        if resting.contains(&id) {
            let again = turn.now
                + retry_after(
                    turn.now
                        .duration_since(claim.deleted_at.unwrap_or(snapshot.now)),
                );
            ends.gone
                .refused
                .insert(claim.status.provider_id.clone(), again);
        }
        match end {
            End::NotYet => {}
            End::Begun => {
                ends.gone.ending.insert(claim.status.provider_id.clone());
            }
            End::Seen | End::Unshown => {
                ends.gone.instances.insert(claim.status.provider_id.clone());
                if end == End::Unshown {
                    ends.unshown.insert(id);
                }
                continue;
            }
        }
        if let Some(instance) = instance {
            if let Some(other) = renamed(instance, claim, turn.cluster) {
                let clause = format!("carries the name of cluster {other}, not {}", turn.cluster);
                ends.gone.misnamed.insert(claim.name.clone(), clause);
            } else if !belongs(instance, claim, turn.cluster) {
                ends.gone.strangers.insert(claim.name.clone());
            }
        }
    }
    Ok(ends)
}

/// The cluster whose name an instance carries, where it differs from this one's although the NodeClaim's node joined here: the
/// cluster was registered under that name before.
fn renamed<'a>(
    instance: &'a Instance,
    claim: &NodeClaim,
    cluster: &ClusterName,
) -> Option<&'a str> {
    let name = instance.tags.get(tag::EKS_CLUSTER)?;
    (*name != cluster.0 && claim.is_true(REGISTERED)).then_some(name)
}

/// Whether an instance is this NodeClaim's, by its tags: a NodeClaim that was written by hand may name any instance.
fn belongs(instance: &Instance, claim: &NodeClaim, cluster: &ClusterName) -> bool {
    let tags = &instance.tags;
    let of_cluster = tags.get(tag::EKS_CLUSTER) == Some(&cluster.0)
        || tags.contains_key(&format!("{}{cluster}", tag::CLUSTER_PREFIX));
    let of_another = tags
        .get(tag::NODE_CLAIM)
        .is_some_and(|name| *name != claim.name.0);
    of_cluster && tags.contains_key(tag::NODE_POOL) && !of_another
}
