use model::node::{ConditionStatus, Node, NodeCondition, Ready};

use super::amounts::trusted_amounts;
use super::selector::taint;
use crate::{conditions, kubernetes};

impl From<conditions::ConditionStatus> for ConditionStatus {
    fn from(status: conditions::ConditionStatus) -> Self {
        match status {
            conditions::ConditionStatus::True => Self::True,
            conditions::ConditionStatus::False => Self::False,
            conditions::ConditionStatus::Unknown | conditions::ConditionStatus::Other(_) => {
                Self::Unknown
            }
        }
    }
}

impl From<kubernetes::Node> for Node {
    fn from(node: kubernetes::Node) -> Self {
        let kubernetes::Node {
            metadata,
            spec,
            status,
        } = node;
        let (ready, others): (Vec<_>, Vec<_>) = status
            .conditions
            .into_iter()
            .partition(|condition| condition.r#type == "Ready");
        Self {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            provider_id: spec.provider_id.unwrap_or_default(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            taints: spec.taints.into_iter().filter_map(taint).collect(),
            unschedulable: spec.unschedulable,
            capacity: trusted_amounts(&status.capacity),
            allocatable: trusted_amounts(&status.allocatable),
            ready: ready
                .into_iter()
                .next()
                .map_or_else(Ready::default, |condition| Ready {
                    status: condition.status.into(),
                    since: condition.last_transition_time,
                }),
            conditions: others
                .into_iter()
                .map(|condition| NodeCondition {
                    kind: condition.r#type,
                    status: condition.status.into(),
                    reason: condition.reason.unwrap_or_default(),
                    since: condition.last_transition_time,
                })
                .collect(),
            boot_id: status.node_info.boot_id,
            created_at: metadata.creation_timestamp,
            deleted_at: metadata.deletion_timestamp,
        }
    }
}
