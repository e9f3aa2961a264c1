//! Groups of one launch template in several zones as one group.

use super::{
    group::{Group, Source},
    names,
};

/// Merges groups that differ only in their zones: a NodePool balances zones itself.
pub(super) fn merged(groups: Vec<Group>) -> Vec<Group> {
    let mut merged: Vec<Group> = Vec::new();
    for group in groups {
        let same = |other: &&mut Group| {
            group.source == Source::Asg
                && other.source == Source::Asg
                && group.template.is_some()
                // A group with refusals stays separate, so that they name it.
                && group.refusals.is_empty()
                && other.refusals.is_empty()
                && (
                    &other.template,
                    &other.unit,
                    &other.labels,
                    &other.taints,
                    &other.requirements,
                    &other.capacity_types,
                ) == (
                    &group.template,
                    &group.unit,
                    &group.labels,
                    &group.taints,
                    &group.requirements,
                    &group.capacity_types,
                )
        };
        match merged.iter_mut().find(same) {
            Some(other) => {
                other.name = names::common_prefix(&other.name, &group.name);
                other.members.extend(group.members);
                other.max += group.max;
                other.subnets.extend(group.subnets);
                for warning in group.warnings {
                    if !other.warnings.contains(&warning) {
                        other.warnings.push(warning);
                    }
                }
                for comment in group.pool_comments {
                    if !other.pool_comments.contains(&comment) {
                        other.pool_comments.push(comment);
                    }
                }
            }
            None => merged.push(group),
        }
    }
    merged
}
