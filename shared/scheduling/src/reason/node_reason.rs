//! Reasons why a node that a pod selects by name does not take it.

use std::fmt;

use model::{requirement::Requirement, resources::amount_text, taint::Taint};

/// First reason that keeps a pod off a node it selects by hostname. The text continues a sentence that starts with the
/// node's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeReason {
    /// The node does not exist or is being deleted.
    Missing,
    /// The node takes no pods now.
    Closed,
    Taint(Taint),
    /// Label that the pod requires besides the hostname.
    Label(Requirement),
    /// Requested and remaining amount.
    Resource {
        name: String,
        wanted: i64,
        left: i64,
    },
    HostPort(i32),
    /// The node has reached its attach limit.
    Attachments,
    /// The node cannot reach the pod's volumes.
    Volumes,
    /// The node has no free devices for the pod's claims.
    Devices,
    /// Topology constraint with its topology key.
    Rule {
        rule: String,
        key: String,
    },
    /// Nothing is missing: the pod was tried before other placements in the round.
    NextRound,
}

impl fmt::Display for NodeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist or is being deleted"),
            Self::Closed => f.write_str("accepts no pods now"),
            Self::Taint(taint) => write!(
                f,
                "has taint {}, which it does not tolerate",
                super::taint_text(taint)
            ),
            Self::Label(wanted) => write!(f, "does not have {wanted}"),
            Self::Resource { name, wanted, left } => write!(
                f,
                "has {} {name} left of the {} it needs",
                amount_text(name, *left),
                amount_text(name, *wanted)
            ),
            Self::HostPort(port) => write!(f, "has host port {port} taken"),
            Self::Attachments => f.write_str("attaches no more volumes"),
            Self::Volumes => f.write_str("cannot reach its volumes"),
            Self::Devices => f.write_str("has no devices left for its resource claims"),
            Self::Rule { rule, key } => write!(f, "is ruled out by {rule} on {key}"),
            Self::NextRound => f.write_str("is retried in the next turn"),
        }
    }
}
