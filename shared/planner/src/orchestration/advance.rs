use std::collections::BTreeMap;

use api::{
    conditions::types::INITIALIZED,
    names::annotation::{DO_NOT_DISRUPT, DO_NOT_REPAIR},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, NodeClaimName, Snapshot,
    ledger::{Choice, Command, CommandState, Method, PauseLevel},
    node::{ConditionStatus, Node},
    node_claim::NodeClaim,
    plan::Planned,
};

use super::{Nodes, Observations, Replacements, Step, marks, next, reboot};
use crate::{
    by_instance::ByInstance,
    decision::Note,
    disrupt::cost,
    do_not_disrupt::must_not_be_disrupted,
    lifecycle::{expiration, repair, target},
    machine::arrived,
    pods_of_nodes::PodsOfNodes,
    repair::{Evaluation, POLICIES, Reboots, is_refused},
};

/// Next state of a command, and what to do once the ledger records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    pub state: CommandState,
    pub actions: Vec<Planned>,
    pub notes: Vec<Note>,
    /// Reasons for which nodes are kept, and the failure of replacements.
    pub problems: Vec<String>,
    pub due: Option<Timestamp>,
    /// Initialized replacements that the ledger must record before any action.
    pub initialized: Vec<NodeClaimName>,
}

/// Interval between checks, in case no event reports the initialization of a replacement.
const RECHECK_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// Time after which a deletion that may have met a conflict is retried.
const AFTER_DELETING: SignedDuration = SignedDuration::from_secs(5);
/// Time that each node of open commands adds to their timeout (docs/spec/lifecycle.md#command-progress).
const TIMEOUT_PER_NODE: SignedDuration = SignedDuration::from_millis(80);
/// Least timeout of replacements.
pub(super) const TIMEOUT_MIN: SignedDuration = SignedDuration::from_mins(10);
/// Largest timeout of replacements.
const TIMEOUT_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Returns the next step of every open command, in the order of the snapshot.
pub fn advance(snapshot: &Snapshot) -> Vec<(&Command, Advance)> {
    let open: Vec<&Command> = snapshot
        .commands
        .iter()
        .filter(|command| command.state.is_open())
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    let view = CommandView {
        snapshot,
        claims: snapshot.node_claims.iter().map(|c| (&c.name, c)).collect(),
        nodes: ByInstance::of_nodes(snapshot),
        pods: PodsOfNodes::new(snapshot),
        replacement_timeout: replacement_timeout(
            open.iter().map(|command| command.delete.len()).sum(),
        ),
    };
    let steps = open
        .into_iter()
        .map(|command| (command, view.advance(command)));
    steps.collect()
}

/// Data shared by the steps of all commands.
pub(super) struct CommandView<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) claims: BTreeMap<&'a NodeClaimName, &'a NodeClaim>,
    pub(super) nodes: ByInstance<'a, Node>,
    pods: PodsOfNodes<'a>,
    /// Timeout of replacements.
    replacement_timeout: SignedDuration,
}

/// A node of a command that is not being deleted.
struct RemainingNode<'a> {
    claim: &'a NodeClaim,
    node: Option<&'a Node>,
    /// Reason for which it is kept.
    kept: Option<String>,
}

impl<'a> CommandView<'a> {
    fn advance(&self, command: &'a Command) -> Advance {
        if let Some(target) = &command.reboot {
            return reboot::advance(self, command, target);
        }
        let now = self.snapshot.now;
        let left = self.remaining_nodes(command);
        let (replacements, lost) = self.replacements(command);
        let fresh = self.in_service(command);
        let until = command
            .committed_at
            .saturating_add(self.replacement_timeout);
        let until = until.unwrap_or(Timestamp::MAX);
        let observations = Observations {
            nodes: summarize(&left, command.choice.as_ref()),
            marked: left
                .iter()
                .all(|node| marks::is_marked(node.claim, node.node)),
            replacements,
            news: !fresh.is_empty(),
            overdue: until <= now,
        };
        let (state, steps) = next(command.state, observations);
        let kept = left.iter().filter_map(|node| node.kept.clone());
        let mut advance = Advance {
            state,
            actions: Vec::new(),
            notes: Vec::new(),
            problems: kept.chain(lost).collect(),
            due: None,
            initialized: Vec::new(),
        };
        for step in steps {
            match step {
                Step::Remember => {
                    advance.initialized = fresh.iter().copied().cloned().collect();
                }
                Step::Mark => {
                    for node in &left {
                        let marks = marks::mark(node.claim, node.node, &command.reason, now);
                        advance.actions.extend(marks);
                    }
                    advance.recheck_at(now);
                }
                Step::AwaitReplacements => {
                    let awaited = command.replacements.iter();
                    let awaited = awaited.filter_map(|name| self.claims.get(name).copied());
                    let awaited = awaited.filter(|claim| !claim.is_true(INITIALIZED));
                    advance
                        .notes
                        .extend(awaited.flat_map(|claim| waiting_notes(claim, command)));
                    let soon = now.saturating_add(RECHECK_AFTER).unwrap_or(now);
                    advance.due = Some(until.min(soon));
                }
                Step::Delete => {
                    for node in left.iter().filter(|node| node.kept.is_none()) {
                        advance.actions.push(Planned {
                            action: Action::DeleteNodeClaim(target(node.claim)),
                            because: command.reason.clone(),
                        });
                        if command.choice.is_some() {
                            advance.notes.extend(terminating_notes(node, command));
                        }
                    }
                    advance.recheck_at(now.saturating_add(AFTER_DELETING).unwrap_or(now));
                }
                Step::Unmark => {
                    let stays = |node: &&RemainingNode<'_>| {
                        node.kept.is_some() || state == CommandState::RolledBack
                    };
                    for node in left.iter().filter(stays) {
                        advance
                            .actions
                            .extend(marks::unmark(node.claim, node.node, now));
                    }
                }
            }
        }
        if observations.overdue && state == CommandState::RolledBack && advance.problems.is_empty()
        {
            advance.problems.push(format!(
                "its replacements were not ready within {} minutes",
                self.replacement_timeout.as_mins()
            ));
        }
        advance
    }

    fn remaining_nodes(&self, command: &Command) -> Vec<RemainingNode<'a>> {
        let claims = command.delete.iter().filter_map(|target| {
            let claim = *self.claims.get(&target.name)?;
            (claim.uid == target.uid && claim.deleted_at.is_none()).then_some(claim)
        });
        claims
            .map(|claim| {
                let node = self.nodes.only(&claim.status.provider_id);
                let kept = match &command.choice {
                    Some(choice) => {
                        let by_node = || self.reason_to_keep(choice.method, claim, node?);
                        self.pause(command.state, claim).or_else(by_node)
                    }
                    // A pause cancels the deletion of an expired NodeClaim, which is recorded again after the pause.
                    None if self.is_only_old(claim, node) => self.pause(command.state, claim),
                    // A forced repair is cancelled if the node has recovered before its deletion, and a timeout if the step has
                    // been completed.
                    None => arrived(&command.reason, claim).or_else(|| {
                        let well = node.filter(|node| repair::is_over(&command.reason, node))?;
                        Some(format!("node {} has recovered", well.name))
                    }),
                };
                RemainingNode { claim, node, kept }
            })
            .collect()
    }

    /// Whether only its age ends the NodeClaim: the instance has no notice and the kubelet reports.
    fn is_only_old(&self, claim: &NodeClaim, node: Option<&Node>) -> bool {
        let now = self.snapshot.now;
        let is_old = expiration::expires_at(claim).is_some_and(|due| due <= now);
        let lives = node.is_some_and(|node| node.ready.status == ConditionStatus::True);
        is_old && lives && !marks::is_noticed(self.snapshot, claim)
    }

    /// Pause that keeps the node. A command that has begun to delete nodes stops only for a pause of everything.
    pub(super) fn pause(&self, state: CommandState, claim: &NodeClaim) -> Option<String> {
        let level = match state {
            CommandState::Deleting => PauseLevel::All,
            CommandState::Proposed
            | CommandState::Replacing
            | CommandState::Done
            | CommandState::RolledBack
            | CommandState::Newer => PauseLevel::Voluntary,
        };
        let pool = claim.node_pool();
        let paused = self
            .snapshot
            .paused(pool.as_ref(), level, self.snapshot.now);
        paused.map(|paused| paused.to_string())
    }

    /// Reason that arose after the decision and keeps the node (docs/design.md#stale-views). PodDisruptionBudgets only delay
    /// the eviction.
    fn reason_to_keep(&self, method: Method, claim: &NodeClaim, node: &Node) -> Option<String> {
        let now = self.snapshot.now;
        let name = &node.name;
        if method == Method::Repair {
            return self.reason_to_keep_under_repair(claim, node);
        }
        if node.annotations.get(DO_NOT_DISRUPT).map(String::as_str) == Some("true") {
            return Some(format!("node {name} has annotation {DO_NOT_DISRUPT} now"));
        }
        let pods = self.pods.of(node);
        let eventual = matches!(method, Method::Drift | Method::StaticDrift);
        let waived = eventual && claim.spec.termination_grace_period.is_some();
        let protected = pods.iter().find(|pod| must_not_be_disrupted(pod, now));
        if let Some(pod) = protected.filter(|_| !waived) {
            let pod = &pod.key;
            return Some(format!(
                "pod {pod} on node {name} has annotation {DO_NOT_DISRUPT} now"
            ));
        }
        let occupied = method == Method::Emptiness
            && !cost::is_empty(cost::of_node(pods, &self.snapshot.settings));
        occupied.then(|| format!("node {name} is no longer empty"))
    }

    /// Reason for which a node under repair is kept. Its pods do not keep it, because its drain is bounded.
    pub(super) fn reason_to_keep_under_repair(
        &self,
        claim: &NodeClaim,
        node: &Node,
    ) -> Option<String> {
        let name = &node.name;
        if is_refused(node, Some(claim)) {
            return Some(format!("node {name} has annotation {DO_NOT_REPAIR} now"));
        }
        let reboots = Reboots::new(claim, &self.snapshot.settings, self.snapshot.now);
        let evaluation = Evaluation::new(POLICIES, node, &reboots, self.snapshot.now);
        let has_recovered = evaluation.due.is_none();
        has_recovered.then(|| format!("node {name} has recovered"))
    }

    /// Progress of the replacements, and the reason if one of them failed.
    fn replacements(&self, command: &Command) -> (Replacements, Option<String>) {
        let mut all = Replacements::Ready;
        let remembered = |name: &&NodeClaimName| command.initialized.contains(name);
        for name in command.replacements.iter().filter(|name| !remembered(name)) {
            match self.claims.get(name) {
                // A replacement that was initialized once counts as ready.
                Some(claim) if claim.is_true(INITIALIZED) => {}
                Some(claim) if claim.deleted_at.is_some() => {
                    let why = format!("replacement {name} is being deleted");
                    return (Replacements::Lost, Some(why));
                }
                Some(_) => all = Replacements::Coming,
                None if self.is_in_flight(name) => all = Replacements::Coming,
                None => {
                    let why = format!("replacement {name} was not launched, or no longer exists");
                    return (Replacements::Lost, Some(why));
                }
            }
        }
        (all, None)
    }

    /// Initialized replacements that the command does not record yet.
    fn in_service<'c>(&self, command: &'c Command) -> Vec<&'c NodeClaimName> {
        let news = command.replacements.iter().filter(|name| {
            let claim = self.claims.get(name);
            claim.is_some_and(|claim| claim.is_true(INITIALIZED))
        });
        news.filter(|name| !command.initialized.contains(name))
            .collect()
    }

    fn is_in_flight(&self, name: &NodeClaimName) -> bool {
        let mut intents = self.snapshot.intents.iter();
        intents.any(|intent| intent.name() == name && intent.is_in_flight())
    }
}

/// Summarizes the remaining nodes. Empty nodes are deleted one by one; all others only together.
fn summarize(left: &[RemainingNode<'_>], choice: Option<&Choice>) -> Nodes {
    let kept = left.iter().filter(|node| node.kept.is_some()).count();
    let together = choice.is_some_and(|choice| choice.method != Method::Emptiness);
    match (left.len(), kept) {
        (0, _) => Nodes::Gone,
        (_, 0) => Nodes::Free,
        (all, kept) if kept == all || together => Nodes::Kept,
        _ => Nodes::Divided,
    }
}

/// Timeout of replacements if open commands have this many nodes.
fn replacement_timeout(nodes: usize) -> SignedDuration {
    let nodes = i32::try_from(nodes).unwrap_or(i32::MAX);
    (TIMEOUT_PER_NODE.saturating_mul(nodes)).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
}

fn waiting_notes(claim: &NodeClaim, command: &Command) -> [Note; 2] {
    let reason = &command.reason;
    [
        Note::normal(
            claim,
            "DisruptionLaunching",
            format!("Launching NodeClaim: {reason}"),
        ),
        Note::normal(
            claim,
            "DisruptionWaitingReadiness",
            "Waiting on readiness to continue disruption",
        ),
    ]
}

fn terminating_notes(left: &RemainingNode<'_>, command: &Command) -> Vec<Note> {
    let reason = &command.reason;
    let about = "DisruptionTerminating";
    let of_node = left
        .node
        .map(|node| Note::normal(node, about, format!("Disrupting Node: {reason}")));
    let of_claim = Note::normal(left.claim, about, format!("Disrupting NodeClaim: {reason}"));
    of_node.into_iter().chain([of_claim]).collect()
}

impl Advance {
    pub(super) fn recheck_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
