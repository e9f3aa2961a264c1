//! Placement groups: selection for a NodeClass, and the effect on instance types, offerings and launches
//! (docs/spec/aws.md#placement-group-offerings, docs/spec/aws.md#placement-groups).

use api::names::label;
use model::{
    InstanceType,
    launch::{LaunchTemplate, PlacementGroup},
    requirement::Requirements,
};
use serde::{Deserialize, Serialize};

use crate::compatibility::admits;

/// A placement group as DescribePlacementGroups shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PlacementGroupFact {
    pub group_id: String,
    pub group_name: String,
    /// `cluster`, `partition` or `spread`.
    pub strategy: String,
    /// `available`, or a transitional state such as `pending` or `deleting`.
    pub state: String,
    pub partition_count: Option<i32>,
}

impl PlacementGroupFact {
    /// The numbers of the group's partitions; empty unless the group is partitioned.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = i32> + use<> {
        let count = self
            .partition_count
            .filter(|_| self.strategy == "partition");
        1..=count.unwrap_or(0)
    }
}

/// The placement of an instance of this type. A partition is set only if the claim asks for one: the smallest available one that it admits.
pub(crate) fn placement(
    claim: &Requirements,
    instance_type: &InstanceType,
) -> Option<PlacementGroup> {
    let group = instance_type.requirements.get(label::PLACEMENT_GROUP_ID)?;
    let id = group.values.first()?.clone();
    let asks = claim.get(label::PLACEMENT_GROUP_PARTITION).is_some();
    let partitions = instance_type
        .offerings
        .iter()
        .filter(|offering| asks && offering.available && admits(claim, offering))
        .filter_map(|offering| partition(&offering.requirements));
    Some(PlacementGroup {
        id,
        partition: partitions.min(),
    })
}

/// The partition that an offering belongs to.
pub(crate) fn partition(requirements: &Requirements) -> Option<i32> {
    let requirement = requirements.get(label::PLACEMENT_GROUP_PARTITION)?;
    requirement.values.first()?.parse().ok()
}

/// The scope of a launch failure through this template, as the memory of unavailable offerings writes it.
pub(crate) fn scope(template: &LaunchTemplate) -> Option<String> {
    let group = template.placement_group.as_ref()?;
    Some(match group.partition {
        None => group.id.clone(),
        Some(partition) => partition_scope(&group.id, partition),
    })
}

pub(crate) fn partition_scope(group: &str, partition: i32) -> String {
    format!("{group}:{partition}")
}
