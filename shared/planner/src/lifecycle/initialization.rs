//! A registered Node becomes usable (spec/lifecycle §6).

use std::collections::BTreeMap;

use api::names::{label, taint as names};
use model::{
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::NodeUpdate,
    taint::{Taint, TaintEffect},
};

/// What the Node still lacks.
pub(super) struct Waiting {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Waiting {
    /// The node reboots, and is initialized anew when it is back.
    pub(super) fn for_reboot() -> Self {
        Self {
            reason: "Rebooting",
            message: "The node reboots".to_owned(),
        }
    }
}

pub(super) fn judge(claim: &NodeClaim, node: &Node) -> Result<(), Waiting> {
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
    match missing {
        Some((name, _)) => waiting(
            "ResourceNotRegistered",
            format!("Resource \"{name}\" was requested but not registered"),
        ),
        None => Ok(()),
    }
}

/// The Node's label, where it lacks it.
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
