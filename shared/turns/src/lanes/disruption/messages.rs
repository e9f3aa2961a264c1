//! Events about disruption, with Karpenter's reasons (docs/spec/lifecycle.md#events).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{
    NanosPerHour, NodePoolName, Snapshot,
    journal::{Line, Subject},
    ledger,
    node::Node,
    node_claim::NodeClaim,
    node_pool::ConsolidationPolicy,
    plan::Target,
};
use planner::{Blocked, Command, DisruptionResult, Reason, Rejection};
use ports::cluster::{Event, EventKind, EventTarget};

use crate::report::events;

/// Upper bound on nodes of a command that are named in a text; the rest are counted, so that events stay short.
const NAMES_MAX: usize = 5;

/// Events about nodes that may not be disrupted, and about those that will be.
pub(super) fn evaluation_events(snapshot: &Snapshot, result: &DisruptionResult) -> Vec<Event> {
    let objects = DisruptionObjects::of(snapshot);
    let candidates = result.commands.iter().filter(|command| {
        command.reason == Reason::Underutilized && !command.replacements.is_empty()
    });
    let candidates = candidates.flat_map(|command| {
        let savings = command.savings.0;
        let sign = if savings < 0 { "-" } else { "" };
        let amount = NanosPerHour(savings.saturating_abs());
        let message = format!("SavingsPerHour: {sign}${amount}, {}", command.because);
        let nodes = command.nodes.iter();
        nodes
            .flat_map(|node| objects.events_on_node(node, "ConsolidationCandidate", &message))
            .collect::<Vec<_>>()
    });
    let blocked_events = |reason: &'static str, all: &[Blocked]| {
        let events = all.iter();
        events
            .flat_map(|blocked| objects.events_on_node(&blocked.node, reason, &blocked.message))
            .collect::<Vec<_>>()
    };
    let protected = planner::do_not_disrupt_notes(snapshot);
    let of_pool = |name: &NodePoolName| {
        let mut pools = snapshot.node_pools.iter();
        let pool = pools.find(|pool| pool.name == *name)?;
        Some(EventTarget::NodePool(pool.name.clone(), pool.uid.clone()))
    };
    let exhausted = result.exhausted.iter().filter_map(|(name, message)| {
        let about = of_pool(name)?;
        let message = message.clone();
        Some(normal_event(
            about,
            "DisruptionBlocked",
            message,
            snapshot.now,
        ))
    });
    let misread = result.misread.iter().filter_map(|(name, message)| {
        Some(Event {
            kind: EventKind::Warning,
            ..normal_event(
                of_pool(name)?,
                "InvalidAnnotation",
                message.clone(),
                snapshot.now,
            )
        })
    });
    let approved = result.commands.iter();
    let approved = approved.flat_map(|command| approval_events(snapshot, &objects, command));
    candidates
        .chain(approved)
        .chain(misread)
        .chain(exhausted)
        .chain(blocked_events("DisruptionBlocked", &result.blocked))
        .chain(blocked_events("Unconsolidatable", &result.unconsolidatable))
        .chain(events::of_notes(&protected, snapshot.now))
        .chain(events::of_notes(&result.notes, snapshot.now))
        .collect()
}

/// Events about commands that policy Balanced approved: of single nodes on the nodes, of several on their NodePools, as in
/// Karpenter.
fn approval_events(
    snapshot: &Snapshot,
    objects: &DisruptionObjects<'_>,
    command: &Command,
) -> Vec<Event> {
    let claims = command.delete.iter();
    let claims = claims.filter_map(|target| objects.claims.get(target.name.as_str()));
    let pools: BTreeSet<_> = claims.filter_map(|claim| claim.node_pool()).collect();
    let balanced = snapshot.node_pools.iter().filter(|pool| {
        pool.disruption.policy == ConsolidationPolicy::Balanced && pools.contains(&pool.name)
    });
    let reason = "ConsolidationApproved";
    let message = format!("Savings outweigh the disruption cost: {}", command.because);
    let mut balanced = balanced.peekable();
    match command.method {
        ledger::Method::SingleNode if balanced.peek().is_some() => {
            let nodes = command.nodes.iter();
            nodes
                .flat_map(|node| objects.events_on_node(node, reason, &message))
                .collect()
        }
        ledger::Method::MultiNode => balanced
            .map(|pool| {
                let about = EventTarget::NodePool(pool.name.clone(), pool.uid.clone());
                normal_event(about, reason, message.clone(), snapshot.now)
            })
            .collect(),
        ledger::Method::SingleNode
        | ledger::Method::Repair
        | ledger::Method::Emptiness
        | ledger::Method::StaticDrift
        | ledger::Method::Drift => Vec::new(),
    }
}

/// Events about a proposal that its validation rejected. Karpenter emits them for single nodes only.
pub(super) fn rejection_events(
    snapshot: &Snapshot,
    proposal: &ledger::Command,
    rejection: &Rejection,
) -> Vec<Event> {
    let choice = proposal.choice.as_ref();
    let single = choice.is_some_and(|choice| choice.method == ledger::Method::SingleNode);
    if !single {
        return Vec::new();
    }
    let objects = DisruptionObjects::of(snapshot);
    let message = format!("{}: {}", rejection.class, rejection.message);
    let targets = proposal.delete.iter();
    targets
        .flat_map(|target| objects.events_on_target(target, "ConsolidationRejected", &message))
        .collect()
}

/// Journal line about these NodeClaims.
pub(super) fn journal_line<'t>(
    text: String,
    targets: impl IntoIterator<Item = &'t Target>,
) -> Line {
    let about = targets
        .into_iter()
        .map(|target| Subject::NodeClaim(target.name.clone()));
    Line::new(text, about)
}

pub(super) fn names_of<'t>(targets: impl IntoIterator<Item = &'t Target>) -> String {
    let targets: Vec<&Target> = targets.into_iter().collect();
    let named: Vec<&str> = targets
        .iter()
        .take(NAMES_MAX)
        .map(|target| target.name.as_str())
        .collect();
    match targets.len().saturating_sub(NAMES_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Nodes and NodeClaims on which events about disruption are emitted.
struct DisruptionObjects<'a> {
    nodes: BTreeMap<&'a str, &'a Node>,
    by_instance: BTreeMap<&'a str, &'a NodeClaim>,
    claims: BTreeMap<&'a str, &'a NodeClaim>,
    now: Timestamp,
}

impl<'a> DisruptionObjects<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let claims = snapshot.node_claims.iter();
        let launched = claims
            .clone()
            .filter(|claim| !claim.status.provider_id.is_empty());
        Self {
            nodes: snapshot
                .nodes
                .iter()
                .map(|node| (node.name.as_str(), node))
                .collect(),
            by_instance: launched
                .map(|claim| (claim.status.provider_id.as_str(), claim))
                .collect(),
            claims: claims.map(|claim| (claim.name.as_str(), claim)).collect(),
            now: snapshot.now,
        }
    }

    /// Events on the Node of this name and its NodeClaim, or on the NodeClaim of this name.
    fn events_on_node(&self, name: &str, reason: &str, message: &str) -> Vec<Event> {
        let node = self.nodes.get(name).copied();
        let claim = match node {
            Some(node) => self.by_instance.get(node.provider_id.as_str()),
            None => self.claims.get(name),
        };
        self.events(node, claim.copied(), reason, message)
    }

    fn events_on_target(&self, target: &Target, reason: &str, message: &str) -> Vec<Event> {
        let claim = self.claims.get(target.name.as_str()).copied();
        let claim = claim.filter(|claim| claim.uid == target.uid);
        let id = claim.map(|claim| claim.status.provider_id.as_str());
        let mut nodes = self.nodes.values().copied();
        let node = id.and_then(|id| nodes.find(|node| node.provider_id == id));
        self.events(node, claim, reason, message)
    }

    fn events(
        &self,
        node: Option<&Node>,
        claim: Option<&NodeClaim>,
        reason: &str,
        message: &str,
    ) -> Vec<Event> {
        let node = node.map(|node| EventTarget::Node(node.name.clone(), node.uid.clone()));
        let claim =
            claim.map(|claim| EventTarget::NodeClaim(claim.name.clone(), claim.uid.clone()));
        let about = node.into_iter().chain(claim);
        about
            .map(|about| normal_event(about, reason, message.to_owned(), self.now))
            .collect()
    }
}

fn normal_event(about: EventTarget, reason: &str, message: String, at: Timestamp) -> Event {
    Event {
        about,
        kind: EventKind::Normal,
        reason: reason.to_owned(),
        message,
        at,
    }
}
