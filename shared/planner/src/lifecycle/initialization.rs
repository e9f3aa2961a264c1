//! Initialization of registered Nodes (docs/spec/lifecycle.md#initialization).

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::types::{INITIALIZED, LAUNCHED},
    names::{annotation::REQUESTED_DRA_DRIVERS, label, taint as names},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    NodeName, Snapshot,
    devices::slices_by_node,
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::NodeUpdate,
    taint::{Taint, TaintEffect},
};

use crate::decision::{Decision, Note};

/// Missing requirement of a Node.
pub(super) struct Waiting {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Waiting {
    /// Reason for a Node that reboots, which is initialized again afterwards.
    pub(super) fn for_reboot() -> Self {
        Self {
            reason: "Rebooting",
            message: "The node reboots".to_owned(),
        }
    }
}

pub(super) fn judge(
    claim: &NodeClaim,
    node: &Node,
    published: Option<&Published<'_>>,
) -> Result<(), Waiting> {
    let waiting = |reason, message: String| Err(Waiting { reason, message });
    if node.ready.status != ConditionStatus::True {
        return waiting("NodeNotReady", "Node status is NotReady".to_owned());
    }
    let is_startup = |taint: &&Taint| {
        claim
            .spec
            .startup_taints
            .iter()
            .any(|startup| startup.key == taint.key && startup.effect == taint.effect)
    };
    if let Some(taint) = node.taints.iter().find(is_startup) {
        return waiting(
            "StartupTaintsExist",
            format!("StartupTaint \"{}\" still exists", text(taint)),
        );
    }
    if let Some(taint) = node.taints.iter().find(|taint| is_ephemeral(taint)) {
        return waiting(
            "KnownEphemeralTaintsExist",
            format!("KnownEphemeralTaint \"{}\" still exists", text(taint)),
        );
    }
    let missing = claim
        .spec
        .requests
        .iter()
        .find(|(name, amount)| *amount != 0 && node.allocatable.get(name) == 0);
    if let Some((name, _)) = missing {
        return waiting(
            "ResourceNotRegistered",
            format!("Resource \"{name}\" was requested but not registered"),
        );
    }
    match published.and_then(|published| published.missing(claim, node)) {
        Some(driver) => waiting(
            NOT_PUBLISHED,
            format!(
                "Driver \"{driver}\" has not published the node's devices completely (ResourceSlices)"
            ),
        ),
        None => Ok(()),
    }
}

/// Reason of a Node whose drivers have not published its devices.
const NOT_PUBLISHED: &str = "DRADriverPoolsNotPublished";
/// Interval between checks for published devices. No event reports them to the lifecycle function.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// Time after the launch from which a NodeClaim that waits for a driver gets events.
const REPORTED_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// Drivers that have published devices, by node.
pub(super) struct Published<'a>(BTreeMap<&'a NodeName, BTreeSet<&'a str>>);

impl<'a> Published<'a> {
    /// Returns `None` if device claims are ignored.
    pub(super) fn from_snapshot(snapshot: &'a Snapshot) -> Option<Self> {
        if !snapshot.settings.device_claims {
            return None;
        }
        let by_node = slices_by_node(&snapshot.devices.slices).into_iter();
        let drivers = by_node.map(|(node, slices)| {
            let drivers = slices.iter().map(|slice| slice.driver.as_str());
            (node, drivers.collect())
        });
        Some(Self(drivers.collect()))
    }

    /// Returns a driver that the NodeClaim requested devices of, and that has not published the node's devices.
    fn missing(&self, claim: &'a NodeClaim, node: &Node) -> Option<&'a str> {
        let drivers = claim.annotations.get(REQUESTED_DRA_DRIVERS)?;
        let published = self.0.get(&node.name);
        let mut drivers = drivers.split(',').filter(|driver| !driver.is_empty());
        drivers.find(|driver| !published.is_some_and(|known| known.contains(driver)))
    }
}

/// Schedules the next check of a NodeClaim that waits for a driver, and emits an event once it has waited for long.
pub(super) fn recheck_at(
    claim: &NodeClaim,
    waiting: &Waiting,
    now: Timestamp,
    decision: &mut Decision,
) {
    if waiting.reason != NOT_PUBLISHED || claim.is_true(INITIALIZED) {
        return;
    }
    decision.recheck_at(now + RECHECK_AFTER);
    let launched = claim
        .condition(LAUNCHED)
        .map(|condition| condition.last_transition);
    if launched.is_some_and(|launched| now.duration_since(launched) >= REPORTED_AFTER) {
        let message = format!(
            "{}: pods with ResourceClaims for devices of this node are waiting",
            waiting.message
        );
        decision
            .notes
            .push(Note::warning(claim, NOT_PUBLISHED, message));
    }
}

/// Update that adds the label to the Node, if it is missing.
pub(super) fn label(node: &Node) -> Option<NodeUpdate> {
    (node.labels.get(label::INITIALIZED).map(String::as_str) != Some("true")).then(|| NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        set_labels: BTreeMap::from([(label::INITIALIZED.to_owned(), "true".to_owned())]),
        ..NodeUpdate::default()
    })
}

fn is_ephemeral(taint: &Taint) -> bool {
    let no_schedule = taint.effect == TaintEffect::NoSchedule;
    let no_execute = taint.effect == TaintEffect::NoExecute;
    match taint.key.as_str() {
        names::NOT_READY => no_schedule || no_execute,
        names::UNREACHABLE => no_schedule,
        names::UNINITIALIZED => no_schedule && taint.value == "true",
        names::UNREGISTERED => no_execute,
        key => key.starts_with(names::READINESS_PREFIX),
    }
}

fn text(taint: &Taint) -> String {
    let effect = format!("{:?}", taint.effect);
    if taint.value.is_empty() {
        format!("{}:{effect}", taint.key)
    } else {
        format!("{}={}:{effect}", taint.key, taint.value)
    }
}

#[cfg(test)]
mod tests;
