//! Forced repair (`legacyNodeRepair`): deletes unhealthy nodes immediately, regardless of their pods, unless too many are unhealthy
//! (docs/disruption.md).

use std::collections::BTreeMap;

use api::names::annotation::TERMINATION_TIMESTAMP;
use jiff::{SignedDuration, Timestamp};
use model::{
    Snapshot, labels::NODE_POOL, node::Node, node_claim::NodeClaim, plan::NodeClaimUpdate,
};

use crate::{
    decision::Note,
    lifecycle::update_of,
    machine::Ending,
    repair::{Count, Mode, POLICIES, RepairAction, conditions},
};

/// Interval between checks while too many nodes are unhealthy.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Counts of nodes and unhealthy nodes, by NodePool and in total.
pub(super) struct ForcedRepair<'a> {
    /// `None` if the gate is off.
    counts: Option<Counts<'a>>,
    /// Whether errors that a reboot repairs are left to the reboot of nodes.
    spares_reboots: bool,
}

/// Node counts by NodePool and in total.
#[derive(Default)]
struct Counts<'a> {
    pools: BTreeMap<&'a str, Count>,
    all: Count,
}

/// Whether a node is due for forced repair.
pub(super) enum Verdict<'n> {
    Well,
    /// Tolerated until this time.
    At(Timestamp),
    /// Too many other nodes are unhealthy.
    Blocked(Vec<Note>, Timestamp),
    /// Condition whose toleration is over.
    Due(&'n str),
}

impl<'a> ForcedRepair<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let gates = &snapshot.settings.feature_gates;
        let spares_reboots = gates.get("RebootForRepair") == Some(&true);
        if Mode::from_settings(&snapshot.settings) != Mode::Legacy {
            return Self {
                counts: None,
                spares_reboots,
            };
        }
        let mut counts = Counts::default();
        for node in &snapshot.nodes {
            // Counts nodes whose condition is still tolerated, too.
            let unhealthy = since(node, spares_reboots).is_some();
            counts.all.add(unhealthy);
            if let Some(pool) = node.labels.get(NODE_POOL) {
                counts.pools.entry(pool).or_default().add(unhealthy);
            }
        }
        Self {
            counts: Some(counts),
            spares_reboots,
        }
    }

    pub(super) fn judge<'n>(
        &self,
        claim: &NodeClaim,
        node: &'n Node,
        now: Timestamp,
    ) -> Verdict<'n> {
        let Some(counts) = &self.counts else {
            return Verdict::Well;
        };
        let Some((at, condition)) = since(node, self.spares_reboots) else {
            return Verdict::Well;
        };
        if at > now {
            return Verdict::At(at);
        }
        let (count, message) = match claim.labels.get(NODE_POOL) {
            Some(pool) => (
                counts.pools.get(pool.as_str()).copied().unwrap_or_default(),
                "more than 20% nodes are unhealthy in the nodepool",
            ),
            None => (
                counts.all,
                "more then 20% nodes are unhealthy in the cluster",
            ),
        };
        if !count.is_blocked() {
            return Verdict::Due(condition);
        }
        let note = Note::warning(node, "NodeRepairBlocked", message);
        let again = now.saturating_add(RECHECK_AFTER).unwrap_or(now);
        Verdict::Blocked(vec![note], again)
    }
}

/// Time at which the first condition of the node is no longer tolerated, and its type.
fn since(node: &Node, spares_reboots: bool) -> Option<(Timestamp, &str)> {
    let due = conditions(node).filter_map(|(name, status, reason, since)| {
        let of_own = POLICIES
            .iter()
            .filter(|policy| policy.applies(name, status, reason))
            .filter(|policy| !spares_reboots || policy.action == RepairAction::Replace);
        let tolerated = of_own.map(|policy| policy.toleration).min()?;
        Some((since?.checked_add(tolerated).ok()?, name))
    });
    due.min()
}

/// Whether `reason` is that of a forced repair whose node is healthy again.
pub(crate) fn is_over(reason: &str, node: &Node) -> bool {
    let (unhealthy, _) = Ending::Unhealthy.because();
    reason.starts_with(unhealthy) && since(node, false).is_none()
}

/// Update that allows the deletion of everything on the node by force from now on, unless it is allowed already. It has no
/// condition on the resource version.
pub(super) fn allow_forced_deletion(claim: &NodeClaim, now: Timestamp) -> Option<NodeClaimUpdate> {
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
