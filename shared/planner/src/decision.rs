use std::collections::BTreeMap;

use jiff::Timestamp;
use model::{
    Action, NodeClaimName, NodeName, Plan, PodKey, Uid, node::Node, node_claim::NodeClaim,
    plan::Planned, pod::Pod,
};

/// A plan, what to say besides, and when there will be something to decide although nothing happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub plan: Plan,
    pub notes: Vec<Note>,
    /// Why NodeClaims are deleted, in upstream's words for it (spec/lifecycle §32.3).
    pub endings: BTreeMap<NodeClaimName, &'static str>,
    pub due: Option<Timestamp>,
}

/// Something to tell users where they look: a Kubernetes Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub about: About,
    /// Or Normal.
    pub warning: bool,
    /// As upstream's (spec/lifecycle §31).
    pub reason: &'static str,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    Node(NodeName, Uid),
    NodeClaim(NodeClaimName, Uid),
    Pod(PodKey, Uid),
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

    /// Takes on another decision, about other objects.
    pub fn extend(&mut self, other: Self) {
        self.plan.actions.extend(other.plan.actions);
        self.notes.extend(other.notes);
        if let Some(due) = other.due {
            self.look_again(due);
        }
    }

    pub(crate) fn look_again(&mut self, at: Timestamp) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
