//! Why a NodePool cannot serve a pod: the most specific rule that fails, by name and by how much.

mod lack;

use std::fmt;

use model::{
    requirement::{Requirement, Requirements},
    resources::{CPU, amount_text},
    taint::Taint,
};

pub use lack::NodeLack;

#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The NodePool's own requirements leave no instance type.
    NoTypes,
    /// One of the NodePool's requirements alone leaves no instance type.
    NoTypeHas {
        own: Requirement,
        /// The value that was probably meant.
        meant: Option<String>,
    },
    /// The NodePool's requirements that no instance type meets together.
    NoTypeHasAll(Vec<Requirement>),
    Taint(Taint),
    UndefinedLabel {
        key: String,
        /// A known key that was probably meant.
        meant: Option<String>,
    },
    Requirement {
        wanted: Requirement,
        offered: Requirement,
    },
    /// The pod asks for both of one node.
    Contradiction {
        first: (ConstraintSource, Requirement),
        second: (ConstraintSource, Requirement),
    },
    /// No instance type agrees with all of these together.
    NoMatchingType(Vec<Requirement>),
    /// Instance types agree with the pod, but none of them with the NodePool's nodes.
    NoCommonType {
        wanted: Vec<Requirement>,
        offered: Vec<Requirement>,
    },
    /// The nodes that the pod names, with what keeps it from each; empty if it admits no node's name.
    NamedNodes(Vec<(String, NodeLack)>),
    /// Types agree, but none is on offer where and how it is wanted.
    NoOffering(Vec<Requirement>),
    /// What is wanted, daemons included, and the most that any suitable type has.
    Resource {
        name: String,
        wanted: i64,
        most: i64,
    },
    /// Each resource is there, but no suitable type has all of them.
    NoTypeLargeEnough,
    HostPort {
        port: i32,
        protocol: String,
    },
    /// Where its volumes are reachable, and what rules that out.
    Volumes {
        wanted: Vec<Requirement>,
        against: Option<(Side, Requirement)>,
    },
    /// Devices of its claims are lacking, in the user's words.
    Devices(String),
    /// No node reaches all of its volumes: those that differ, by claim.
    VolumesApart(Vec<(String, Requirements)>),
    /// Its volumes or its rules about other pods leave no instance type.
    Bound {
        by: Binding,
        to: Vec<Requirement>,
        lack: Box<Reason>,
    },
    /// Volumes of EBS that the pod brings, and the most that a node of any suitable type attaches.
    AttachLimit {
        wanted: usize,
        most: u32,
    },
    Topology {
        /// With what it allows.
        rule: String,
        key: String,
        /// Domains with their counts, as far as they are listed.
        counts: Vec<(String, u32)>,
    },
    /// A rule about other pods goes by a label that no node has.
    NoDomain {
        rule: String,
        key: String,
        /// A known key that was probably meant.
        meant: Option<String>,
    },
    /// No instance type has this value of a label, where another one was probably meant.
    UnknownValue {
        key: String,
        value: String,
        meant: String,
    },
    MinValues {
        key: String,
        wanted: u32,
        reached: u32,
    },
    NodeLimit,
    Limit {
        name: String,
        left: i64,
        /// The least that a suitable type counts.
        least: i64,
    },
    /// Waits for a reservation, to be tried in the next round.
    Reservation,
    /// It would fit now; it was tried earlier in the round.
    NextRound,
}

impl Reason {
    /// Whether the NodePool's limits are all that keeps the pod out.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::NodeLimit | Self::Limit { .. })
    }
}

/// Where a pod asks for a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintSource {
    NodeSelector,
    NodeAffinity,
}

/// Who rules out where a pod's volumes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The pod's own requirements.
    Pod,
    /// The labels of the NodePool's nodes.
    NodePool,
}

/// What binds a pod to some nodes besides what it asks for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    Volumes,
    /// A rule about other pods, with what it allows.
    Rule(String),
    /// All its rules about other pods together.
    Rules,
}

/// So many domains are listed; a zone or capacity type never has more.
pub(crate) const DOMAINS_SHOWN: usize = 25;
/// A request above this many cores is probably a slip of the unit.
const ABSURD_MILLICORES: i64 = 1_000_000_000;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTypes => f.write_str("its own requirements leave no instance type"),
            Self::NoTypeHas { own, meant } => {
                write!(f, "requires {own}, which no instance type has")?;
                match meant {
                    Some(meant) => write!(f, " (did you mean {meant}?)"),
                    None => Ok(()),
                }
            }
            Self::NoTypeHasAll(own) => write!(
                f,
                "requires {}, which no instance type has together",
                list(own)
            ),
            Self::Taint(taint) => write!(f, "does not tolerate taint {}", taint_text(taint)),
            Self::UndefinedLabel { key, meant } => {
                write!(f, "asks for label {key}, which its nodes do not have")?;
                match meant {
                    Some(meant) => write!(f, " (did you mean {meant}?)"),
                    None => Ok(()),
                }
            }
            Self::Requirement { wanted, offered } => {
                write!(f, "wants {wanted}, its nodes have {offered}")
            }
            Self::Contradiction { first, second } => {
                let side = |(asked, requirement): &(ConstraintSource, Requirement)| {
                    let place = match asked {
                        ConstraintSource::NodeSelector => "node selector",
                        ConstraintSource::NodeAffinity => "required node affinity",
                    };
                    format!("{requirement} ({place})")
                };
                let (first, second) = (side(first), side(second));
                write!(f, "asks for both {first} and {second}: no node has both")
            }
            Self::NoMatchingType(all) if all.is_empty() => f.write_str("no instance type has that"),
            Self::NoMatchingType(all) => {
                write!(f, "no instance type has {}", list(all))
            }
            Self::NoCommonType { wanted, offered } => write!(
                f,
                "wants {}, its nodes have {}: no instance type has both",
                list(wanted),
                list(offered)
            ),
            Self::NamedNodes(nodes) if nodes.is_empty() => f.write_str("admits no node's name"),
            Self::NamedNodes(nodes) => {
                let nodes = nodes
                    .iter()
                    .map(|(node, lack)| format!("node {node}, which {lack}"));
                let nodes: Vec<String> = nodes.collect();
                write!(f, "may only go to {}", nodes.join(", or "))
            }
            Self::NoOffering(all) if all.is_empty() => {
                f.write_str("no instance type has an available offering")
            }
            Self::NoOffering(all) => {
                write!(f, "no available offering for {}", list(all))
            }
            Self::Resource { name, wanted, most } => {
                let (wanted_text, most_text) =
                    (amount_text(name, *wanted), amount_text(name, *most));
                write!(
                    f,
                    "needs {wanted_text} {name}, the largest suitable type has {most_text}"
                )?;
                if name == CPU && *wanted >= ABSURD_MILLICORES {
                    f.write_str(" (is the unit right? 100m is a tenth of a core, 100M are a hundred million)")?;
                }
                Ok(())
            }
            Self::NoTypeLargeEnough => {
                f.write_str("no suitable instance type has enough of every resource at once")
            }
            Self::HostPort { port, protocol } => {
                write!(
                    f,
                    "host port {port}/{protocol} is taken on every suitable type"
                )
            }
            Self::AttachLimit { wanted, most } => write!(
                f,
                "brings {wanted} volumes of EBS, and its nodes attach {most} at most"
            ),
            Self::Volumes { wanted, against } => {
                write!(f, "its volumes are only reachable with {}", list(wanted))?;
                match against {
                    Some((Side::Pod, asked)) => write!(f, ", and it asks for {asked}"),
                    Some((Side::NodePool, offered)) => write!(f, ", its nodes have {offered}"),
                    None => Ok(()),
                }
            }
            Self::VolumesApart(claims) => {
                let claims = claims.iter().map(|(claim, wanted)| {
                    let wanted: Vec<Requirement> = wanted.0.values().cloned().collect();
                    format!("claim {claim} is only reachable with {}", list(&wanted))
                });
                let claims: Vec<String> = claims.collect();
                write!(
                    f,
                    "no node reaches all of its volumes: {}",
                    claims.join("; ")
                )
            }
            Self::Bound { by, to, lack } => {
                match by {
                    Binding::Volumes => f.write_str("its volumes leave")?,
                    Binding::Rule(rule) => write!(f, "{rule} leaves")?,
                    Binding::Rules => f.write_str("its rules about other pods leave")?,
                }
                write!(f, " only {}: {lack}", list(to))
            }
            Self::Topology { rule, key, counts } => {
                write!(f, "{rule} on {key} cannot be satisfied")?;
                if counts.is_empty() {
                    return Ok(());
                }
                let shown: Vec<String> = counts.iter().map(|(d, n)| format!("{d}: {n}")).collect();
                write!(f, " ({})", shown.join(", "))
            }
            Self::NoDomain { rule, key, meant } => {
                write!(f, "{rule} goes by label {key}, which its nodes do not have")?;
                match meant {
                    Some(meant) => write!(f, " (did you mean {meant}?)"),
                    None => Ok(()),
                }
            }
            Self::UnknownValue { key, value, meant } => {
                write!(
                    f,
                    "no instance type has {key}={value} (did you mean {meant}?)"
                )
            }
            Self::MinValues {
                key,
                wanted,
                reached,
            } => write!(
                f,
                "minValues of {key} is {wanted}, the remaining instance types have {reached}"
            ),
            Self::Devices(lack) => f.write_str(lack),
            Self::NodeLimit => f.write_str("its limit of nodes is used up"),
            Self::Limit { name, left, least } => {
                let (left, least) = (amount_text(name, (*left).max(0)), amount_text(name, *least));
                write!(
                    f,
                    "its limit leaves {left} {name}, the smallest suitable type has {least}"
                )
            }
            Self::Reservation => f.write_str("deferred: waits for a capacity reservation"),
            Self::NextRound => f.write_str("deferred: to be tried again"),
        }
    }
}

fn taint_text(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { "" } else { "=" };
    format!("{}{value}{}:{:?}", taint.key, taint.value, taint.effect)
}

fn list(all: &[Requirement]) -> String {
    let texts: Vec<String> = all.iter().map(Requirement::to_string).collect();
    texts.join(", ")
}
