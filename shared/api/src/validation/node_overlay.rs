use super::{Problem, requirement};
use crate::karpenter::{NodeOverlay, Operator};
use crate::quantity::ResourceList;

/// Resources of instance types that an overlay cannot change.
const MEASURED: &[&str] = &["cpu", "memory", "ephemeral-storage", "pods"];

/// Problems of a NodeOverlay. While there are any, its condition ValidationSucceeded is False and it has no effect
/// (docs/spec/lifecycle.md#node-overlay).
pub fn node_overlay(overlay: &NodeOverlay) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, entry) in overlay.spec.requirements.iter().enumerate() {
        let field = format!("spec.requirements[{index}]");
        let excludes_nothing = entry.operator == Operator::NotIn && entry.values.is_empty();
        if excludes_nothing {
            let allowed = "at least one value with operator NotIn";
            problems.push(Problem::new(format!("{field}.values"), "", allowed));
        }
        problems.extend(requirement(
            &field,
            &entry.key,
            &entry.operator,
            &entry.values,
            entry.min_values,
        ));
    }
    problems.extend(capacity(overlay.spec.capacity.as_ref()));
    problems
}

fn capacity(list: Option<&ResourceList>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, quantity) in list.into_iter().flatten() {
        let field = format!("spec.capacity.{name}");
        if MEASURED.contains(&name.as_str()) {
            let allowed = format!("resources other than {}", MEASURED.join(", "));
            problems.push(Problem::new(&field, name, allowed));
        }
        let amount = quantity.as_str().parse::<model::quantity::Quantity>();
        if !amount.is_ok_and(|amount| amount.milli() >= 0) {
            let allowed = "a quantity that is not negative, such as 2";
            problems.push(Problem::new(&field, quantity.as_str(), allowed));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &str) -> Vec<String> {
        let manifest = format!("{{metadata: {{name: cheap}}, spec: {{{spec}}}}}");
        node_overlay(&serde_saphyr::from_str(&manifest).unwrap())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn valid_overlay_has_no_problems() {
        let problems = check(
            "requirements: [{key: karpenter.sh/nodepool, operator: In, values: [a]}, \
             {key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}], \
             priceAdjustment: '-10%', capacity: {example.com/slots: 4}",
        );
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn requirements_and_capacity_are_checked() {
        for (spec, field) in [
            (
                "requirements: [{key: team, operator: NotIn}]",
                "spec.requirements[0].values",
            ),
            (
                "requirements: [{key: team, operator: In}]",
                "spec.requirements[0].values",
            ),
            (
                "requirements: [{key: karpenter.sh/other, operator: Exists}]",
                "spec.requirements[0].key",
            ),
            (
                "requirements: [{key: kubernetes.io/hostname, operator: Exists}]",
                "spec.requirements[0].key",
            ),
            (
                "requirements: [], capacity: {memory: 1Gi}",
                "spec.capacity.memory",
            ),
            (
                "requirements: [], capacity: {example.com/slots: '-1'}",
                "spec.capacity.example.com/slots",
            ),
            (
                "requirements: [], capacity: {example.com/slots: many}",
                "spec.capacity.example.com/slots",
            ),
        ] {
            let problems = check(spec);
            assert_eq!(problems.len(), 1, "{spec}: {problems:?}");
            assert!(problems[0].starts_with(field), "{problems:?}");
        }
    }
}
