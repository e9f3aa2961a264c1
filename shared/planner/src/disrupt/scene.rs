//! A cluster at a moment, as all disruption methods look at it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use api::conditions::types::INITIALIZED;
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeClaimName, NodePoolName, Snapshot,
    node::ConditionStatus,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, NodePool},
    pod::Pod,
    snapshot::Optimize,
};
use scheduling::Volumes;

use super::worth::Worth;
use crate::{
    guards::Guards,
    inventory::{Inventory, Machine},
    provision::{buffers, default_spread::with_default, intake::intake, question::Ground},
};

pub(super) struct Scene<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// May be later than the snapshot's: commands are judged again after a while.
    pub(super) now: Timestamp,
    pub(super) inventory: &'a Inventory<'a>,
    pub(super) ground: &'a Ground<'a>,
    pub(super) guards: Guards<'a>,
    pub(super) volumes: Volumes<'a>,
    pools: BTreeMap<&'a NodePoolName, &'a NodePool>,
    /// Pods that need a place whatever is disrupted: those that wait, those of machines that go away, and those that room is
    /// kept for.
    pub(super) waiting: Vec<Cow<'a, Pod>>,
    /// Machines that were disturbed so recently that consolidation moves nothing there (spec/lifecycle §18.2).
    pub(super) settling: BTreeSet<usize>,
    /// Machines on which nothing would start.
    pub(super) closed: BTreeSet<usize>,
    /// Nodes that are left alone.
    pub(super) spared: BTreeSet<NodeClaimName>,
    pub(super) worth: Worth,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        inventory: &'a Inventory<'a>,
        ground: &'a Ground<'a>,
        now: Timestamp,
    ) -> Self {
        let pools: BTreeMap<_, _> = snapshot.node_pools.iter().map(|p| (&p.name, p)).collect();
        let waiting = intake(snapshot, inventory, now).pods.into_iter();
        let machines = inventory.machines.iter().enumerate();
        let settling = machines.filter(|(_, machine)| is_settling(machine, &pools, now));
        let settling = settling.map(|(at, _)| at).collect();
        Self {
            snapshot,
            now,
            inventory,
            ground,
            guards: Guards::new(&snapshot.disruption_budgets),
            volumes: Volumes::new(&snapshot.storage),
            waiting: waiting
                .map(|pod| with_default(pod, snapshot))
                .chain(buffers::pods(snapshot))
                .collect(),
            settling,
            closed: closed(snapshot, inventory),
            spared: BTreeSet::new(),
            worth: Worth::by_annotations(snapshot),
            pools,
        }
    }

    pub(super) fn sparing(self, spared: &BTreeSet<NodeClaimName>) -> Self {
        Self {
            spared: spared.clone(),
            ..self
        }
    }

    pub(super) fn at_any_price(self) -> Self {
        Self {
            worth: Worth::default(),
            ..self
        }
    }

    pub(super) fn pool(&self, name: &NodePoolName) -> Option<&'a NodePool> {
        self.pools.get(name).copied()
    }

    /// Whether a command that is under way is about this NodeClaim.
    pub(super) fn is_commanded(&self, claim: &NodeClaim) -> bool {
        let under_way = self
            .snapshot
            .commands
            .iter()
            .filter(|command| command.state.is_open());
        let mut targets = under_way.flat_map(|command| &command.delete);
        targets.any(|target| target.name == claim.name)
    }
}

fn is_settling(
    machine: &Machine<'_>,
    pools: &BTreeMap<&NodePoolName, &NodePool>,
    now: Timestamp,
) -> bool {
    let Some(claim) = machine.claim else {
        return false;
    };
    let pool = claim.node_pool().and_then(|name| pools.get(&name).copied());
    let Some(ConsolidateAfter::Seconds(after)) = pool.map(|pool| pool.disruption.consolidate_after)
    else {
        return false;
    };
    let initialized = claim
        .condition(INITIALIZED)
        .filter(|condition| condition.status == ConditionStatus::True);
    let since = claim.status.last_pod_event;
    let since = since.or(initialized.map(|condition| condition.last_transition));
    since.is_some_and(|since| now.duration_since(since) < SignedDuration::from_secs(after))
}

/// Upstream counts on nodes that are not ready unless they are tainted, and then waits for pods that cannot start.
fn closed(snapshot: &Snapshot, inventory: &Inventory<'_>) -> BTreeSet<usize> {
    if snapshot.settings.optimize == Optimize::Upstream {
        return BTreeSet::new();
    }
    let machines = inventory.machines.iter().enumerate();
    let closed = machines.filter(|(_, machine)| {
        machine.initialized
            && machine
                .node
                .is_some_and(|node| node.ready.status != ConditionStatus::True)
    });
    closed.map(|(at, _)| at).collect()
}
