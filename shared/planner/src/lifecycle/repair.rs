//! Nodes that stay unhealthy are replaced, but never many at once: then something else is wrong (spec/lifecycle §24, gate
//! NodeRepair; spec/aws §16).

use std::collections::BTreeMap;

use api::names::annotation::TERMINATION_TIMESTAMP;
use jiff::{SignedDuration, Timestamp};
use model::{
    Snapshot,
    labels::NODE_POOL,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::NodeClaimUpdate,
};

use crate::{decision::Note, lifecycle::update_of, machine::Ending};

struct Policy {
    kind: &'static str,
    status: ConditionStatus,
    tolerated_minutes: i64,
}

const fn policy(kind: &'static str, status: ConditionStatus, tolerated_minutes: i64) -> Policy {
    Policy {
        kind,
        status,
        tolerated_minutes,
    }
}

const POLICIES: [Policy; 7] = [
    policy("Ready", ConditionStatus::False, 30),
    policy("Ready", ConditionStatus::Unknown, 30),
    policy("AcceleratedHardwareReady", ConditionStatus::False, 10),
    policy("StorageReady", ConditionStatus::False, 30),
    policy("NetworkingReady", ConditionStatus::False, 30),
    policy("KernelReady", ConditionStatus::False, 30),
    policy("ContainerRuntimeReady", ConditionStatus::False, 30),
];

/// More than this share of a NodePool's nodes, rounded up, is nothing that new nodes would mend.
const BLOCKED_ABOVE_PERCENT: usize = 20;
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(5);

/// The nodes of every NodePool, and of all: how many there are, and how many are unhealthy.
pub(super) struct Wards<'a> {
    /// `None` while the gate is off.
    counts: Option<Counts<'a>>,
}

#[derive(Default)]
struct Counts<'a> {
    pools: BTreeMap<&'a str, Ward>,
    all: Ward,
}

#[derive(Clone, Copy, Default)]
struct Ward {
    nodes: usize,
    unhealthy: usize,
}

pub(super) enum Verdict {
    Well,
    /// It is tolerated until then.
    At(Timestamp),
    /// Too many others are unhealthy, too.
    Blocked(Vec<Note>, Timestamp),
    Due,
}

impl<'a> Wards<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let gates = &snapshot.settings.feature_gates;
        if gates.get("NodeRepair") != Some(&true) {
            return Self { counts: None };
        }
        let mut counts = Counts::default();
        for node in &snapshot.nodes {
            // Also while it is tolerated.
            let unhealthy = since(node).is_some();
            counts.all.add(unhealthy);
            if let Some(pool) = node.labels.get(NODE_POOL) {
                counts.pools.entry(pool).or_default().add(unhealthy);
            }
        }
        Self {
            counts: Some(counts),
        }
    }

    pub(super) fn judge(&self, claim: &NodeClaim, node: &Node, now: Timestamp) -> Verdict {
        let Some(counts) = &self.counts else {
            return Verdict::Well;
        };
        let Some(at) = since(node) else {
            return Verdict::Well;
        };
        if at > now {
            return Verdict::At(at);
        }
        let (ward, message) = match claim.labels.get(NODE_POOL) {
            Some(pool) => (
                counts.pools.get(pool.as_str()).copied().unwrap_or_default(),
                "more than 20% nodes are unhealthy in the nodepool",
            ),
            None => (
                counts.all,
                "more then 20% nodes are unhealthy in the cluster",
            ),
        };
        if ward.unhealthy <= ward.allowed() {
            return Verdict::Due;
        }
        let note = Note::warning(node, "NodeRepairBlocked", message);
        let again = now.saturating_add(LOOK_AGAIN).unwrap_or(now);
        Verdict::Blocked(vec![note], again)
    }
}

impl Ward {
    fn add(&mut self, unhealthy: bool) {
        self.nodes += 1;
        self.unhealthy += usize::from(unhealthy);
    }

    fn allowed(self) -> usize {
        (self.nodes * BLOCKED_ABOVE_PERCENT).div_ceil(100)
    }
}

/// When the first of the node's troubles is no longer tolerated.
fn since(node: &Node) -> Option<Timestamp> {
    let ready = ("Ready", node.ready.status, node.ready.since);
    let others = node.conditions.iter();
    let others = others.map(|other| (other.kind.as_str(), other.status, other.since));
    let due = |(kind, status, since): (&str, ConditionStatus, Option<Timestamp>)| {
        let policy = POLICIES
            .iter()
            .find(|policy| policy.kind == kind && policy.status == status)?;
        let tolerated = SignedDuration::from_mins(policy.tolerated_minutes);
        since?.checked_add(tolerated).ok()
    };
    std::iter::once(ready).chain(others).filter_map(due).min()
}

/// Whether a NodeClaim was to be deleted for this reason because its node was unhealthy, and the node is well by now.
pub(crate) fn is_over(reason: &str, node: &Node) -> bool {
    let (unhealthy, _) = Ending::Unhealthy.because();
    reason.starts_with(unhealthy) && since(node).is_none()
}

/// Lets everything on the node be removed by force from now on, unless it may be already, in whatever version the NodeClaim is.
pub(super) fn hasten(claim: &NodeClaim, now: Timestamp) -> Option<NodeClaimUpdate> {
    let written = claim.annotations.get(TERMINATION_TIMESTAMP);
    let written = written.and_then(|text| text.parse::<Timestamp>().ok());
    if written.is_some_and(|at| at <= now) {
        return None;
    }
    let mut update = NodeClaimUpdate {
        resource_version: String::new(),
        ..update_of(claim)
    };
    update
        .set_annotations
        .insert(TERMINATION_TIMESTAMP.to_owned(), format!("{now:.0}"));
    Some(update)
}

#[cfg(test)]
mod tests;
