//! Nodes without a NodePool whose owners opted in to interruption handling: what happens to them and how they are marked, as
//! with the AWS Node Termination Handler (docs/spec/migrate.md#nth).

use std::collections::{BTreeMap, BTreeSet};

use api::names::{annotation, label, nth};
use jiff::Timestamp;
use model::{
    Action, Interruption, InterruptionKind, Snapshot,
    interruption::InterruptionAction,
    ledger::Notice,
    node::{ConditionStatus, Node},
    plan::NodeUpdate,
    taint::{Taint, TaintEffect},
};

use crate::{
    by_instance::instance_of,
    decision::{Decision, Note},
};

/// Settings of a cluster for unmanaged nodes, named after NTH's options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmanagedNodeSettings {
    /// Key of the instance tag or node label that opts in.
    pub managed_tag: String,
    /// Whether decisions are only logged.
    pub dry_run: bool,
    pub cordon_only: bool,
    /// Action on a rebalance recommendation; `None` ignores it.
    pub rebalance: Option<InterruptionAction>,
    /// Effect of NTH's taint for the announced event, if it is set.
    pub taint: Option<TaintEffect>,
    /// Whether a drained node gets the out-of-service taint, so that its volumes are detached by force.
    pub out_of_service_taint: bool,
    /// Upper bound on the grace period of pods, in seconds; `None` keeps each pod's own.
    pub pod_grace_seconds: Option<i64>,
}

impl Default for UnmanagedNodeSettings {
    fn default() -> Self {
        Self {
            managed_tag: nth::MANAGED.to_owned(),
            dry_run: false,
            cordon_only: false,
            rebalance: Some(InterruptionAction::Drain),
            taint: None,
            out_of_service_taint: false,
            pod_grace_seconds: None,
        }
    }
}

/// Announced event of an instance, as far as it is written to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement<'a> {
    kind: &'a str,
    event: &'a str,
    reboots: bool,
}

impl<'a> From<&'a Notice> for Announcement<'a> {
    fn from(notice: &'a Notice) -> Self {
        Self {
            kind: &notice.kind,
            event: &notice.event,
            reboots: notice.reboots,
        }
    }
}

impl<'a> From<&'a Interruption> for Announcement<'a> {
    fn from(fact: &'a Interruption) -> Self {
        Self {
            kind: fact.kind.as_str(),
            event: &fact.event,
            reboots: fact.reboots,
        }
    }
}

impl UnmanagedNodeSettings {
    /// Action on this kind of event; `None` ignores it.
    pub fn action(&self, kind: InterruptionKind) -> Option<InterruptionAction> {
        let action = match kind.action() {
            Some(_) => InterruptionAction::Drain,
            None => self.rebalance?,
        };
        Some(if self.cordon_only {
            InterruptionAction::Cordon
        } else {
            action
        })
    }

    /// Update that cordons and labels the node, as far as it is needed. A node cordoned for a reboot is marked to be uncordoned
    /// afterwards, unless it was cordoned before.
    pub fn mark(
        &self,
        node: &Node,
        announced: &[Announcement<'_>],
        now: Timestamp,
    ) -> Option<NodeUpdate> {
        let taints = self.missing_taints(node, announced);
        let excluded = node.labels.contains_key(label::EXCLUDE_FROM_LOAD_BALANCERS);
        if node.unschedulable && excluded && taints.is_empty() {
            return None;
        }
        let mut update = NodeUpdate {
            name: node.name.clone(),
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
            cordon: !node.unschedulable,
            ..NodeUpdate::default()
        };
        let mut set = |key: &str, value: String| update.set_labels.insert(key.to_owned(), value);
        if !excluded {
            set(label::EXCLUDE_FROM_LOAD_BALANCERS, nth::NAME.to_owned());
        }
        let reboot = announced.iter().find(|announcement| announcement.reboots);
        // Without a boot id, a later boot could not be recognized.
        if let Some(reboot) = reboot.filter(|_| !node.unschedulable && !node.boot_id.is_empty()) {
            set(nth::ACTION, nth::UNCORDON_AFTER_REBOOT.to_owned());
            set(nth::ACTION_TIME, now.as_second().to_string());
            set(nth::EVENT_ID, label_value(reboot.event));
            let boot = (annotation::BOOT_ID.to_owned(), node.boot_id.clone());
            update.set_annotations = BTreeMap::from([boot]);
        }
        if !taints.is_empty() {
            let kept = node.taints.iter().cloned();
            update.taints = Some(kept.chain(taints).collect());
        }
        Some(update)
    }

    /// Missing taints, one per key, regardless of the value of existing ones.
    fn missing_taints(&self, node: &Node, announced: &[Announcement<'_>]) -> Vec<Taint> {
        let mut missing: Vec<Taint> = Vec::new();
        for announcement in announced {
            let (Some(effect), Some(key)) = (self.taint, nth::taint(announcement.kind)) else {
                continue;
            };
            let mut taints = node.taints.iter().chain(&missing);
            if !taints.any(|taint| taint.key == key && taint.effect == effect) {
                missing.push(Taint {
                    key: key.to_owned(),
                    value: label_value(announcement.event),
                    effect,
                });
            }
        }
        missing
    }
}

/// Longest value of labels and taints.
const LABEL_VALUE_MAX: usize = 63;

/// Longest part of a text that is a valid label value.
fn label_value(text: &str) -> String {
    let may = |c: &char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(c);
    let value: String = text.chars().filter(may).take(LABEL_VALUE_MAX).collect();
    let outer = |c: char| !c.is_ascii_alphanumeric();
    value.trim_matches(outer).to_owned()
}

/// Uncordons nodes that were cordoned for a reboot and have rebooted, and removes their marks.
pub fn rebooted(snapshot: &Snapshot) -> Decision {
    let open = snapshot.notices.iter().filter(|notice| !notice.done);
    let leaving: BTreeSet<_> = open.map(|notice| notice.instance.clone()).collect();
    let mut decision = Decision::default();
    for node in snapshot.nodes.iter().filter(|node| has_rebooted(node)) {
        let leaves = instance_of(&node.provider_id).is_some_and(|id| leaving.contains(&id));
        if leaves || node.ready.status != ConditionStatus::True {
            continue;
        }
        let because = || format!("node {} has rebooted", node.name);
        decision.act(Action::UpdateNode(unmarked(node)), because());
        let note = Note::normal(node, "Uncordon", because());
        decision.notes.push(note);
    }
    decision
}

/// Whether a node that was marked for a reboot has rebooted since.
pub(crate) fn has_rebooted(node: &Node) -> bool {
    let action = node.labels.get(nth::ACTION);
    let before = node.annotations.get(annotation::BOOT_ID);
    action.is_some_and(|action| action == nth::UNCORDON_AFTER_REBOOT)
        && !node.boot_id.is_empty()
        && before.is_some_and(|before| *before != node.boot_id)
}

fn unmarked(node: &Node) -> NodeUpdate {
    // The label may have been set by something else.
    let by = node.labels.get(label::EXCLUDE_FROM_LOAD_BALANCERS);
    let excluded = by.is_some_and(|by| by == nth::NAME);
    let excluded = excluded.then_some(label::EXCLUDE_FROM_LOAD_BALANCERS);
    let marks = [nth::ACTION, nth::ACTION_TIME, nth::EVENT_ID];
    let labels = marks.into_iter().chain(excluded).map(str::to_owned);
    let is_kept = |taint: &&Taint| {
        let ours = taint.key.split('/').next() == Some(nth::NAME);
        !ours && taint.key != nth::OUT_OF_SERVICE
    };
    let taints: Vec<Taint> = node.taints.iter().filter(is_kept).cloned().collect();
    NodeUpdate {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        uncordon: true,
        remove_labels: labels.collect(),
        remove_annotations: vec![annotation::BOOT_ID.to_owned()],
        taints: (taints != node.taints).then_some(taints),
        ..NodeUpdate::default()
    }
}

#[cfg(test)]
mod tests;
