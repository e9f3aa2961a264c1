//! Disruption budgets of NodePools (docs/spec/lifecycle.md#budgets), and caps on evictions and terminations per hour.

use std::collections::BTreeMap;

use api::{conditions::types::INSTANCE_TERMINATING, duration::parse_go_duration};
use jiff::Timestamp;
use model::{
    NodePoolName, Snapshot,
    ledger::PauseLevel,
    node::ConditionStatus,
    node_pool::{Budget, NodePool},
};

use super::{Reason, candidates::Candidate, evictions::Allowance, schedule::Schedule};
use crate::{freed, inventory::Inventory, static_capacity::wanted_replicas};

/// Remaining disruptions per NodePool for one reason. Taking a candidate reduces them.
#[derive(Clone)]
pub(super) struct Budgets {
    left: BTreeMap<NodePoolName, usize>,
    /// Remaining terminations ahead of the replacement. Missing nodes count against them as well.
    left_terminate_first: BTreeMap<NodePoolName, usize>,
    pub(super) evictions: Allowance,
    reason: Reason,
    /// NodePools that have nodes and whose budgets allow no disruption at all.
    exhausted: BTreeMap<NodePoolName, ExhaustedBudgets>,
}

/// Disruptions that a NodePool's budgets allow for one reason, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolBudget {
    pub node_pool: NodePoolName,
    pub reason: Reason,
    /// Number of nodes that may be disrupted concurrently; `usize::MAX` if no active budget covers the reason.
    pub allowed: usize,
    /// Number of nodes that are being disrupted or not ready.
    pub disrupting: usize,
}

/// Why a NodePool's budgets allow no disruption, and until when.
#[derive(Clone)]
struct ExhaustedBudgets {
    until: Option<Timestamp>,
    /// Text of the pause, if a pause rather than a budget forbids disruption.
    paused: Option<String>,
}

/// Number of nodes, and of those that are being disrupted.
#[derive(Clone, Copy, Default)]
struct Count {
    total: usize,
    disrupting: usize,
}

impl Budgets {
    pub(super) fn new(
        snapshot: &Snapshot,
        inventory: &Inventory<'_>,
        reason: Reason,
        now: Timestamp,
    ) -> Self {
        let counts = counts(inventory, reason);
        let gone_first = freed::missing_nodes(snapshot);
        let mut budgets = Self {
            left: BTreeMap::new(),
            left_terminate_first: BTreeMap::new(),
            // Repair is exempt from caps (docs/operations.md).
            evictions: match reason {
                Reason::Unhealthy => Allowance::default(),
                Reason::Empty | Reason::Drifted | Reason::Underutilized => {
                    Allowance::new(snapshot, now)
                }
            },
            reason,
            exhausted: BTreeMap::new(),
        };
        for pool in &snapshot.node_pools {
            let count = counts.get(&pool.name).copied().unwrap_or_default();
            let paused = snapshot.paused(Some(&pool.name), PauseLevel::Voluntary, now);
            let allowed_of = |total| match paused {
                Some(_) => 0,
                None => allowed(pool, reason, total, now),
            };
            let allowed = allowed_of(count.total);
            let left = allowed.saturating_sub(count.disrupting);
            budgets.left.insert(pool.name.clone(), left);
            let gone_first = gone_first.get(&pool.name).copied().unwrap_or(0);
            let missing = gone_first.saturating_add(missing_replicas(pool, count.total));
            let of_whole = allowed_of(count.total.saturating_add(missing));
            let left = of_whole.saturating_sub(count.disrupting.saturating_add(missing));
            budgets.left_terminate_first.insert(pool.name.clone(), left);
            if allowed == 0 && (count.total > 0 || paused.is_some()) {
                let exhausted = ExhaustedBudgets {
                    until: match &paused {
                        Some(paused) => paused.until(),
                        None => window_closes(pool, now),
                    },
                    paused: paused.map(|paused| paused.to_string()),
                };
                budgets.exhausted.insert(pool.name.clone(), exhausted);
            }
        }
        budgets
    }

    /// Returns the event message for a NodePool whose budgets allow no disruption, independent of the number of nodes under
    /// disruption.
    pub(super) fn exhausted_message(&self, pool: &NodePool) -> Option<String> {
        let exhausted = self.exhausted.get(&pool.name)?;
        let reason = self.reason.as_str();
        let by_budget = || {
            format!("No allowed disruptions for disruption reason {reason} due to blocking budget")
        };
        let paused = exhausted.paused.as_ref();
        let paused = paused.map(|paused| format!("No allowed disruptions: {paused}"));
        Some(
            paused
                .or_else(|| invalid_budget(pool))
                .unwrap_or_else(by_budget),
        )
    }

    /// Time at which the block ends by itself, if known.
    pub(super) fn reopens_at(&self, pool: &NodePool) -> Option<Timestamp> {
        self.exhausted.get(&pool.name)?.until
    }

    pub(super) fn remaining(&self, pool: &NodePoolName) -> usize {
        self.left.get(pool).copied().unwrap_or(0)
    }

    /// Whether one more node may be disrupted. A node that was never initialized is exempt from budgets, though not from
    /// pauses.
    pub(super) fn allows(&self, candidate: &Candidate<'_>) -> bool {
        if !candidate.state_node.initialized {
            let exhausted = self.exhausted.get(&candidate.pool.name);
            return exhausted.is_none_or(|exhausted| exhausted.paused.is_none());
        }
        self.remaining(&candidate.pool.name) > 0 && self.evictions.allows(&[candidate])
    }

    /// Whether one more node may be terminated ahead of its replacement.
    pub(super) fn allows_terminate_first(&self, candidate: &Candidate<'_>) -> bool {
        let left = self.left_terminate_first.get(&candidate.pool.name);
        !candidate.state_node.initialized || left.is_some_and(|left| *left > 0)
    }

    /// Counts a node that is terminated ahead of its replacement. The caller also calls [`Self::take`].
    pub(super) fn take_terminate_first(&mut self, candidate: &Candidate<'_>) {
        if let Some(left) = self.left_terminate_first.get_mut(&candidate.pool.name) {
            *left = left.saturating_sub(1);
        }
    }

    pub(super) fn take(&mut self, candidate: &Candidate<'_>) -> bool {
        match self.left.get_mut(&candidate.pool.name) {
            Some(left) if *left > 0 && self.evictions.take(candidate) => {
                *left -= 1;
                true
            }
            Some(_) | None => false,
        }
    }
}

/// Returns for each NodePool how many disruptions its budgets allow for a reason now, and how many nodes are under disruption.
pub(super) fn of_pools(
    snapshot: &Snapshot,
    inventory: &Inventory<'_>,
    reason: Reason,
) -> Vec<PoolBudget> {
    let (counts, now) = (counts(inventory, reason), snapshot.now);
    let pools = snapshot.node_pools.iter().map(|pool| {
        let count = counts.get(&pool.name).copied().unwrap_or_default();
        let paused = snapshot.paused(Some(&pool.name), PauseLevel::Voluntary, now);
        PoolBudget {
            node_pool: pool.name.clone(),
            reason,
            allowed: match paused {
                Some(_) => 0,
                None => allowed(pool, reason, count.total, now),
            },
            disrupting: count.disrupting,
        }
    });
    pools.collect()
}

/// Counts per NodePool the nodes that are initialized or reboot, and those among them that are leaving, rebooting or not ready.
/// For repair, an unhealthy node does not count as disrupted.
fn counts(inventory: &Inventory<'_>, reason: Reason) -> BTreeMap<NodePoolName, Count> {
    let mut counts: BTreeMap<NodePoolName, Count> = BTreeMap::new();
    let state_nodes = inventory.state_nodes.iter();
    for state_node in
        state_nodes.filter(|state_node| state_node.initialized || state_node.rebooting)
    {
        let Some(claim) = state_node.claim else {
            continue;
        };
        let Some(pool) = claim.node_pool() else {
            continue;
        };
        if claim.is_true(INSTANCE_TERMINATING) {
            continue;
        }
        let is_ready = reason == Reason::Unhealthy
            || state_node
                .node
                .is_some_and(|node| node.ready.status == ConditionStatus::True);
        let count = counts.entry(pool).or_default();
        count.total += 1;
        count.disrupting += usize::from(state_node.deleting || state_node.rebooting || !is_ready);
    }
    counts
}

/// Number of replicas that a static NodePool lacks, within its limit on nodes.
fn missing_replicas(pool: &NodePool, in_service: usize) -> usize {
    wanted_replicas(pool).saturating_sub(in_service)
}

/// Smallest number that any active budget for the reason allows of `total` nodes. A budget that does not parse allows none, for
/// any reason.
fn allowed(pool: &NodePool, reason: Reason, total: usize, now: Timestamp) -> usize {
    let mut least = usize::MAX;
    for budget in &pool.disruption.budgets {
        let (Some(nodes), Some(active), None) = (
            scaled(&budget.nodes, total),
            is_active(budget, now),
            unknown_reason(budget),
        ) else {
            return 0;
        };
        if active && applies_to(budget, reason) {
            least = least.min(nodes);
        }
    }
    least
}

/// Returns the problem with the first budget of the NodePool that does not parse.
pub(super) fn invalid_budget(pool: &NodePool) -> Option<String> {
    let budgets = pool.disruption.budgets.iter().enumerate();
    let mut wrong = budgets.filter_map(|(at, budget)| Some((at + 1, problem(budget)?)));
    wrong.next().map(|(number, problem)| {
        let name = &pool.name;
        format!(
            "Budget {number} of NodePool {name} is not valid, so nothing is disrupted: {problem}"
        )
    })
}

fn problem(budget: &Budget) -> Option<String> {
    if scaled(&budget.nodes, 0).is_none() {
        let nodes = &budget.nodes;
        return Some(format!(
            "nodes is \"{nodes}\": expected a number, or a percentage up to 100%"
        ));
    }
    if let Some(reason) = unknown_reason(budget) {
        return Some(format!(
            "reason \"{reason}\" is not known: expected Underutilized, Empty, Drifted or Unhealthy"
        ));
    }
    match (&budget.schedule, &budget.duration) {
        (Some(_), None) => Some("a schedule needs a duration".to_owned()),
        (None, Some(_)) => Some("a duration needs a schedule".to_owned()),
        (Some(schedule), Some(_)) if Schedule::parse(schedule).is_none() => Some(format!(
            "schedule is \"{schedule}\": expected five cron fields such as \"0 9 * * 1-5\", or @daily and the like"
        )),
        (Some(_), Some(duration)) if parse_go_duration(duration).is_none() => Some(format!(
            "duration is \"{duration}\": expected hours and minutes such as \"1h30m\""
        )),
        (Some(_), Some(_)) | (None, None) => None,
    }
}

fn unknown_reason(budget: &Budget) -> Option<&str> {
    let known = Reason::ALL.map(Reason::as_str);
    let mut reasons = budget.reasons.iter().map(String::as_str);
    reasons.find(|reason| !known.contains(reason))
}

fn applies_to(budget: &Budget, reason: Reason) -> bool {
    budget.reasons.is_empty() || budget.reasons.iter().any(|known| known == reason.as_str())
}

/// Resolves a number or a percentage of `total`; percentages round up.
fn scaled(nodes: &str, total: usize) -> Option<usize> {
    match nodes.strip_suffix('%') {
        None => nodes.parse().ok(),
        Some(percent) => {
            let percent: usize = percent.parse().ok().filter(|percent| *percent <= 100)?;
            Some(total.saturating_mul(percent).div_ceil(100))
        }
    }
}

/// Whether the budget is active now; `None` if its schedule or duration does not parse.
fn is_active(budget: &Budget, now: Timestamp) -> Option<bool> {
    match (&budget.schedule, &budget.duration) {
        (None, None) => Some(true),
        (Some(schedule), Some(duration)) => Some(window(schedule, duration, now)?.is_some()),
        (Some(_), None) | (None, Some(_)) => None,
    }
}

/// Earliest end of the NodePool's open budget windows.
fn window_closes(pool: &NodePool, now: Timestamp) -> Option<Timestamp> {
    let budgets = pool.disruption.budgets.iter();
    let closes = budgets.filter_map(|budget| {
        window(
            budget.schedule.as_deref()?,
            budget.duration.as_deref()?,
            now,
        )?
    });
    closes.min()
}

/// Returns the end of the open window, if one is open; `None` if schedule or duration does not parse.
fn window(schedule: &str, duration: &str, now: Timestamp) -> Option<Option<Timestamp>> {
    let duration = parse_go_duration(duration)?;
    Some(Schedule::parse(schedule)?.closes(duration, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(nodes: &str, reasons: &[&str]) -> Budget {
        Budget {
            nodes: nodes.to_owned(),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            ..Budget::default()
        }
    }

    fn scheduled(nodes: &str, schedule: &str, duration: &str) -> Budget {
        Budget {
            schedule: Some(schedule.to_owned()),
            duration: Some(duration.to_owned()),
            ..budget(nodes, &[])
        }
    }

    fn of(budgets: &[Budget], total: usize) -> usize {
        let mut pool = NodePool::default();
        pool.disruption.budgets = budgets.to_vec();
        let now = "2026-03-05T10:30:00Z".parse().unwrap();
        allowed(&pool, Reason::Empty, total, now)
    }

    #[test]
    fn percentages_round_up_and_the_strictest_budget_applies() {
        assert_eq!(of(&[budget("10%", &[])], 1), 1);
        assert_eq!(of(&[budget("10%", &[]), budget("3", &[])], 100), 3);
        assert_eq!(of(&[budget("0%", &[])], 100), 0);
        assert_eq!(of(&[], 5), usize::MAX);
    }

    #[test]
    fn budget_for_another_reason_or_outside_its_window_is_ignored() {
        let others = [
            budget("0", &["Drifted"]),
            scheduled("0", "0 11 * * *", "1h"),
            scheduled("0", "0 10 * * *", "30m"),
            budget("4", &["Empty"]),
        ];
        assert_eq!(of(&others, 10), 4);
        assert_eq!(of(&[scheduled("1", "0 10 * * *", "31m")], 10), 1);
    }

    #[test]
    fn message_names_only_the_invalid_part_of_a_budget() {
        let reported = |budget: Budget| {
            let mut pool = NodePool::default();
            pool.disruption.budgets = vec![budget];
            invalid_budget(&pool)
        };
        assert_eq!(reported(budget("9", &["Empty"])), None);
        assert_eq!(reported(scheduled("5", "@daily", "1h")), None);
        let duration = reported(scheduled("5", "@daily", "a while")).unwrap();
        assert!(duration.contains("duration is \"a while\""), "{duration}");
        let schedule = reported(scheduled("5", "never", "1h")).unwrap();
        assert!(schedule.contains("schedule is \"never\""), "{schedule}");
    }

    #[test]
    fn invalid_budget_allows_no_disruption_for_any_reason() {
        for bad in [
            budget("lots", &["Drifted"]),
            budget("200%", &[]),
            budget("-1", &[]),
            scheduled("5", "never", "1h"),
            scheduled("5", "@daily", "a while"),
            Budget {
                duration: None,
                ..scheduled("5", "@daily", "1h")
            },
        ] {
            assert_eq!(of(&[budget("9", &[]), bad.clone()], 10), 0, "{bad:?}");
        }
    }
}
