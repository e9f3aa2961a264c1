//! Groups of one launch template in several zones as one group.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    group::{Group, Source},
    names,
};

/// Fields of the EC2NodeClass that groups set themselves.
const PLACEMENT: &str = "placementGroupSelector";
const TAGS: &str = "tags";

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
                && settings(other) == settings(&group)
        };
        match merged.iter_mut().find(same) {
            Some(other) => {
                let keys = different_tags(other, &group);
                if let ([_, ..], Some(first)) = (keys.as_slice(), other.members.first()) {
                    other.warnings.push(format!(
                        "tags {} of instances are those of {}: {} has others",
                        keys.join(", "),
                        first.name,
                        group.name
                    ));
                }
                other.name = names::common_prefix(&other.name, &group.name);
                other.members.extend(group.members);
                other.max += group.max;
                other.subnets.extend(group.subnets);
                add_new(&mut other.warnings, group.warnings);
                add_new(&mut other.pool_comments, group.pool_comments);
                add_new(&mut other.class_comments, group.class_comments);
            }
            None => merged.push(group),
        }
    }
    merged
}

/// Settings that are equal in merged groups.
fn settings(group: &Group) -> impl PartialEq {
    (
        &group.clusters,
        &group.template,
        &group.unit,
        &group.labels,
        &group.taints,
        &group.startup_taints,
        &group.requirements,
        group.chooses_types,
        &group.capacity_types,
        &group.disruption,
        group.lifetime,
        group.class.get(PLACEMENT),
    )
}

fn add_new<T: PartialEq>(known: &mut Vec<T>, texts: Vec<T>) {
    for text in texts {
        if !known.contains(&text) {
            known.push(text);
        }
    }
}

/// Keys of tags that instances of two groups do not share.
fn different_tags(group: &Group, other: &Group) -> Vec<String> {
    let tags = [group, other].map(|group| group.class.get(TAGS).and_then(Value::as_object));
    let keys: BTreeSet<&String> = tags.into_iter().flatten().flat_map(Map::keys).collect();
    let [ours, theirs] = tags.map(|tags| move |key: &str| tags.and_then(|tags| tags.get(key)));
    let different = keys.into_iter().filter(|key| ours(key) != theirs(key));
    different.cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::import::asg;

    /// Two groups in different zones, of which the second has these fields, too, after merging.
    fn two(fields: Value) -> Vec<Group> {
        let group = |zone: &str| {
            json!({
                "AutoScalingGroupName": format!("web-{zone}"), "MaxSize": 3, "VPCZoneIdentifier": format!("subnet-{zone}"),
                "LaunchTemplate": {"LaunchTemplateName": "web", "Version": "1"},
            })
        };
        let mut second = group("b");
        if let (Some(second), Value::Object(fields)) = (second.as_object_mut(), fields) {
            second.extend(fields);
        }
        let answer = json!({"AutoScalingGroups": [group("a"), second]});
        merged(asg::read(&answer, "groups.json").unwrap())
    }

    fn tag(key: &str, value: &str, propagates: bool) -> Value {
        json!({"Tags": [{"Key": key, "Value": value, "PropagateAtLaunch": propagates}]})
    }

    #[test]
    fn groups_that_differ_in_more_than_their_zones_stay_apart() {
        assert_eq!(two(json!({})).len(), 1);
        let prefix = "k8s.io/cluster-autoscaler";
        let of_template =
            |key: &str, value: &str| tag(&format!("{prefix}/node-template/{key}"), value, false);
        for fields in [
            json!({"MaxInstanceLifetime": 86_400}),
            json!({"PlacementGroup": "close"}),
            tag(&format!("{prefix}/other"), "owned", false),
            of_template("autoscaling-options/scaledownunneededtime", "5m"),
            of_template(
                "taint/startup-taint.cluster-autoscaler.kubernetes.io/cni",
                ":NoSchedule",
            ),
        ] {
            assert_eq!(two(fields.clone()).len(), 2, "{fields}");
        }
    }

    #[test]
    fn merged_groups_with_different_tags_are_reported() {
        assert_eq!(two(json!({}))[0].warnings, Vec::<String>::new());
        let [group] = &two(tag("team", "b", true))[..] else {
            panic!("not merged");
        };
        assert_eq!(
            group.warnings,
            ["tags team of instances are those of web-a: web-b has others"]
        );
    }
}
