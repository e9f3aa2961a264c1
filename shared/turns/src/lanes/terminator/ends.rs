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
use planner::InstanceStatuses;

use super::RECHECK_AFTER;
use crate::{
    Report, TurnError,
    act::{
        missing_in_ec2::terminate_missing_in_ec2,
        terminations::{end_instances, refusal_event, refused_recently, retry_after},
    },
    context::{
        Turn,
        node_claims::{instance_of, target_of},
    },
    observe::is_our_class,
    report::metrics,
};

/// Age up to which an instance that EC2 does not list may be too new to be listed.
const LISTED_AFTER: SignedDuration = SignedDuration::from_secs(60);

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
            Some(ReleaseState::Wait(until)) => report.run_again_at(until),
            Some(ReleaseState::Instance(instance)) => launched.push((claim, instance)),
        }
    }
    if launched.is_empty() {
        return Ok(());
    }
    let found = describe_instances_of(turn, &launched).await?;
    let recently_refused = refused_recently(turn.world, turn.cluster).await?;
    let mut terminations = BTreeMap::new();
    for (claim, instance) in &launched {
        let since = claim.deleted_at.unwrap_or(turn.now);
        let has_ended = match end_of(found.get(instance), snapshot, claim, instance) {
            InstanceEnd::Terminated => true,
            InstanceEnd::MissingInEc2 => {
                let id = instance.clone();
                let ended = terminate_missing_in_ec2(turn, id, since, &recently_refused);
                report
                    .isolate(&target_of(claim), ended.await)?
                    .unwrap_or(false)
            }
            InstanceEnd::ShuttingDown => false,
            InstanceEnd::NotYet if recently_refused.contains(instance) => {
                report.run_again_at(turn.now + retry_after(turn.now.duration_since(since)));
                continue;
            }
            InstanceEnd::NotYet => {
                terminations.insert(instance.clone(), since);
                false
            }
        };
        if has_ended {
            let finished = executor.finish_claim(claim).await;
            report.isolate(&target_of(claim), finished)?;
        } else {
            report.run_again_at(turn.world.clock.now() + RECHECK_AFTER);
        }
    }
    let results = end_instances(turn.world, turn.cluster, &terminations).await?;
    for (claim, instance) in &launched {
        if let Some(refusal) = results.refused.get(instance) {
            let event = refusal_event(target_of(claim), instance, refusal, turn.now);
            report.objects.events.push(event);
        }
    }
    let failed = metrics::of_ending(turn.lane, &results, &[]);
    report.metrics.extend(failed);
    report.take_unanswered(results.unanswered, turn.now + RECHECK_AFTER);
    Ok(())
}

pub(super) fn unlaunched(snapshot: &Snapshot) -> impl Iterator<Item = &NodeClaim> {
    snapshot.node_claims.iter().filter(|claim| {
        claim.deleted_at.is_some()
            && claim.status.provider_id.is_empty()
            && is_our_class(&claim.spec.node_class)
    })
}

/// Instances of NodeClaims, read from EC2 by one call.
async fn describe_instances_of(
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
fn kubelet_is_ready(snapshot: &Snapshot, instance: &InstanceId) -> bool {
    let mut nodes = snapshot.nodes.iter();
    nodes.any(|node| {
        node.ready.status == ConditionStatus::True
            && node.provider_id.rsplit('/').next() == Some(instance.as_str())
    })
}

/// Whether an instance has ended, by EC2's descriptions, which lag behind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InstanceEnd {
    NotYet,
    /// EC2 shows the instance as shutting down, which nothing stops.
    ShuttingDown,
    /// EC2 shows the instance as terminated.
    Terminated,
    /// EC2 does not list the instance although it is old enough to be listed, and no kubelet reports it ready.
    MissingInEc2,
}

fn end_of(
    shown: Option<&Instance>,
    snapshot: &Snapshot,
    claim: &NodeClaim,
    id: &InstanceId,
) -> InstanceEnd {
    let is_new = |at: Timestamp| snapshot.now.duration_since(at) < LISTED_AFTER;
    let launched = claim.condition(LAUNCHED);
    let launched = launched.map(|launched| launched.last_transition);
    match shown {
        Some(instance) if instance.state == InstanceState::Terminated => InstanceEnd::Terminated,
        Some(instance) if instance.state == InstanceState::ShuttingDown => {
            InstanceEnd::ShuttingDown
        }
        Some(_) => InstanceEnd::NotYet,
        None if claim.created_at.is_some_and(is_new) || launched.is_some_and(is_new) => {
            InstanceEnd::NotYet
        }
        None if kubelet_is_ready(snapshot, id) => InstanceEnd::NotYet,
        None => InstanceEnd::MissingInEc2,
    }
}

/// Ends of the instances of deleting NodeClaims and Nodes.
#[derive(Default)]
pub(super) struct InstanceEnds {
    pub(super) gone: InstanceStatuses,
    /// Instances that EC2 does not list: their termination is requested before they are believed gone.
    pub(super) missing_in_ec2: BTreeSet<InstanceId>,
}

/// Reads the ends of all these instances by one call.
pub(super) async fn read_instance_ends(
    turn: &Turn<'_>,
    snapshot: &Snapshot,
) -> Result<InstanceEnds, TurnError> {
    let deleted_nodes: BTreeSet<&str> = snapshot
        .nodes
        .iter()
        .filter(|node| node.deleted_at.is_some())
        .map(|node| node.provider_id.as_str())
        .collect();
    let terminations: Vec<(&NodeClaim, InstanceId)> = snapshot
        .node_claims
        .iter()
        .filter(|claim| {
            claim.deleted_at.is_some() || deleted_nodes.contains(claim.status.provider_id.as_str())
        })
        .filter_map(|claim| Some((claim, instance_of(claim)?)))
        .collect();
    let found = describe_instances_of(turn, &terminations).await?;
    let recently_refused = match terminations.is_empty() {
        true => BTreeSet::new(),
        false => refused_recently(turn.world, turn.cluster).await?,
    };
    let mut ends = InstanceEnds::default();
    for (claim, id) in terminations {
        let instance = found.get(&id);
        let end = end_of(instance, snapshot, claim, &id);
        if recently_refused.contains(&id) {
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
            InstanceEnd::NotYet => {}
            InstanceEnd::ShuttingDown => {
                ends.gone.ending.insert(claim.status.provider_id.clone());
            }
            InstanceEnd::Terminated | InstanceEnd::MissingInEc2 => {
                ends.gone.instances.insert(claim.status.provider_id.clone());
                if end == InstanceEnd::MissingInEc2 {
                    ends.missing_in_ec2.insert(id);
                }
                continue;
            }
        }
        if let Some(instance) = instance {
            if let Some(other) = other_cluster_name(instance, claim, turn.cluster) {
                let clause = format!("carries the name of cluster {other}, not {}", turn.cluster);
                ends.gone.misnamed.insert(claim.name.clone(), clause);
            } else if !belongs(instance, claim, turn.cluster) {
                ends.gone.mismatched.insert(claim.name.clone());
            }
        }
    }
    Ok(ends)
}

/// The cluster whose name an instance carries, if it differs from this one's although the NodeClaim's node joined here: the
/// cluster was registered under that name before.
fn other_cluster_name<'a>(
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
