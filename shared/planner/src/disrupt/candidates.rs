//! Nodes that may be disrupted at all (spec/lifecycle §14.1).

use api::{conditions::types::CONSOLIDATABLE, names::annotation::DO_NOT_DISRUPT};
use model::{
    Snapshot,
    node_claim::NodeClaim,
    node_pool::{ConsolidateAfter, NodePool},
};

use crate::{
    inventory::{Inventory, Machine},
    managed::is_ours,
    provision::movable::must_not_be_disrupted,
};

pub(super) struct Candidate<'a> {
    pub(super) machine: &'a Machine<'a>,
    pub(super) claim: &'a NodeClaim,
    pub(super) pool: &'a NodePool,
}

pub(super) fn candidates<'a>(
    snapshot: &'a Snapshot,
    inventory: &'a Inventory<'a>,
) -> Vec<Candidate<'a>> {
    inventory
        .machines
        .iter()
        .filter_map(|machine| candidate(snapshot, machine))
        .collect()
}

fn candidate<'a>(snapshot: &'a Snapshot, machine: &'a Machine<'a>) -> Option<Candidate<'a>> {
    let (claim, node) = (machine.claim?, machine.node?);
    let name = claim.node_pool()?;
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == name)?;
    let eligible = is_ours(claim)
        && machine.initialized
        && !machine.deleting
        && claim.deleted_at.is_none()
        && claim.is_true(CONSOLIDATABLE)
        && pool.replicas.is_none()
        && pool.disruption.consolidate_after != ConsolidateAfter::Never
        && snapshot
            .nominated
            .get(&node.name)
            .is_none_or(|until| *until <= snapshot.now)
        && node.annotations.get(DO_NOT_DISRUPT).map(String::as_str) != Some("true")
        && !machine
            .pods
            .iter()
            .any(|pod| must_not_be_disrupted(pod, snapshot.now));
    eligible.then_some(Candidate {
        machine,
        claim,
        pool,
    })
}
