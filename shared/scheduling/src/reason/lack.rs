//! Why a node that a pod names does not take it.

use std::fmt;

use model::{requirement::Requirement, resources::amount_text, taint::Taint};

/// The first thing that keeps a pod from a node that it names. As text it goes on after the node's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeLack {
    /// There is no such node, or it is going away.
    Missing,
    /// The node takes no pods now.
    Closed,
    Taint(Taint),
    /// A label that the pod asks for besides.
    Label(Requirement),
    /// Amounts that the pod wants and that the node has left.
    Resource {
        name: String,
        wanted: i64,
        left: i64,
    },
    HostPort(i32),
    /// The node has attached as many volumes as it can.
    Attachments,
    /// The pod's volumes are out of its reach.
    Volumes,
    /// The node has no devices left for the pod's claims.
    Devices,
    /// A rule about other pods, with the label that it goes by.
    Rule {
        rule: String,
        key: String,
    },
    /// The node lacks nothing: it was tried earlier in the round.
    NextRound,
}

impl fmt::Display for NodeLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is not there or is being deleted"),
            Self::Closed => f.write_str("takes no pods now"),
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
            Self::Volumes => f.write_str("does not reach its volumes"),
            Self::Devices => f.write_str("has no devices left for its resource claims"),
            Self::Rule { rule, key } => write!(f, "is ruled out by {rule} on {key}"),
            Self::NextRound => f.write_str("is to be tried again"),
        }
    }
}
