//! Kubernetes Nodes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ids::{NodeName, Uid},
    resources::Resources,
    taint::Taint,
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: NodeName,
    pub uid: Uid,
    pub resource_version: String,
    /// `aws:///<zone>/<instance id>` for EC2 instances; empty until the cloud controller or kubelet sets it.
    pub provider_id: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub ready: Ready,
    /// Conditions other than Ready: pressures, and those that agents on the node report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// Changes with each boot of the machine; empty until the kubelet reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    pub created_at: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

/// The node's Ready condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub status: ConditionStatus,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: ConditionStatus,
    /// One CamelCase word, such as `NvidiaXID79Error`; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionStatus {
    True,
    False,
    #[default]
    Unknown,
}

impl ConditionStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}
