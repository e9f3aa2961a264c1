//! Nodes that are due for repair, and why others are not.

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
    scene::Scene,
};
use crate::{
    do_not_disrupt::must_not_be_disrupted,
    inventory::Machine,
    managed::is_ours,
    repair::{DueRepair, Evaluation, Held, Mode, POLICIES, Reboots, is_refused},
};

/// Every node that repair is about.
#[derive(Default)]
pub(in crate::disrupt) struct Patients<'a> {
    /// The most urgent first.
    pub(in crate::disrupt) due: Vec<Patient<'a>>,
    pub(in crate::disrupt) blocked: Vec<Blocked>,
    /// When a further node may be due.
    pub(in crate::disrupt) next: Option<Timestamp>,
}

/// A node that is due for repair.
pub(in crate::disrupt) struct Patient<'a> {
    pub(in crate::disrupt) candidate: Candidate<'a>,
    pub(in crate::disrupt) due: DueRepair<'a>,
}

/// Wait after the first repair of a node that was taken back; each further one doubles it, up to the longest.
const BACK_OFF: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_BACK_OFF: SignedDuration = SignedDuration::from_mins(10);

enum Verdict<'a> {
    Due(Box<Patient<'a>>),
    Blocked(String),
    /// Not before this instant, unless something else changes.
    NotNow(Option<Timestamp>),
}

impl<'a> Patients<'a> {
    pub(in crate::disrupt) fn of(scene: &Scene<'a>) -> Self {
        let mut patients = Self::default();
        if Mode::of(&scene.snapshot.settings) != Mode::Voluntary {
            return patients;
        }
        for (at, machine) in scene.inventory.machines.iter().enumerate() {
            let (Some(claim), Some(node)) = (machine.claim, machine.node) else {
                continue;
            };
            let is_free = !machine.deleting && !machine.rebooting && !scene.is_commanded(claim);
            if !is_ours(claim) || !is_free || scene.stance.spared.contains(&claim.name) {
                continue;
            }
            match judge(scene, at, (machine, claim, node)) {
                Verdict::Due(patient) => patients.due.push(*patient),
                Verdict::Blocked(message) => patients.blocked.push(Blocked {
                    node: node.name.to_string(),
                    message,
                }),
                Verdict::NotNow(next) => {
                    patients.next = patients.next.into_iter().chain(next).min();
                }
            }
        }
        patients.due.sort_by(|a, b| {
            let disturbs = a.candidate.cost.cmp(&b.candidate.cost);
            let names = a.candidate.node.name.cmp(&b.candidate.node.name);
            let urgency = b.due.urgency.cmp(&a.due.urgency);
            urgency.then(disturbs).then(names)
        });
        patients
    }
}

fn judge<'a>(
    scene: &Scene<'a>,
    at: usize,
    (machine, claim, node): (&'a Machine<'a>, &'a NodeClaim, &'a Node),
) -> Verdict<'a> {
    let reboots = Reboots::of(claim, &scene.snapshot.settings, scene.now);
    let evaluation = Evaluation::of(POLICIES, node, &reboots, scene.now);
    let Some(due) = evaluation.due else {
        return Verdict::NotNow(evaluation.next);
    };
    let blocked = |message: &str| Verdict::Blocked(message.to_owned());
    if let Some(until) = nominated_until(scene, claim, node) {
        return Verdict::NotNow(Some(until));
    }
    let Some(pool) = machine.labels.get(NODE_POOL) else {
        return blocked("repair requires a NodePool to construct and budget a safe replacement");
    };
    let Some(pool) = pool_of(scene, pool) else {
        return Verdict::Blocked(format!("NodePool not found (NodePool={pool})"));
    };
    if is_refused(node, Some(claim)) {
        return Verdict::Blocked(format!(
            "repair is blocked through the \"{DO_NOT_REPAIR}\" annotation"
        ));
    }
    if let Some(message) = unbounded(due.drain_bound, claim, || has_pod_blockers(scene, machine)) {
        return blocked(message);
    }
    match backs_off_until(scene, claim, due.since) {
        Some(until) => Verdict::NotNow(Some(until)),
        None => Verdict::Due(Box::new(Patient {
            candidate: Candidate::new(scene, at, (machine, claim, node), pool),
            due,
        })),
    }
}

/// Why a node with pods that block its drain stays whose drain nothing bounds, neither the policy of its repair nor its NodeClaim.
fn unbounded(
    drain_bound: Option<SignedDuration>,
    claim: &NodeClaim,
    has_pod_blockers: impl FnOnce() -> bool,
) -> Option<&'static str> {
    let period = claim.spec.termination_grace_period.as_deref();
    let is_bounded = drain_bound.is_some() || period.and_then(parse_go_duration).is_some();
    (!is_bounded && has_pod_blockers())
        .then_some("repair requires a termination grace period to bypass blocking pods")
}

fn has_pod_blockers<'a>(scene: &Scene<'a>, machine: &'a Machine<'a>) -> bool {
    machine
        .pods
        .iter()
        .any(|pod| must_not_be_disrupted(pod, scene.now) || scene.guards.refusing(pod).is_some())
}

/// Repairs of this episode that were taken back hold up the next one.
fn backs_off_until(scene: &Scene<'_>, claim: &NodeClaim, since: Timestamp) -> Option<Timestamp> {
    let commands = scene.snapshot.commands.iter();
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
    (until > scene.now).then_some(until)
}

impl Patient<'_> {
    /// Why it is not repaired because others fail alike.
    pub(in crate::disrupt) fn held_back(&self, held: &Held<'_>) -> Option<String> {
        let candidate = &self.candidate;
        held.repair((candidate.claim, candidate.node), candidate.pool, &self.due)
    }

    /// Names the condition that the node is repaired for, and how its pods leave, for people.
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
            None => "pods leave within the NodeClaim's grace period".to_owned(),
            Some(SignedDuration::ZERO) => "pods are removed by force".to_owned(),
            Some(bound) => format!("pods have {bound:#} to leave"),
        };
        format!("{condition}={status}{reason} is not tolerated since {since:.0}, {drain}")
    }
}

#[cfg(test)]
mod tests;
