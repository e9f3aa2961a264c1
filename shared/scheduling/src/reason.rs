//! Reasons why a NodePool cannot serve a pod: the most specific constraint that fails, with amounts.

mod node_reason;

use std::fmt;

use model::{
    requirement::{Requirement, Requirements},
    resources::{CPU, amount_text},
    taint::Taint,
};

pub use node_reason::NodeReason;

/// Most specific reason why a NodePool cannot serve a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The NodePool's own requirements leave no instance type.
    NoTypes,
    /// A single requirement of the NodePool leaves no instance type.
    NoTypeHas {
        own: Requirement,
        /// Known value that was probably meant.
        meant: Option<String>,
    },
    /// Requirements of the NodePool that no instance type meets together.
    NoTypeHasAll(Vec<Requirement>),
    Taint(Taint),
    UndefinedLabel {
        key: String,
        /// Known key that was probably meant.
        meant: Option<String>,
    },
    Requirement {
        wanted: Requirement,
        offered: Requirement,
    },
    /// The pod requires both on the same node.
    Contradiction {
        first: (ConstraintSource, Requirement),
        second: (ConstraintSource, Requirement),
    },
    /// No instance type meets all of these together.
    NoMatchingType(Vec<Requirement>),
    /// Instance types meet the pod's requirements, but none of them also meets those of the NodePool.
    NoCommonType {
        wanted: Vec<Requirement>,
        offered: Vec<Requirement>,
    },
    /// Nodes that the pod selects by hostname, with the reason for each; empty if it excludes every hostname.
    NamedNodes(Vec<(String, NodeReason)>),
    /// Instance types match, but none has an available offering that does.
    NoOffering(Vec<Requirement>),
    /// Requested amount including daemons, and the largest amount of any suitable type.
    Resource {
        name: String,
        wanted: i64,
        most: i64,
    },
    /// Each amount is available, but no suitable type has all of them.
    NoTypeLargeEnough,
    HostPort {
        port: i32,
        protocol: String,
    },
    /// Requirements of the pod's volumes, and the requirement that conflicts with them.
    Volumes {
        wanted: Vec<Requirement>,
        against: Option<(ConflictSide, Requirement)>,
    },
    /// Devices for the pod's claims are missing, as text.
    Devices(String),
    /// No node reaches all of the pod's volumes. Lists the differing requirements by claim.
    VolumesApart(Vec<(String, Requirements)>),
    /// The pod's volumes or its topology constraints leave no instance type.
    Bound {
        by: Binding,
        to: Vec<Requirement>,
        lack: Box<Reason>,
    },
    /// EBS volumes that the pod attaches, and the largest attach limit of any suitable type.
    AttachLimit {
        wanted: usize,
        most: u32,
    },
    Topology {
        /// Name of the constraint with its parameters.
        rule: String,
        key: String,
        /// Counts per domain, up to `DOMAINS_SHOWN`.
        counts: Vec<(String, u32)>,
        /// Domains that the pod's volumes are limited to.
        volumes: Option<Requirement>,
    },
    /// No node has the topology key of a constraint.
    NoDomain {
        rule: String,
        key: String,
        /// Known key that was probably meant.
        meant: Option<String>,
    },
    /// No instance type has this value, and another one was probably meant.
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
        /// Smallest amount that a suitable type counts.
        least: i64,
    },
    /// New nodes of this round hold every instance of the reservations that the pod could use.
    Reservation,
    /// The pod would fit now, but a NodePool that comes first has [`Self::Reservation`].
    ReservationFirst,
    /// The pod would fit now; it was tried earlier in the round.
    NextRound,
}

impl Reason {
    /// Whether only the NodePool's limits exclude the pod.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::NodeLimit | Self::Limit { .. })
    }
}

/// Field in which a pod requires a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintSource {
    NodeSelector,
    NodeAffinity,
}

/// Side whose requirement conflicts with those of the pod's volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictSide {
    /// Requirements of the pod.
    Pod,
    /// Labels of the NodePool's nodes.
    NodePool,
}

/// Indirect restriction of a pod to some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    Volumes,
    /// One topology constraint, with its parameters.
    Rule(String),
    /// All topology constraints together.
    Rules,
}

/// Upper bound on the domains listed in a reason. Zones and capacity types stay below.
pub(crate) const DOMAINS_SHOWN: usize = 25;
/// CPU request in millicores from which the unit is probably wrong.
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
                write!(f, "requires label {key}, which its nodes do not have")?;
                match meant {
                    Some(meant) => write!(f, " (did you mean {meant}?)"),
                    None => Ok(()),
                }
            }
            Self::Requirement { wanted, offered } => {
                write!(f, "requires {wanted}, its nodes have {offered}")
            }
            Self::Contradiction { first, second } => {
                let side = |(source, requirement): &(ConstraintSource, Requirement)| {
                    let place = match source {
                        ConstraintSource::NodeSelector => "node selector",
                        ConstraintSource::NodeAffinity => "required node affinity",
                    };
                    format!("{requirement} ({place})")
                };
                let (first, second) = (side(first), side(second));
                write!(f, "requires both {first} and {second}: no node has both")
            }
            Self::NoMatchingType(all) if all.is_empty() => f.write_str("no instance type has that"),
            Self::NoMatchingType(all) => {
                write!(f, "no instance type has {}", list(all))
            }
            Self::NoCommonType { wanted, offered } => write!(
                f,
                "requires {}, its nodes have {}: no instance type has both",
                list(wanted),
                list(offered)
            ),
            Self::NamedNodes(nodes) if nodes.is_empty() => {
                f.write_str("requires a node name that no node has")
            }
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
                    Some((ConflictSide::Pod, required)) => {
                        write!(f, ", and it asks for {required}")
                    }
                    Some((ConflictSide::NodePool, offered)) => {
                        write!(f, ", its nodes have {offered}")
                    }
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
            Self::Topology {
                rule,
                key,
                counts,
                volumes,
            } => {
                write!(f, "{rule} on {key} cannot be satisfied")?;
                if !counts.is_empty() {
                    let shown = counts.iter().map(|(domain, pods)| format!("{domain}: {pods}"));
                    write!(f, " ({})", shown.collect::<Vec<_>>().join(", "))?;
                }
                match volumes {
                    Some(reachable) => {
                        write!(f, ", and its volumes are only reachable with {reachable}")
                    }
                    None => Ok(()),
                }
            }
            Self::NoDomain { rule, key, meant } => {
                write!(f, "{rule} uses label {key}, which its nodes do not have")?;
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
            Self::Reservation => f.write_str(
                "deferred to the next turn: new nodes of this turn hold every instance of its capacity reservations",
            ),
            Self::ReservationFirst => f.write_str(
                "deferred to the next turn: new nodes of this turn hold the capacity reservations of a preferred NodePool",
            ),
            Self::NextRound => f.write_str("deferred to the next turn"),
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
