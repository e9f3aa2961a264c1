//! Units of the sizes of groups.

use serde_json::{Value, json};

/// Unit of a group's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Node,
    /// Weighted capacity, with the weights of the lightest and of the heaviest instance type.
    Weight {
        least: i64,
        most: i64,
    },
    Cpu,
    MebibyteOfMemory,
}

impl Unit {
    /// Most nodes of a group of this size: Auto Scaling launches until the capacity is reached or exceeded. `None` if the number depends on the instance types.
    pub(super) fn nodes(self, size: i64) -> Option<i64> {
        match self {
            Self::Node => Some(size),
            Self::Weight { least, .. } => {
                let least = least.max(1);
                Some(size.saturating_add(least - 1) / least)
            }
            Self::Cpu | Self::MebibyteOfMemory => None,
        }
    }

    /// Whether each node is the same number of units.
    pub(super) fn is_uniform(self) -> bool {
        match self {
            Self::Node => true,
            Self::Weight { least, most } => least == most,
            Self::Cpu | Self::MebibyteOfMemory => false,
        }
    }

    /// The limits of a NodePool of this size.
    pub(super) fn limits(self, size: i64) -> Value {
        match self {
            Self::Cpu => json!({ "cpu": size.to_string() }),
            Self::MebibyteOfMemory => json!({ "memory": format!("{size}Mi") }),
            Self::Node | Self::Weight { .. } => {
                json!({ "nodes": self.nodes(size).unwrap_or(size).to_string() })
            }
        }
    }

    /// Name of the unit, for messages; `None` for nodes.
    pub(super) fn name(self) -> Option<String> {
        match self {
            Self::Node => None,
            Self::Weight { least, most } if least == most => {
                Some(format!("units of weight, of which a node has {least}"))
            }
            Self::Weight { least, most } => Some(format!(
                "units of weight, of which a node has from {least} to {most}"
            )),
            Self::Cpu => Some("vCPUs".to_owned()),
            Self::MebibyteOfMemory => Some("MiB of memory".to_owned()),
        }
    }

    /// The difference between sizes in this unit and the limits of a NodePool, and the remedy; `None` for nodes.
    pub(super) fn warning(self, max: i64) -> Option<String> {
        const STEP: &str =
            "--min-size and --desired-capacity of step 6 count the group's units, too";
        let resource = match self {
            Self::Node => return None,
            Self::Weight { least, most } => {
                let nodes = self.nodes(max).unwrap_or(max);
                let change = match least == most {
                    true => format!(
                        "spec.limits.nodes {nodes} is MaxSize {max} divided by the weight {least}"
                    ),
                    false => format!(
                        "spec.limits.nodes {nodes} is MaxSize {max} divided by the least weight {least}, and as many nodes of the \
                         heaviest type have {} units: set spec.limits.cpu or spec.limits.memory to what the group had at most",
                        nodes.saturating_mul(most)
                    ),
                };
                return Some(format!(
                    "WeightedCapacity: the group's sizes count units of weight, a NodePool counts nodes: {change}; {STEP}"
                ));
            }
            Self::Cpu => "cpu",
            Self::MebibyteOfMemory => "memory",
        };
        let unit = self.name().unwrap_or_default();
        Some(format!(
            "DesiredCapacityType: the group's sizes count {unit}, and so does spec.limits.{resource}; the group launches until \
             MaxSize {max} is reached or exceeded, a NodePool never exceeds its limit: add the size of one instance to \
             spec.limits.{resource} where all of it is needed; {STEP}"
        ))
    }
}
