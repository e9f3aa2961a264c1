//! Reserved instances that are freed by nodes terminated ahead of their replacement. Each is kept for the pods or the static
//! NodePool of its node, so that pods of other nodes do not take it (docs/spec/v1.15.md#terminate-first-freed).

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::types::INSTANCE_TERMINATING;
use jiff::SignedDuration;
use model::{
    NodePoolName, PodKey, Snapshot,
    ledger::{Command, CommandState, FreedInstance},
    node_pool::NodePool,
    pod::Pod,
};

use crate::{
    inventory::is_terminal,
    static_capacity::{launches_to_come, wanted_replicas},
};

/// Time after which an instance is no longer kept for pods that still wait, unless its node is still being deleted.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);

/// A kept instance.
#[derive(Clone, Copy)]
pub(crate) struct KeptInstance<'a> {
    pub(crate) instance: &'a FreedInstance,
    /// Whether its node has left or is terminating.
    is_left: bool,
    is_static: bool,
}

impl KeptInstance<'_> {
    /// Whether the instance is kept for the pod.
    pub(crate) fn is_for(&self, pod: &Pod) -> bool {
        let owner = pod.owner.as_ref();
        owner.is_some_and(|owner| self.instance.owners.contains(&owner.uid))
    }
}

/// Instances that are kept now.
pub(crate) fn kept(snapshot: &Snapshot) -> Vec<KeptInstance<'_>> {
    let commands = snapshot.commands.iter();
    let kept = commands.filter_map(|command| of_command(snapshot, command));
    kept.collect()
}

/// Whether a freed instance is kept for any of these pods.
pub fn await_freed_instance(snapshot: &Snapshot, pods: &BTreeSet<PodKey>) -> bool {
    let kept = kept(snapshot);
    let mut waiting = snapshot.pods.iter();
    waiting.any(|pod| pods.contains(&pod.key) && kept.iter().any(|kept| kept.is_for(pod)))
}

fn of_command<'a>(snapshot: &'a Snapshot, command: &'a Command) -> Option<KeptInstance<'a>> {
    let instance = command.choice.as_ref()?.freed.as_ref()?;
    match command.state {
        CommandState::Proposed | CommandState::RolledBack => return None,
        CommandState::Replacing
        | CommandState::Deleting
        | CommandState::Done
        | CommandState::Newer => {}
    }
    let mut pools = snapshot.node_pools.iter();
    let pool = pools.find(|pool| pool.name == instance.node_pool)?;
    if pool.deleted_at.is_some() {
        return None;
    }
    let mut claims = snapshot.node_claims.iter();
    let claim = claims.find(|claim| command.delete.iter().any(|target| target.uid == claim.uid));
    let kept = KeptInstance {
        instance,
        is_left: claim.is_none_or(|claim| claim.is_true(INSTANCE_TERMINATING)),
        is_static: pool.replicas.is_some(),
    };
    let is_recent = |since| snapshot.now.duration_since(since) < KEPT_FOR;
    let is_kept = match claim {
        // A node whose disruption was cancelled frees nothing.
        Some(claim) => command.state.is_open() || claim.deleted_at.is_some(),
        None if pool.replicas.is_some() => {
            is_recent(command.committed_at) && lacks_nodes(snapshot, pool)
        }
        // Counts from the creation of the pod, at the end of the drain, which may have taken longer than [`KEPT_FOR`].
        None => snapshot.pods.iter().any(|pod| {
            waits(pod)
                && kept.is_for(pod)
                && is_recent(pod.created_at.unwrap_or(command.committed_at))
        }),
    };
    is_kept.then_some(kept)
}

/// Whether a pod has no node, whether or not the scheduler has tried it.
fn waits(pod: &Pod) -> bool {
    pod.node_name.is_none() && pod.deletion.is_none() && !is_terminal(pod)
}

fn lacks_nodes(snapshot: &Snapshot, pool: &NodePool) -> bool {
    let claims = snapshot.node_claims.iter();
    let staying = claims.filter(|claim| {
        claim.deleted_at.is_none() && claim.node_pool().as_ref() == Some(&pool.name)
    });
    staying.count() + launches_to_come(snapshot, pool) < wanted_replicas(pool)
}

/// Number of kept instances per reservation.
pub(crate) fn by_reservation(snapshot: &Snapshot) -> BTreeMap<&str, u32> {
    let mut kept_of: BTreeMap<&str, u32> = BTreeMap::new();
    for kept in kept(snapshot) {
        *kept_of.entry(&kept.instance.reservation).or_default() += 1;
    }
    kept_of
}

/// Number of nodes of dynamic NodePools that were terminated ahead of their replacement and are not replaced yet. Static
/// NodePools are covered by their missing replicas.
pub(crate) fn missing_nodes(snapshot: &Snapshot) -> BTreeMap<&NodePoolName, usize> {
    let mut missing: BTreeMap<&NodePoolName, usize> = BTreeMap::new();
    let all = kept(snapshot).into_iter();
    for kept in all.filter(|kept| kept.is_left && !kept.is_static) {
        *missing.entry(&kept.instance.node_pool).or_default() += 1;
    }
    missing
}
