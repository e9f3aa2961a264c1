//! Evaluates the conditions of a node against repair policies.

use std::{cmp::Reverse, collections::BTreeSet};

use jiff::{SignedDuration, Timestamp};
use model::node::{ConditionStatus, Node};

use super::{
    policies::{Policy, Reasons, RepairAction},
    reboots::Reboots,
};

/// Whether a node is unhealthy, the repair that is due, and the time at which the next toleration ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evaluation<'n> {
    /// Whether a policy covers any of the node's conditions, tolerated or not.
    pub(crate) is_unhealthy: bool,
    pub(crate) due: Option<DueRepair<'n>>,
    /// Earliest end of a toleration that has not ended yet.
    pub(crate) next: Option<Timestamp>,
}

/// A repair that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueRepair<'n> {
    pub(crate) action: RepairAction,
    /// CandidateRank of the repair, higher is more urgent: the time since it was due, plus half an hour per priority level below its
    /// own.
    pub(crate) urgency: SignedDuration,
    /// Shortest drain bound of all due policies.
    pub(crate) drain_bound: Option<SignedDuration>,
    /// Type of the condition of the selected policy.
    pub(crate) condition: &'n str,
    pub(crate) status: ConditionStatus,
    pub(crate) reason: &'n str,
    /// Time at which the repair of that condition became due.
    pub(crate) since: Timestamp,
}

/// Value of one priority level, as time since a repair was due.
const PER_PRIORITY: SignedDuration = SignedDuration::from_mins(30);

/// Type, status, reason and last transition of a node condition.
type Condition<'n> = (&'n str, ConditionStatus, &'n str, Option<Timestamp>);

/// All conditions of a Node. `Ready` comes without its reason, which no policy uses.
pub(crate) fn conditions(node: &Node) -> impl Iterator<Item = Condition<'_>> {
    let ready = ("Ready", node.ready.status, "", node.ready.since);
    let others = node.conditions.iter().map(|other| {
        let (name, reason) = (other.kind.as_str(), other.reason.as_str());
        (name, other.status, reason, other.since)
    });
    std::iter::once(ready).chain(others)
}

/// A policy that applies to a condition.
struct Applied<'n, 'p> {
    policy: &'p Policy,
    action: RepairAction,
    condition: Condition<'n>,
    /// Time at which the repair is due.
    at: Timestamp,
}

impl<'n> Evaluation<'n> {
    pub(crate) fn new(
        policies: &[Policy],
        node: &'n Node,
        reboots: &Reboots,
        now: Timestamp,
    ) -> Self {
        let mut applied: Vec<Applied<'n, '_>> = Vec::new();
        for condition in conditions(node) {
            let (_, _, _, since) = condition;
            let since = since.max(node.created_at).max(reboots.last_ended);
            let since = since.unwrap_or(now);
            applied.extend(of_condition(policies, condition).map(|policy| {
                let at = since.saturating_add(policy.toleration);
                Applied {
                    policy,
                    action: match reboots.may_reboot {
                        true => policy.action,
                        false => RepairAction::Replace,
                    },
                    condition,
                    at: at.unwrap_or(Timestamp::MAX),
                }
            }));
        }
        let (due, tolerated): (Vec<_>, Vec<_>) =
            applied.iter().partition(|applied| applied.at <= now);
        Self {
            is_unhealthy: !applied.is_empty(),
            due: merged(policies, &due, now),
            next: tolerated.iter().map(|applied| applied.at).min(),
        }
    }
}

/// Policies that apply to a condition: those for its reason, or else the fallback if any policy covers the condition.
fn of_condition<'p>(
    policies: &'p [Policy],
    (name, status, reason, _): Condition<'_>,
) -> impl Iterator<Item = &'p Policy> {
    let covering: Vec<&Policy> = policies
        .iter()
        .filter(|policy| policy.covers(name, status))
        .collect();
    let is_covered = !covering.is_empty();
    let mut matching = covering;
    matching.retain(|policy| policy.reasons.include(reason));
    if is_covered && matching.is_empty() {
        let mut all = policies.iter();
        matching.extend(all.find(|policy| policy.reasons == Reasons::Others));
    }
    matching.into_iter()
}

fn merged<'n>(
    policies: &[Policy],
    due: &[&Applied<'n, '_>],
    now: Timestamp,
) -> Option<DueRepair<'n>> {
    let priorities: BTreeSet<u8> = policies.iter().map(|policy| policy.priority).collect();
    let urgency = |applied: &&Applied<'_, '_>| {
        let below = priorities.range(..applied.policy.priority).count();
        let below = i32::try_from(below).unwrap_or(i32::MAX);
        let rank = PER_PRIORITY.saturating_mul(below);
        now.duration_since(applied.at).saturating_add(rank)
    };
    let selected = due.iter().min_by_key(|applied| {
        let (name, ..) = applied.condition;
        let most_disruptive = Reverse(applied.action);
        (
            most_disruptive,
            Reverse(applied.policy.priority),
            applied.at,
            name,
        )
    })?;
    let (condition, status, reason, _) = selected.condition;
    Some(DueRepair {
        action: selected.action,
        urgency: due.iter().copied().map(|applied| urgency(&applied)).max()?,
        drain_bound: due
            .iter()
            .filter_map(|applied| applied.policy.drain_bound)
            .min(),
        condition,
        status,
        reason,
        since: selected.at,
    })
}

#[cfg(test)]
mod tests;
