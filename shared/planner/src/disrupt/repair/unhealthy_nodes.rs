//! Nodes that are due for repair, and the reasons for which others are not.

use api::{duration::parse_go_duration, names::annotation::DO_NOT_REPAIR};
use jiff::{SignedDuration, Timestamp};
use model::{
    labels::NODE_POOL,
    ledger::{CommandState, Method},
    node::Node,
    node_claim::NodeClaim,
};

use crate::disrupt::{
    candidates::{Blocked, Candidate, nominated_until, pool_of},
    context::DisruptionContext,
};
use crate::{
    do_not_disrupt::must_not_be_disrupted,
    inventory::StateNode,
    managed::is_managed,
    repair::{DueRepair, Evaluation, FailureEvidence, Mode, POLICIES, Reboots, is_refused},
};

/// All nodes that repair considers.
#[derive(Default)]
pub(in crate::disrupt) struct UnhealthyNodes<'a> {
    /// Due nodes, the most urgent first.
    pub(in crate::disrupt) due: Vec<UnhealthyNode<'a>>,
    pub(in crate::disrupt) blocked: Vec<Blocked>,
    /// Earliest time at which another node may become due.
    pub(in crate::disrupt) next: Option<Timestamp>,
}

/// A node that is due for repair.
pub(in crate::disrupt) struct UnhealthyNode<'a> {
    pub(in crate::disrupt) candidate: Candidate<'a>,
    pub(in crate::disrupt) due: DueRepair<'a>,
}

/// Back-off after the first rolled-back repair of a node. It doubles with each further one, up to the maximum.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_BACK_OFF: SignedDuration = SignedDuration::from_mins(10);

/// Whether a node is due for repair.
enum Verdict<'a> {
    Due(Box<UnhealthyNode<'a>>),
    Blocked(String),
    /// Earliest time at which that may change by itself.
    NotNow(Option<Timestamp>),
}

impl<'a> UnhealthyNodes<'a> {
    pub(in crate::disrupt) fn new(context: &DisruptionContext<'a>) -> Self {
        let mut unhealthy_nodes = Self::default();
        if Mode::from_settings(&context.snapshot.settings) != Mode::Voluntary {
            return unhealthy_nodes;
        }
        for (at, state_node) in context.inventory.state_nodes.iter().enumerate() {
            let (Some(claim), Some(node)) = (state_node.claim, state_node.node) else {
                continue;
            };
            let is_free =
                !state_node.deleting && !state_node.rebooting && !context.is_commanded(claim);
            if !is_managed(claim) || !is_free || context.options.excluded.contains(&claim.name) {
                continue;
            }
            match judge(context, at, (state_node, claim, node)) {
                Verdict::Due(unhealthy) => unhealthy_nodes.due.push(*unhealthy),
                Verdict::Blocked(message) => unhealthy_nodes.blocked.push(Blocked {
                    node: node.name.to_string(),
                    message,
                }),
                Verdict::NotNow(next) => {
                    unhealthy_nodes.next = unhealthy_nodes.next.into_iter().chain(next).min();
                }
            }
        }
        unhealthy_nodes.due.sort_by(|a, b| {
            let disturbs = a.candidate.cost.cmp(&b.candidate.cost);
            let names = a.candidate.node.name.cmp(&b.candidate.node.name);
            let urgency = b.due.urgency.cmp(&a.due.urgency);
            urgency.then(disturbs).then(names)
        });
        unhealthy_nodes
    }
}

fn judge<'a>(
    context: &DisruptionContext<'a>,
    at: usize,
    (state_node, claim, node): (&'a StateNode<'a>, &'a NodeClaim, &'a Node),
) -> Verdict<'a> {
    let reboots = Reboots::new(claim, &context.snapshot.settings, context.now);
    let evaluation = Evaluation::new(POLICIES, node, &reboots, context.now);
    let Some(due) = evaluation.due else {
        return Verdict::NotNow(evaluation.next);
    };
    let blocked = |message: &str| Verdict::Blocked(message.to_owned());
    if let Some(until) = nominated_until(context, claim, node) {
        return Verdict::NotNow(Some(until));
    }
    let Some(pool) = state_node.labels.get(NODE_POOL) else {
        return blocked("repair requires a NodePool to construct and budget a safe replacement");
    };
    let Some(pool) = pool_of(context, pool) else {
        return Verdict::Blocked(format!("NodePool not found (NodePool={pool})"));
    };
    if is_refused(node, Some(claim)) {
        return Verdict::Blocked(format!(
            "repair is blocked through the \"{DO_NOT_REPAIR}\" annotation"
        ));
    }
    if let Some(message) = unbounded_drain(due.drain_bound, claim, || {
        has_pod_blockers(context, state_node)
    }) {
        return blocked(message);
    }
    match backs_off_until(context, claim, due.since) {
        Some(until) => Verdict::NotNow(Some(until)),
        None => Verdict::Due(Box::new(UnhealthyNode {
            candidate: Candidate::new(context, at, (state_node, claim, node), pool),
            due,
        })),
    }
}

/// Returns why a node with pods that block its drain is not repaired: neither the repair policy nor the NodeClaim bounds the
/// drain.
fn unbounded_drain(
    drain_bound: Option<SignedDuration>,
    claim: &NodeClaim,
    has_pod_blockers: impl FnOnce() -> bool,
) -> Option<&'static str> {
    let period = claim.spec.termination_grace_period.as_deref();
    let is_bounded = drain_bound.is_some() || period.and_then(parse_go_duration).is_some();
    (!is_bounded && has_pod_blockers())
        .then_some("repair requires a termination grace period to bypass blocking pods")
}

fn has_pod_blockers<'a>(context: &DisruptionContext<'a>, state_node: &'a StateNode<'a>) -> bool {
    state_node.pods.iter().any(|pod| {
        must_not_be_disrupted(pod, context.now)
            || context.pdb_limits.blocking_budgets(pod).is_some()
    })
}

/// End of the back-off after rolled-back repairs of this episode.
fn backs_off_until(
    context: &DisruptionContext<'_>,
    claim: &NodeClaim,
    since: Timestamp,
) -> Option<Timestamp> {
    let commands = context.snapshot.commands.iter();
    let failed = commands.filter(|command| {
        let choice = command.choice.as_ref();
        command.state == CommandState::RolledBack
            && choice.is_some_and(|choice| choice.method == Method::Repair)
            && command.committed_at >= since
            && command.targets().any(|target| target.uid == claim.uid)
    });
    let (mut wait, mut last) = (SignedDuration::ZERO, None);
    for command in failed {
        wait = match last {
            None => BACK_OFF,
            Some(_) => wait.saturating_mul(2).min(LONGEST_BACK_OFF),
        };
        last = last.max(Some(command.committed_at));
    }
    let until = last?.saturating_add(wait).ok()?;
    (until > context.now).then_some(until)
}

impl UnhealthyNode<'_> {
    /// Returns why the repair is held back because other nodes fail alike.
    pub(in crate::disrupt) fn held_back(&self, evidence: &FailureEvidence<'_>) -> Option<String> {
        let candidate = &self.candidate;
        evidence.repair((candidate.claim, candidate.node), candidate.pool, &self.due)
    }

    /// Describes the condition that is repaired and the bound of the drain, for people.
    pub(in crate::disrupt) fn diagnosis(&self) -> String {
        let DueRepair {
            condition,
            status,
            reason,
            since,
            drain_bound,
            ..
        } = self.due;
        let status = status.as_str();
        let reason = match reason {
            "" => String::new(),
            reason => format!(" ({reason})"),
        };
        let drain = match drain_bound {
            None => "pods drain within the NodeClaim's terminationGracePeriod".to_owned(),
            Some(SignedDuration::ZERO) => {
                "pods are deleted without waiting for their eviction".to_owned()
            }
            Some(bound) => format!("pods have {bound:#} to drain"),
        };
        format!(
            "{condition}={status}{reason} has exceeded its toleration since {since:.0}; {drain}"
        )
    }
}

#[cfg(test)]
mod tests;
