//! Repair of unhealthy nodes, with the feature gate `NodeRepair` and without `legacyNodeRepair`.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::{
    labels,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    node_pool::NodePool,
    plan::Target,
};

use super::Check;
use crate::{
    budget::Reason,
    world::{World, is_reschedulable},
};

const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";

/// Number of nodes and of unhealthy nodes by NodePool; `None` unless repair is voluntary.
pub(super) struct UnhealthyCounts<'a>(Option<BTreeMap<&'a str, (usize, usize)>>);

impl<'a> UnhealthyCounts<'a> {
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
            let is_unhealthy =
                unhealthy_conditions(claim, node).next().is_some() && !is_refused(node, claim);
            let (nodes, unhealthy) = counts.entry(pool).or_default();
            *nodes += 1;
            *unhealthy += usize::from(is_unhealthy);
        }
        Self(Some(counts))
    }

    /// Whether repair is voluntary, so that unready nodes are disrupted only within budgets.
    pub(super) fn is_voluntary(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn is_due(&self, claim: &NodeClaim, node: &Node, now: Timestamp) -> bool {
        self.is_voluntary()
            && unhealthy_conditions(Some(claim), node).any(|unhealthy| unhealthy.until <= now)
    }

    fn exceeds_limit(&self, pool: &str) -> bool {
        let counts = self.0.as_ref().and_then(|counts| counts.get(pool));
        counts.is_some_and(|(nodes, unhealthy)| *unhealthy > nodes.div_ceil(5))
    }
}

impl<'c, 'a> Check<'c, 'a> {
    /// Reason why a node may not be rebooted in place.
    pub(super) fn reboot(&mut self, target: &'c Target) -> Option<String> {
        let name = target.name.as_str();
        let claim = match self.target(target) {
            Ok(claim) => claim,
            Err(problem) => return Some(problem),
        };
        let now = self.world.snapshot.now;
        let node = self.machine(name).and_then(|machine| machine.node);
        let gates = &self.world.snapshot.settings.feature_gates;
        let due = node.filter(|node| {
            gates.get("RebootForRepair") == Some(&true)
                && self.unhealthy.is_due(claim, node, now)
                && asks_for_reboot(claim, node, now)
        });
        let problem = match due {
            _ if claim.deleted_at.is_some() || claim.is_true("Rebooting") => {
                "is being deleted, or reboots already".to_owned()
            }
            None => "has no condition that a reboot is due for".to_owned(),
            Some(_) if has_failed_to_reboot(claim, now) => {
                "failed to reboot within 24 hours".to_owned()
            }
            Some(_) if reboots_of_a_day(claim, now) >= 2 => {
                "has been rebooted twice within 24 hours".to_owned()
            }
            Some(node) => self
                .refusal(claim, node)
                .or_else(|| self.over_budget(claim))?,
        };
        Some(format!("NodeClaim {name} {problem}"))
    }

    /// Reason why a node that is due for repair may not be replaced.
    pub(super) fn repair(&mut self, claim: &NodeClaim, node: &Node) -> Option<String> {
        let machine = self.machine(claim.name.as_str())?;
        if let Some(problem) = self.refusal(claim, node) {
            return Some(problem);
        }
        let is_static = self.is_static(claim);
        let mut bound_pods = machine.bound_pods.iter();
        let pod_without_place =
            bound_pods.find(|pod| is_reschedulable(pod) && !self.placed.contains(&pod.key));
        let pod_without_place = pod_without_place.filter(|_| !is_static);
        let pool = self.pool_of(claim)?;
        if let Some(pod) = pod_without_place {
            if !self.may_terminate_first(machine, "TerminateFirstRepair") {
                return Some(format!("is not empty: pod {} has no other place", pod.key));
            }
            if let Some(problem) =
                self.exceeds_budget_before_replacement(machine, pool, Reason::Unhealthy)
            {
                return Some(problem);
            }
        }
        self.over_budget(claim)
            .or_else(|| self.missing_replicas(machine, pool, &[Reason::Unhealthy]))
    }

    /// Reason why a node may not be repaired at all.
    fn refusal(&self, claim: &NodeClaim, node: &Node) -> Option<String> {
        if is_refused(node, Some(claim)) {
            return Some(format!("carries the annotation {DO_NOT_REPAIR}"));
        }
        let Some(pool) = self.pool_of(claim) else {
            return Some("is of no NodePool that could replace it".to_owned());
        };
        let name = &pool.name;
        let exceeds_limit = self.unhealthy.exceeds_limit(name.as_str());
        exceeds_limit.then(|| format!("is one of too many unhealthy nodes of NodePool {name}"))
    }

    fn pool_of(&self, claim: &NodeClaim) -> Option<&'a NodePool> {
        let name = claim.node_pool()?;
        self.world.pools.get(name.as_str()).copied()
    }

    fn over_budget(&mut self, claim: &NodeClaim) -> Option<String> {
        let pool = self.pool_of(claim)?;
        let is_counted = self.machine(claim.name.as_str())?.initialized;
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

/// Whether all conditions that are due for repair are GPU errors that a reboot fixes, and no condition has exceeded the
/// longest toleration.
fn asks_for_reboot(claim: &NodeClaim, node: &Node, now: Timestamp) -> bool {
    let is_fixed_by_reboot = |unhealthy: &UnhealthyCondition<'_>| {
        unhealthy.tolerated_for(30) > now
            && xids(unhealthy.reason).any(|number| XIDS_FIXED_BY_REBOOT.contains(&number))
    };
    let mut due =
        unhealthy_conditions(Some(claim), node).filter(|unhealthy| unhealthy.until <= now);
    due.all(|unhealthy| is_fixed_by_reboot(&unhealthy))
}

fn has_failed_to_reboot(claim: &NodeClaim, now: Timestamp) -> bool {
    let last = claim.condition("Rebooting");
    last.is_some_and(|last| {
        last.reason == "RebootFailed"
            && now.duration_since(last.last_transition) < SignedDuration::from_hours(24)
    })
}

/// Number of reboots within the last 24 hours, by the NodeClaim's annotation.
fn reboots_of_a_day(claim: &NodeClaim, now: Timestamp) -> usize {
    let written = claim.annotations.get("whittle.sh/reboots");
    let instants = written.into_iter().flat_map(|written| written.split(','));
    let instants = instants.filter_map(|text| text.parse::<Timestamp>().ok());
    let counted = instants.filter(|at| now.duration_since(*at) < SignedDuration::from_hours(24));
    counted.count()
}

/// A node condition that repair reacts to.
struct UnhealthyCondition<'n> {
    reason: &'n str,
    since: Timestamp,
    /// End of its toleration.
    until: Timestamp,
}

impl UnhealthyCondition<'_> {
    fn tolerated_for(&self, minutes: i64) -> Timestamp {
        let until = self.since.checked_add(SignedDuration::from_mins(minutes));
        until.unwrap_or(Timestamp::MAX)
    }
}

/// The node's conditions that repair reacts to. Their toleration restarts after a successful reboot.
fn unhealthy_conditions<'n>(
    claim: Option<&NodeClaim>,
    node: &'n Node,
) -> impl Iterator<Item = UnhealthyCondition<'n>> {
    let rebooted = claim.and_then(|claim| claim.condition("Rebooting"));
    let rebooted = rebooted.filter(|last| last.reason == "RebootSucceeded");
    let rebooted = rebooted.map(|last| last.last_transition);
    let ready = ("Ready", node.ready.status, "", node.ready.since);
    let others = node.conditions.iter();
    let others = others.map(|condition| {
        (
            condition.kind.as_str(),
            condition.status,
            condition.reason.as_str(),
            condition.since,
        )
    });
    let all = std::iter::once(ready).chain(others);
    all.filter_map(move |(name, status, reason, since)| {
        let minutes = tolerated_minutes(name, status, reason)?;
        let since = [since, node.created_at, rebooted]
            .into_iter()
            .flatten()
            .max();
        let since = since.unwrap_or(Timestamp::MIN);
        let unhealthy = UnhealthyCondition {
            reason,
            since,
            until: since,
        };
        Some(UnhealthyCondition {
            until: unhealthy.tolerated_for(minutes),
            ..unhealthy
        })
    })
}

fn tolerated_minutes(name: &str, status: ConditionStatus, reason: &str) -> Option<i64> {
    use ConditionStatus::{False, Unknown};
    match (name, status) {
        ("AcceleratedHardwareReady", False)
            if xids(reason).any(|number| {
                XIDS_FIXED_BY_REBOOT.contains(&number) || XIDS_NOT_FIXED.contains(&number)
            }) =>
        {
            Some(10)
        }
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

/// NVIDIA Xid errors that a reboot fixes, and those that it does not.
const XIDS_FIXED_BY_REBOOT: [u32; 14] = [
    46, 48, 54, 62, 63, 95, 109, 110, 136, 140, 143, 155, 156, 158,
];
const XIDS_NOT_FIXED: [u32; 5] = [64, 74, 79, 119, 120];

/// Numbers that follow `XID` in the reason.
fn xids(reason: &str) -> impl Iterator<Item = u32> {
    reason.match_indices("XID").filter_map(|(at, xid)| {
        let after = reason.get(at + xid.len()..).unwrap_or_default();
        let digits = after.chars().map_while(|letter| letter.to_digit(10));
        let digits: Vec<u32> = digits.take(4).collect();
        let number = digits.iter().fold(0, |number, digit| number * 10 + digit);
        let is_whole = digits.first().is_some_and(|first| *first != 0);
        is_whole.then_some(number)
    })
}
