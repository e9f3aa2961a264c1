//! Termination of nodes that Whittle does not manage and whose owners opted in: cordon, drain, and release the instance
//! (docs/spec/migrate.md#nth).

use std::collections::{BTreeMap, BTreeSet};

use api::names::nth;
use jiff::SignedDuration;
use model::{
    Action, InstanceId, Snapshot,
    interruption::InterruptionAction,
    ledger::Notice,
    node::Node,
    plan::NodeUpdate,
    pod::Pod,
    taint::{Taint, TaintEffect},
};

use crate::{
    by_instance::instance_of,
    decision::{Decision, Note},
    inventory::is_daemon,
    pods_of_nodes::PodsOfNodes,
    unmanaged::{Announcement, UnmanagedNodeSettings, has_rebooted},
};

use super::{deadline::Deadline, drain::Drain, volumes};

/// Instances with an open notice that needs no further step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedNotices {
    pub drained: BTreeSet<InstanceId>,
    /// Instances without a listed Node, which does not prove that there is none.
    pub unlisted: BTreeSet<InstanceId>,
}

/// Returns the next step of every node with an open notice, and the instances that need none.
pub fn terminate_unmanaged(
    snapshot: &Snapshot,
    settings: &UnmanagedNodeSettings,
) -> (Decision, CompletedNotices) {
    let mut notices: BTreeMap<&InstanceId, Vec<&Notice>> = BTreeMap::new();
    for notice in snapshot
        .notices
        .iter()
        .filter(|notice| notice.unmanaged && !notice.done)
    {
        notices.entry(&notice.instance).or_default().push(notice);
    }
    let (mut decision, mut completed) = (Decision::default(), CompletedNotices::default());
    if notices.is_empty() {
        return (decision, completed);
    }
    let pods = PodsOfNodes::new(snapshot);
    let mut nodes = BTreeMap::new();
    for node in &snapshot.nodes {
        nodes.extend(instance_of(&node.provider_id).map(|instance| (instance, node)));
    }
    for (instance, notices) in notices {
        // The Node never joined, is deleted, or is missing from the list.
        let Some(node) = nodes.get(instance) else {
            completed.unlisted.insert(instance.clone());
            continue;
        };
        let leaving = Leaving {
            snapshot,
            settings,
            node,
            instance,
            notices,
        };
        if leaving.step(pods.of(node), &mut decision) {
            completed.drained.insert(instance.clone());
        }
    }
    (decision, completed)
}

/// Interval between checks. The shortest lifecycle hook expires after 30 s and must be extended in time.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// An unmanaged node with open notices.
struct Leaving<'a> {
    snapshot: &'a Snapshot,
    settings: &'a UnmanagedNodeSettings,
    node: &'a Node,
    instance: &'a InstanceId,
    notices: Vec<&'a Notice>,
}

impl<'a> Leaving<'a> {
    /// Takes the next step; returns whether none is left.
    fn step(&self, pods: &[&'a Pod], decision: &mut Decision) -> bool {
        let node = self.node;
        let announced: Vec<Announcement<'_>> =
            self.notices.iter().map(|notice| (*notice).into()).collect();
        if has_rebooted(node) && self.notices.iter().all(|notice| notice.reboots) {
            // The announced reboot has happened, regardless of the pods on the node.
            return true;
        }
        let cordons = self
            .notices
            .iter()
            .all(|notice| notice.action == InterruptionAction::Cordon);
        let because = || format!("an interruption of instance {} is announced", self.instance);
        if let Some(update) = self.settings.mark(node, &announced, self.snapshot.now) {
            decision.act(Action::UpdateNode(update), because());
            decision.recheck_at(self.snapshot.now);
            let reason = if cordons { "Cordon" } else { "CordonAndDrain" };
            decision.notes.push(Note::normal(node, reason, because()));
        }
        if cordons {
            return node.unschedulable;
        }
        // DaemonSet pods tolerate a cordon and would be recreated immediately.
        let pods: Vec<&Pod> = pods.iter().copied().filter(|pod| !is_daemon(pod)).collect();
        let deadline = Deadline::announced(self.instance, Some(self.snapshot.now), self.snapshot);
        let grace = self.settings.pod_grace_seconds;
        let drain = Drain::new(self.snapshot, &pods, deadline.as_ref(), grace);
        let at = deadline.map(|deadline| deadline.at);
        let volumes = volumes::judge(self.snapshot, node, &pods, at);
        let now = self.snapshot.now;
        if drain.has_pods() || volumes.are_awaited() {
            drain.plan_actions(node, decision);
            decision.recheck_at(now.saturating_add(RECHECK_AFTER).unwrap_or(now));
            if let Some(next) = drain.next() {
                decision.recheck_at(next);
            }
            return false;
        }
        if let Some(update) = self.out_of_service() {
            decision.act(
                Action::UpdateNode(update),
                format!("node {} is drained", node.name),
            );
            decision.recheck_at(now);
            return false;
        }
        if node.unschedulable {
            let message = format!("node {} is drained", node.name);
            decision
                .notes
                .push(Note::normal(node, "PostDrain", message));
        }
        node.unschedulable
    }

    fn out_of_service(&self) -> Option<NodeUpdate> {
        let taint = Taint {
            key: nth::OUT_OF_SERVICE.to_owned(),
            value: "nodeshutdown".to_owned(),
            effect: TaintEffect::NoExecute,
        };
        let node = self.node;
        let wanted = self.settings.out_of_service_taint && node.unschedulable;
        (wanted && !node.taints.contains(&taint)).then(|| NodeUpdate {
            resource_version: node.resource_version.clone(),
            taints: Some(node.taints.iter().cloned().chain([taint]).collect()),
            ..super::update_of(node)
        })
    }
}
