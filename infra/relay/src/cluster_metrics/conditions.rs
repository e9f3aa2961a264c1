use std::collections::BTreeMap;

use jiff::Timestamp;

use super::exposition::Exposition;
use super::{OBJECTS_MAX, age, number};
use crate::kind::Kind;
use crate::objects::metric_data::{ConditionData, MetricData, ObjectData};
use crate::state::State;

const KINDS: [Kind; 5] = [
    Kind::NodeClaim,
    Kind::NodePool,
    Kind::Node,
    Kind::Ec2NodeClass,
    Kind::CapacityBuffer,
];

pub(super) fn write(state: &State, per_object: bool, now: Timestamp, page: &mut Exposition<'_>) {
    for kind in KINDS {
        let name = kind.singular();
        page.gauge(
            &format!("operator_{name}_status_condition_count"),
            "Objects with this condition",
        );
        if !per_object {
            write_counts(state, kind, page);
            continue;
        }
        for (object, condition) in each(state, kind) {
            page.sample(&labels(object, condition), 1.0);
        }
        page.gauge(
            &format!("operator_{name}_status_condition_current_status_seconds"),
            "Time for which the condition has had its status",
        );
        for (object, condition) in each(state, kind) {
            if let Some(age) = age(condition.since, now) {
                page.sample(&labels(object, condition), age);
            }
        }
        page.gauge(
            &format!("operator_{name}_termination_current_time_seconds"),
            "Time since the object's deletion began",
        );
        for object in objects(state, kind).take(OBJECTS_MAX) {
            if let Some(age) = age(object.deleted_at, now) {
                let labels = [("namespace", &*object.namespace), ("name", &*object.name)];
                page.sample(&labels, age);
            }
        }
    }
}

fn write_counts(state: &State, kind: Kind, page: &mut Exposition<'_>) {
    let mut counts: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for condition in objects(state, kind).flat_map(|object| &object.conditions) {
        let key = [&*condition.name, &*condition.status, &*condition.reason];
        *counts.entry(key).or_default() += 1;
    }
    for ([kind, status, reason], count) in counts {
        let labels = [("type", kind), ("status", status), ("reason", reason)];
        page.sample(&labels, number(count));
    }
}

fn objects(state: &State, kind: Kind) -> impl Iterator<Item = &ObjectData> {
    state
        .metric_data(kind)
        .filter_map(|(_, metric_data)| match metric_data {
            MetricData::Node(node) => Some(&node.object),
            MetricData::Other(object) => Some(object),
            MetricData::Pod(_) => None,
        })
}

/// Conditions of the objects with individual series.
fn each(state: &State, kind: Kind) -> impl Iterator<Item = (&ObjectData, &ConditionData)> {
    let objects = objects(state, kind).take(OBJECTS_MAX);
    objects.flat_map(|object| {
        let conditions = object.conditions.iter();
        conditions.map(move |condition| (object, condition))
    })
}

fn labels<'a>(object: &'a ObjectData, condition: &'a ConditionData) -> [(&'a str, &'a str); 5] {
    [
        ("namespace", &object.namespace),
        ("name", &object.name),
        ("type", &condition.name),
        ("status", &condition.status),
        ("reason", &condition.reason),
    ]
}
