//! Garbage collection (docs/protocol.md#collecting): instances that no NodeClaim names, and NodeClaims whose instance is gone.
//! An absence is believed only after two sweeps and a read that finds nothing, and never for many at once unless the ledger
//! explains it. A node that is in service is not ended under its pods: its Node is deleted, so that it is drained first.

mod brake;
mod lost;
mod orphans;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{
    conditions::types::{INITIALIZED, REGISTERED},
    names::tag,
};
use jiff::{SignedDuration, Timestamp};
use model::{
    ClusterName, InstanceId, Lane, NodeClaimName, NodeName, Uid, counted,
    ids::LaunchToken,
    launch::{Instance, InstanceState},
    ledger::{Intent, IntentState, Pause, PauseLevel, SweepMemory},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::Target,
};
use ports::{Cluster, Metric, cluster::EventTarget, ledger::Moved};

use self::{
    brake::{brake, count, unexplained},
    lost::LostLaunches,
    orphans::{
        OrphanVerdict, ServingNodes, SuspectInstance, delete_node, is_of, judge_orphan, orphans,
    },
};
use crate::{
    TurnError, World,
    act::{
        forget::forget_finished_launches,
        terminations::{end_instances, refused_recently},
    },
    context::{
        identity::{self, InstanceOwnership},
        isolation::ObjectFailures,
        node_claims::instance_of,
    },
    report::metrics,
    settings::shadow_mode,
};

/// Interval of garbage collection, as Karpenter's collector (docs/spec/lifecycle.md#lost-instances).
const COLLECTION_INTERVAL: SignedDuration = SignedDuration::from_mins(2);
/// Least time between the two sweeps that must both find an object missing (docs/protocol.md#g2).
const SWEEPS_APART: SignedDuration = SignedDuration::from_mins(2);
/// Karpenter's metric reason (docs/spec/lifecycle.md#label-values).
const COLLECTED_REASON: &str = "garbage_collected";

/// Resources that one garbage collection deleted, held back or could not attribute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectionResult {
    pub(crate) instances: Vec<InstanceId>,
    /// Nodes in service whose deletion was ordered; their instances are terminated once they are drained.
    pub(crate) nodes: Vec<NodeName>,
    pub(crate) claims: Vec<NodeClaimName>,
    pub(crate) metrics: Vec<Metric>,
    /// Message about objects that the brake held back: they need a person's approval.
    pub(crate) braked: Option<String>,
    /// Whether all instances tagged with the cluster's name were found to be its own.
    pub(crate) is_alone: bool,
    /// Instances tagged with the cluster's name that nothing proves to be its own.
    pub(crate) unproven: BTreeSet<InstanceId>,
    /// Instances of a cluster that the registry entry referred to before, which are not terminated.
    pub(crate) formers: BTreeSet<InstanceId>,
    /// Failures of single objects or instances.
    pub(crate) failures: ObjectFailures,
    /// Time of the next garbage collection; `None` if nothing was missing, under way or left over.
    pub(crate) again: Option<Timestamp>,
}

impl CollectionResult {
    /// Names of everything that is collected.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        let instances = self.instances.iter().map(ToString::to_string);
        let nodes = self.nodes.iter().map(ToString::to_string);
        let claims = self.claims.iter().map(ToString::to_string);
        instances.chain(nodes).chain(claims)
    }
}

/// Permissions of garbage collection, by the registry entry and pauses.
#[derive(Clone)]
pub(crate) struct CollectionPolicy<'a> {
    /// Whether a person approved the deletions that the brake held back.
    pub(crate) approved: bool,
    /// Pauses: no instance of a NodePool that is paused whole, or in shadow mode, is terminated. NodeClaims of instances that
    /// are gone are dead nodes, which no pause delays.
    pub(crate) pauses: &'a [Pause],
    /// The cluster's uid; `formers` are those that the registry entry referred to before.
    pub(crate) uid: &'a Uid,
    pub(crate) formers: BTreeSet<Uid>,
    /// Whether the former clusters are known to be gone, so that their instances have no owner.
    pub(crate) ends_formers: bool,
}

impl CollectionPolicy<'_> {
    fn ownership_of(&self, instance: &Instance) -> InstanceOwnership {
        identity::ownership_of(instance, Some(self.uid), &self.formers)
    }

    /// Whether an instance with the cluster's name is considered: others are neither touched nor counted.
    fn concerns(&self, instance: &Instance) -> bool {
        match self.ownership_of(instance) {
            InstanceOwnership::Ours | InstanceOwnership::Unproven => true,
            InstanceOwnership::FormerCluster => self.ends_formers,
            InstanceOwnership::OtherCluster => false,
        }
    }
}

/// Collects garbage if it is due; `memory` keeps the objects that were missing the last time.
pub(crate) async fn collect(
    world: &World,
    cluster: &ClusterName,
    api: &Arc<dyn Cluster>,
    memory: &mut SweepMemory,
    allowed: CollectionPolicy<'_>,
) -> Result<CollectionResult, TurnError> {
    let now = world.clock.now();
    if let Some(at) = memory.collected_at
        && now.duration_since(at) < COLLECTION_INTERVAL
    {
        // The next collection covers later changes.
        return Ok(CollectionResult {
            again: Some(at + COLLECTION_INTERVAL),
            ..CollectionResult::default()
        });
    }
    let intents = world.ledger.intents(cluster).await?;
    let launched = world.ledger.launched(cluster).await?;
    let calls = world.ledger.open_calls(cluster).await?;
    let listed = world.cloud.list_instances(cluster).await?;
    let formers: BTreeSet<InstanceId> = listed
        .iter()
        .filter(|instance| allowed.ownership_of(instance) == InstanceOwnership::FormerCluster)
        .map(|instance| instance.id.clone())
        .collect();
    let (instances, others): (Vec<Instance>, Vec<Instance>) = listed
        .into_iter()
        .partition(|instance| allowed.concerns(instance));
    let claims = api.node_claims().await?;
    let nodes = api.nodes().await?;
    let mut failures = ObjectFailures::default();
    forget_finished_launches(world, cluster, &**api, &launched, &claims, &mut failures).await?;
    let known = long_missing(&memory.instance_gone, now);
    let lost = LostLaunches {
        world,
        cluster,
        api: &**api,
        alive: instances.iter().map(|instance| &instance.id).collect(),
        due: &known,
    };
    let lost = lost.forget(&launched, &claims, &mut failures).await?;
    let is_quiet = intents.is_empty() && calls.is_empty() && all_launches_serve(&claims, &launched);
    let open: BTreeSet<LaunchToken> = calls
        .into_iter()
        .map(|call| call.request.token)
        .chain(launch_tokens(&intents))
        .collect();

    let serving = ServingNodes::of(&nodes);
    let orphans = orphans(&instances, &claims, &serving, &open);
    memory.orphans = missing_since(orphans, &memory.orphans, now);
    let mut gone = without_instance(&claims, &instances, &nodes);
    gone.extend(lost);
    memory.instance_gone = missing_since(gone, &memory.instance_gone, now);
    memory
        .unexplained
        .retain(|at| now.duration_since(*at) < brake::HOUR);
    memory.collected_at = Some(now);
    let nothing_missing = memory.orphans.is_empty() && memory.instance_gone.is_empty();
    let again = (!is_quiet || !nothing_missing).then(|| now + COLLECTION_INTERVAL);

    let suspects = long_missing(&memory.orphans, now);
    let pauses = if suspects.is_empty() {
        Vec::new()
    } else {
        let watched = shadow_mode::pauses(&api.node_pools().await?, now);
        [allowed.pauses, &watched].concat()
    };
    let mut collected = CollectionResult {
        again,
        failures,
        ..CollectionResult::default()
    };
    let (mut ownerless, mut unproven) = (Vec::new(), BTreeSet::new());
    for instance in instances
        .iter()
        .filter(|instance| suspects.contains(&instance.id))
    {
        let pool = instance
            .tags
            .get(tag::NODE_POOL)
            .map(|name| name.as_str().into());
        if Pause::of_pool(&pauses, pool.as_ref(), PauseLevel::All, now).is_none() {
            let suspect = SuspectInstance {
                instance,
                ownership: allowed.ownership_of(instance),
                node: serving.get(&instance.id),
                has_node: nodes.iter().any(|node| is_of(node, &instance.id)),
            };
            let verdict = judge_orphan(world, cluster, api, &suspect).await;
            let verdict = collected
                .failures
                .isolate_unseen(&instance.id, now, verdict)?;
            match verdict {
                None | Some(OrphanVerdict::Kept) => {}
                Some(OrphanVerdict::Unproven) => drop(unproven.insert(instance.id.clone())),
                Some(OrphanVerdict::Orphan(orphan)) => ownerless.push(*orphan),
            }
        }
    }
    let mut lost = lost_claims(world, &claims, long_missing(&memory.instance_gone, now)).await?;
    let unexplained = unexplained(&ownerless, &lost);
    let new = unexplained.difference(&memory.counted).count();
    // A list that shows nothing must not make the cluster look small.
    let size = instances.len().max(count_with_instance(&claims));
    let braked = brake(memory.unexplained.len() + new, new, size);
    collected.is_alone = others.is_empty() && unproven.is_empty();
    collected.unproven = unproven;
    collected.braked = braked.filter(|_| !allowed.approved);
    if collected.braked.is_some() {
        // An absence that the ledger or EC2 itself explains is not held back.
        ownerless.retain(|orphan| orphan.explained);
        lost.retain(|(_, explained)| *explained);
    } else if new > 0 {
        memory.unexplained.extend(std::iter::repeat_n(now, new));
        memory.counted.extend(unexplained);
        count(world, cluster, memory).await?;
    }
    if !allowed.ends_formers {
        collected.formers = formers;
    }
    let mut drained = Vec::new();
    let mut due = BTreeMap::new();
    for orphan in ownerless {
        if let Some(claim) = &orphan.claim {
            world.ledger.close_claim(cluster, claim).await?;
        }
        // The turn that takes the row wins (docs/protocol.md#g1); no turn adopts the instance any more.
        let taken = world.ledger.collect(cluster, &orphan.instance, now).await;
        let failures = &mut collected.failures;
        if failures.isolate_unseen(&orphan.instance, now, taken)? != Some(Moved::Yes) {
            continue;
        }
        match orphan.node {
            None => {
                let since = memory.orphans.get(&orphan.instance).copied();
                due.insert(orphan.instance, since.unwrap_or(now));
            }
            Some(node) => drained.push(node),
        }
    }
    end_instances_of(world, cluster, due, &mut collected).await?;
    for (target, _) in lost {
        let about = EventTarget::NodeClaim(target.name.clone(), target.uid.clone());
        let deleted = api.delete_node_claim(&target).await;
        if collected.failures.isolate(&about, now, deleted)?.is_some() {
            let claim = claims.iter().find(|claim| claim.name == target.name);
            let counted =
                claim.map(|claim| metrics::of_disruption(claim, 0, COLLECTED_REASON, None));
            collected.metrics.extend(counted.into_iter().flatten());
            collected.claims.push(target.name);
        }
    }
    for node in drained {
        let about = EventTarget::Node(node.name.clone(), node.uid.clone());
        let ordered = delete_node(&**api, &node).await;
        if collected.failures.isolate(&about, now, ordered)?.is_some() {
            collected.nodes.push(node.name);
        }
    }
    if collected.braked.is_none() {
        memory.counted.clear();
    }
    Ok(collected)
}

/// Terminates instances without an owner, each with the time since which its owner has been missing.
async fn end_instances_of(
    world: &World,
    cluster: &ClusterName,
    mut due: BTreeMap<InstanceId, Timestamp>,
    collected: &mut CollectionResult,
) -> Result<(), TurnError> {
    if due.is_empty() {
        return Ok(());
    }
    let recently_refused = refused_recently(world, cluster).await?;
    due.retain(|instance, _| !recently_refused.contains(instance));
    let results = end_instances(world, cluster, &due).await?;
    let failed = metrics::of_ending(Lane::Housekeeper, &results, &[]);
    collected.metrics.extend(failed);
    collected.instances.extend(results.ended);
    let problems = &mut collected.failures.problems;
    problems.extend(results.refused.iter().map(|(instance, refusal)| {
        format!("EC2 refuses to terminate instance {instance}, which nothing owns: {refusal}")
    }));
    problems.extend(results.unanswered.iter().map(|(count, error)| {
        let instances = counted(*count, "instance");
        format!("terminating {instances} that nothing owns: {error}")
    }));
    Ok(())
}

/// Whether every launch led to an initialized node that is not being deleted. Until then an instance may end without a
/// notification.
fn all_launches_serve(claims: &[NodeClaim], launched: &[NodeClaimName]) -> bool {
    let names: BTreeSet<&NodeClaimName> = claims.iter().map(|claim| &claim.name).collect();
    let serves = |claim: &NodeClaim| claim.deleted_at.is_none() && claim.is_true(INITIALIZED);
    claims.iter().all(serves) && launched.iter().all(|name| names.contains(name))
}

/// Number of NodeClaims that have an instance.
fn count_with_instance(claims: &[NodeClaim]) -> usize {
    let ids: BTreeSet<InstanceId> = claims.iter().filter_map(instance_of).collect();
    ids.len()
}

/// Launch tokens under which instances may still appear (docs/protocol.md#g1).
fn launch_tokens(intents: &[Intent]) -> impl Iterator<Item = LaunchToken> {
    intents.iter().filter_map(|intent| match &intent.state {
        IntentState::Launching { token, .. } => Some(token.clone()),
        IntentState::Intended
        | IntentState::Claimed { .. }
        | IntentState::Launched { .. }
        | IntentState::Failed { .. }
        | IntentState::Void { .. } => None,
    })
}

/// NodeClaims whose instance is not listed and whose kubelet is silent (docs/spec/lifecycle.md#lost-instances).
fn without_instance(
    claims: &[NodeClaim],
    instances: &[Instance],
    nodes: &[Node],
) -> BTreeSet<NodeClaimName> {
    let alive: BTreeSet<&InstanceId> = instances.iter().map(|instance| &instance.id).collect();
    let ready = |claim: &NodeClaim| {
        nodes.iter().any(|node| {
            node.provider_id == claim.status.provider_id
                && node.ready.status == ConditionStatus::True
        })
    };
    claims
        .iter()
        .filter(|claim| claim.deleted_at.is_none())
        .filter(|claim| instance_of(claim).is_some_and(|id| !alive.contains(&id)) && !ready(claim))
        .map(|claim| claim.name.clone())
        .collect()
}

/// Time since which each of these has been missing (docs/protocol.md#g2).
fn missing_since<K: Ord>(
    missing: BTreeSet<K>,
    before: &BTreeMap<K, Timestamp>,
    now: Timestamp,
) -> BTreeMap<K, Timestamp> {
    missing
        .into_iter()
        .map(|key| {
            let since = before.get(&key).copied().unwrap_or(now);
            (key, since)
        })
        .collect()
}

fn long_missing<K: Ord + Clone>(missing: &BTreeMap<K, Timestamp>, now: Timestamp) -> Vec<K> {
    missing
        .iter()
        .filter(|(_, since)| now.duration_since(**since) >= SWEEPS_APART)
        .map(|(key, _)| key.clone())
        .collect()
}

/// NodeClaims to delete because their instance is gone, each with whether EC2 shows the instance as terminated, which explains
/// the absence.
async fn lost_claims(
    world: &World,
    claims: &[NodeClaim],
    names: Vec<NodeClaimName>,
) -> Result<Vec<(Target, bool)>, TurnError> {
    let suspects: Vec<&NodeClaim> = claims
        .iter()
        .filter(|claim| names.contains(&claim.name))
        .collect();
    let ids: Vec<InstanceId> = suspects
        .iter()
        .filter_map(|claim| instance_of(claim))
        .collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let shown = world.cloud.describe_instances(&ids).await?;
    let mut lost = Vec::new();
    for claim in suspects {
        let instance = shown
            .iter()
            .find(|instance| Some(&instance.id) == instance_of(claim).as_ref());
        if instance.is_some_and(|instance| instance.state != InstanceState::Terminated) {
            continue;
        }
        // Before its node registers, an instance may be too young for EC2 to list it; a terminated instance is proof even then.
        if instance.is_none() && !claim.is_true(REGISTERED) {
            continue;
        }
        let target = Target {
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            resource_version: claim.resource_version.clone(),
        };
        lost.push((target, instance.is_some()));
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_absence_counts_from_the_first_of_consecutive_sweeps() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let first = missing_since(BTreeSet::from(["a", "b"]), &BTreeMap::new(), at(0));
        assert!(long_missing(&first, at(60)).is_empty());
        let second = missing_since(BTreeSet::from(["a"]), &first, at(120));
        assert_eq!(long_missing(&second, at(120)), ["a"]);
        let third = missing_since(BTreeSet::from(["a", "b"]), &second, at(240));
        assert_eq!(
            long_missing(&third, at(240)),
            ["a"],
            "b was there in between"
        );
    }
}
