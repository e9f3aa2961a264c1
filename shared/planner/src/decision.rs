use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    Action, NodeClaimName, NodeName, NodePoolName, Plan, PodKey, Uid, node::Node,
    node_claim::NodeClaim, plan::Planned, pod::Pod,
};

/// A plan, events to emit, and the time of the next check without an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub plan: Plan,
    pub notes: Vec<Note>,
    /// Karpenter's metric reason of each NodeClaim's deletion (docs/spec/lifecycle.md#label-values).
    pub endings: BTreeMap<NodeClaimName, &'static str>,
    /// Type of the node condition for which each NodeClaim is deleted by force.
    pub forced_repairs: BTreeMap<NodeClaimName, String>,
    pub due: Option<Timestamp>,
}

/// Kubernetes Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub about: About,
    /// Whether the event's type is Warning or Normal.
    pub warning: bool,
    /// Reason of the event, as Karpenter's (docs/spec/lifecycle.md#events).
    pub reason: &'static str,
    pub message: String,
}

/// Object of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    Node(NodeName, Uid),
    NodeClaim(NodeClaimName, Uid),
    Pod(PodKey, Uid),
    NodePool(NodePoolName, Uid),
}

impl From<&Pod> for About {
    fn from(pod: &Pod) -> Self {
        Self::Pod(pod.key.clone(), pod.uid.clone())
    }
}

impl From<&Node> for About {
    fn from(node: &Node) -> Self {
        Self::Node(node.name.clone(), node.uid.clone())
    }
}

impl From<&NodeClaim> for About {
    fn from(claim: &NodeClaim) -> Self {
        Self::NodeClaim(claim.name.clone(), claim.uid.clone())
    }
}

impl Note {
    pub(crate) fn normal(
        about: impl Into<About>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            about: about.into(),
            warning: false,
            reason,
            message: message.into(),
        }
    }

    pub(crate) fn warning(
        about: impl Into<About>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            warning: true,
            ..Self::normal(about, reason, message)
        }
    }
}

impl Decision {
    pub(crate) fn act(&mut self, action: Action, because: impl Into<String>) {
        self.plan.actions.push(Planned {
            action,
            because: because.into(),
        });
    }

    /// Merges another decision, about other objects.
    pub fn extend(&mut self, other: Self) {
        self.plan.actions.extend(other.plan.actions);
        self.notes.extend(other.notes);
        if let Some(due) = other.due {
            self.recheck_at(due);
        }
    }

    pub(crate) fn recheck_at(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{claim, now};

    #[test]
    fn merged_decision_has_all_actions_and_the_earlier_check() {
        let decision = |name: &str, seconds: i64| {
            let claim = claim(name, &[]);
            let mut decision = Decision::default();
            let target = crate::lifecycle::target(&claim);
            decision.act(Action::DeleteNodeClaim(target), name);
            decision.notes.push(Note::normal(&claim, "Reason", name));
            decision.recheck_at(now() + jiff::SignedDuration::from_secs(seconds));
            decision
        };
        for (first, second) in [(5, 9), (9, 5)] {
            let mut both = decision("a", first);
            both.extend(decision("b", second));
            let because = both
                .plan
                .actions
                .iter()
                .map(|planned| planned.because.as_str());
            assert_eq!(because.collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!(both.notes.len(), 2);
            assert_eq!(both.due, Some(now() + jiff::SignedDuration::from_secs(5)));
            both.extend(Decision::default());
            assert_eq!((both.notes.len(), both.due.is_some()), (2, true));
        }
    }
}
