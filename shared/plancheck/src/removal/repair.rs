//! Nodes that go because they stay unhealthy, with gate `NodeRepair` and without `legacyNodeRepair`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{
    labels,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
};

use super::Check;
use crate::{
    budget::Reason,
    world::{World, is_reschedulable},
};

const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";

/// Nodes of each NodePool, and how many of them are unhealthy; `None` where nodes are not repaired by choice.
pub(super) struct Unhealthy<'a>(Option<BTreeMap<&'a str, (usize, usize)>>);

impl<'a> Unhealthy<'a> {
    pub(super) fn of(world: &World<'a>) -> Self {
        let settings = &world.snapshot.settings;
        let is_on = settings.feature_gates.get("NodeRepair") == Some(&true);
        if !is_on || settings.legacy_node_repair {
            return Self(None);
        }
        let claims = world.snapshot.node_claims.iter();
        let claims: BTreeMap<&str, &NodeClaim> = claims
            .map(|claim| (claim.status.provider_id.as_str(), claim))
            .collect();
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for node in &world.snapshot.nodes {
            let Some(pool) = node.labels.get(labels::NODE_POOL) else {
                continue;
            };
            let claim = claims.get(node.provider_id.as_str()).copied();
            let is_ill = tolerations(node).next().is_some() && !is_refused(node, claim);
            let (nodes, ill) = counts.entry(pool).or_default();
            *nodes += 1;
            *ill += usize::from(is_ill);
        }
        Self(Some(counts))
    }

    /// Whether nodes that are not ready go by choice only.
    pub(super) fn are_chosen(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn is_due(&self, node: &Node, now: Timestamp) -> bool {
        self.are_chosen() && tolerations(node).any(|until| until <= now)
    }

    fn are_too_many(&self, pool: &str) -> bool {
        let counts = self.0.as_ref().and_then(|counts| counts.get(pool));
        counts.is_some_and(|(nodes, ill)| *ill > nodes.div_ceil(5))
    }
}

impl Check<'_, '_> {
    /// Why a node that is due for repair may not be repaired.
    pub(super) fn repair(&mut self, claim: &NodeClaim, node: &Node) -> Option<String> {
        let machine = self.machine(claim.name.as_str())?;
        if is_refused(node, Some(claim)) {
            return Some(format!("carries the annotation {DO_NOT_REPAIR}"));
        }
        let name = claim.node_pool();
        let pool = name.and_then(|name| self.world.pools.get(name.as_str()).copied());
        let Some(pool) = pool else {
            return Some("is of no NodePool that could replace it".to_owned());
        };
        if self.unhealthy.are_too_many(pool.name.as_str()) {
            return Some(format!(
                "is one of too many unhealthy nodes of NodePool {}",
                pool.name
            ));
        }
        let mut residents = machine.residents.iter();
        let homeless =
            residents.find(|pod| is_reschedulable(pod) && !self.placed.contains(&pod.key));
        if let Some(pod) = homeless
            .filter(|_| pool.replicas.is_none())
            .filter(|_| !self.may_go_first(machine, "TerminateFirstRepair"))
        {
            return Some(format!("is not empty: pod {} has no other place", pod.key));
        }
        let is_counted = machine.initialized;
        let may_go = !is_counted
            || self
                .remaining
                .take(pool, &[Reason::Unhealthy], self.world.snapshot.now);
        (!may_go).then(|| {
            format!(
                "is one more than the budgets of NodePool {} allow to be repaired",
                pool.name
            )
        })
    }
}

fn is_refused(node: &Node, claim: Option<&NodeClaim>) -> bool {
    let of_claim = claim.and_then(|claim| claim.annotations.get(DO_NOT_REPAIR));
    let mut values = [node.annotations.get(DO_NOT_REPAIR), of_claim].into_iter();
    values.any(|value| value.is_some_and(|value| value == "true"))
}

/// Instants until which a node's conditions are tolerated, of those that nodes are repaired for.
fn tolerations(node: &Node) -> impl Iterator<Item = Timestamp> {
    let ready = ("Ready", node.ready.status, "", node.ready.since);
    let others = node.conditions.iter();
    let others = others.map(|one| {
        (
            one.kind.as_str(),
            one.status,
            one.reason.as_str(),
            one.since,
        )
    });
    let all = std::iter::once(ready).chain(others);
    all.filter_map(|(name, status, reason, since)| {
        let minutes = tolerated_minutes(name, status, reason)?;
        let since = since.into_iter().chain(node.created_at).max();
        let since = since.unwrap_or(Timestamp::MIN);
        since.checked_add(SignedDuration::from_mins(minutes)).ok()
    })
}

fn tolerated_minutes(name: &str, status: ConditionStatus, reason: &str) -> Option<i64> {
    use ConditionStatus::{False, Unknown};
    match (name, status) {
        ("AcceleratedHardwareReady", False) if names_known_xid(reason) => Some(10),
        ("Ready", False | Unknown) => Some(30),
        (
            "AcceleratedHardwareReady"
            | "StorageReady"
            | "NetworkingReady"
            | "KernelReady"
            | "ContainerRuntimeReady",
            False,
        ) => Some(30),
        _ => None,
    }
}

/// Whether one of NVIDIA's error numbers that do not go away by themselves follows `XID`, as a whole.
fn names_known_xid(reason: &str) -> bool {
    const KNOWN: [u32; 19] = [
        46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158,
    ];
    reason.match_indices("XID").any(|(at, xid)| {
        let after = reason.get(at + xid.len()..).unwrap_or_default();
        let digits = after.chars().map_while(|letter| letter.to_digit(10));
        let digits: Vec<u32> = digits.take(4).collect();
        let number = digits.iter().fold(0, |number, digit| number * 10 + digit);
        digits.first().is_some_and(|first| *first != 0) && KNOWN.contains(&number)
    })
}
