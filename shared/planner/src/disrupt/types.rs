//! Reduces the instance types of a replacement by price and `minValues`.

use std::collections::BTreeSet;

use model::{InstanceType, NanosPerHour};
use scheduling::NewNode;

use super::{context::DisruptionContext, price};

/// Surcharge of the new node's NodePool per node.
pub(super) fn surcharge_of_new_node(
    context: &DisruptionContext<'_>,
    node: &NewNode,
) -> NanosPerHour {
    let pool = context.planning.offering().nth(node.pool);
    pool.map_or(NanosPerHour(0), |(pool, _)| {
        context.snapshot.surcharge(pool).total()
    })
}

/// Instance types that the new node's choices index.
pub(super) fn of_new_node<'s>(
    context: &'s DisruptionContext<'_>,
    node: &NewNode,
) -> &'s [InstanceType] {
    let pool = context.planning.offering().nth(node.pool);
    pool.map_or(&[], |(_, types)| types.as_slice())
}

pub(super) fn retain(
    node: &mut NewNode,
    of_pool: &[InstanceType],
    keep: impl Fn(&InstanceType) -> bool,
) {
    node.choices
        .retain(|choice| of_pool.get(choice.instance_type()).is_some_and(&keep));
}

/// Keeps the instance types whose highest launch price is below `than` (docs/spec/lifecycle.md#replacement).
pub(super) fn retain_cheaper(
    context: &DisruptionContext<'_>,
    node: &mut NewNode,
    of_pool: &[InstanceType],
    than: NanosPerHour,
) -> Result<(), String> {
    let wanted = node.requirements.clone();
    let surcharge = surcharge_of_new_node(context, node);
    retain(node, of_pool, |instance_type| {
        let worst = price::worst(
            instance_type,
            &wanted,
            &context.snapshot.settings,
            surcharge,
        );
        worst.is_some_and(|worst| worst < than)
    });
    if node.choices.is_empty() {
        return Err("Can't replace with a cheaper node".to_owned());
    }
    if leading_for_min_values(node, of_pool).is_none() {
        return Err(
            "Filtering by price: minValues requirement is not met by the cheaper instance types"
                .to_owned(),
        );
    }
    Ok(())
}

/// Number of leading choices that together have the distinct values that `minValues` requires; `None` if all choices do not.
pub(super) fn leading_for_min_values(node: &NewNode, of_pool: &[InstanceType]) -> Option<usize> {
    let min_values = node.requirements.0.values();
    let min_values = min_values
        .filter_map(|min_values| Some((min_values, usize::try_from(min_values.min_values?).ok()?)));
    let mut needed = 0;
    for (requirement, wanted) in min_values {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let enough = node.choices.iter().position(|choice| {
            let instance_type = of_pool.get(choice.instance_type());
            let own = instance_type
                .and_then(|instance_type| instance_type.requirements.get(&requirement.key));
            let values = own.into_iter().flat_map(|own| &own.values);
            seen.extend(values.map(String::as_str));
            seen.len() >= wanted
        });
        needed = needed.max(enough? + 1);
    }
    Some(needed)
}

#[cfg(test)]
mod tests {
    use model::{
        Resources,
        catalog::Overhead,
        requirement::{Requirement, Requirements},
        selector::Operator,
    };
    use scheduling::Choice;

    use super::*;

    #[test]
    fn leading_choices_cover_min_values() {
        let instance_type = |family: &str| {
            let mut requirements = Requirements::default();
            requirements.add(Requirement::new(
                "family",
                Operator::In,
                [family.to_owned()],
            ));
            InstanceType {
                ebs_attach_limit: None,
                devices: Vec::new(),
                name: family.to_owned(),
                requirements,
                capacity: Resources::default(),
                overhead: Overhead::default(),
                offerings: Vec::new(),
            }
        };
        let of_pool = ["m5", "m5", "c5", "r5"].map(instance_type);
        let needed = |least: Option<u32>| {
            let mut requirements = Requirements::default();
            requirements.add(Requirement {
                min_values: least,
                ..Requirement::new("family", Operator::Exists, [])
            });
            let choices = (0..of_pool.len()).map(|at| Choice::new(at, 0, NanosPerHour(1)));
            let node = NewNode {
                pool: 0,
                pods: Vec::new(),
                requirements,
                admitted: Vec::new(),
                requests: Resources::default(),
                choices: choices.collect(),
                drivers: BTreeSet::new(),
                min_values_relaxed: false,
            };
            leading_for_min_values(&node, &of_pool)
        };
        assert_eq!(needed(None), Some(0));
        assert_eq!(needed(Some(1)), Some(1));
        assert_eq!(needed(Some(2)), Some(3));
        assert_eq!(needed(Some(3)), Some(4));
        assert_eq!(needed(Some(4)), None);
    }
}
