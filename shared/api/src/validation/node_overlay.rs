use super::{Problem, requirement};
use crate::karpenter::{NodeOverlay, NodeOverlaySpec, Operator};
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
    problems.extend(prices(&overlay.spec));
    problems.extend(capacity(overlay.spec.capacity.as_ref()));
    problems
}

fn prices(spec: &NodeOverlaySpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(price) = spec.price.as_deref().filter(|text| !is_price(text)) {
        let allowed = "dollars per hour, such as 0.25";
        problems.push(Problem::new("spec.price", price, allowed));
    }
    if let Some(text) = spec.price_adjustment.as_deref() {
        if !is_adjustment(text) {
            let allowed = "dollars per hour or a percentage of at least -100%, with a sign, such as -0.5 or +10%";
            problems.push(Problem::new("spec.priceAdjustment", text, allowed));
        }
        if spec.price.is_some() {
            let allowed = "no priceAdjustment beside spec.price";
            problems.push(Problem::new("spec.priceAdjustment", text, allowed));
        }
    }
    problems
}

fn is_price(text: &str) -> bool {
    is_amount(text) && !text.starts_with('.')
}

/// Whether the text is an amount or a percentage with a sign, and no price drops by more than all of it.
fn is_adjustment(text: &str) -> bool {
    let Some(amount) = text.strip_prefix(['+', '-']) else {
        return false;
    };
    let Some(percent) = amount.strip_suffix('%') else {
        return is_amount(amount);
    };
    let whole = percent.split('.').next().unwrap_or_default();
    let is_below_all = (1..=2).contains(&whole.len()) || percent == "100";
    is_amount(percent) && (text.starts_with('+') || is_below_all)
}

/// Whether the text is a decimal number without a sign.
fn is_amount(text: &str) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = text.rsplit_once('.').unwrap_or(("", text));
    !fraction.is_empty() && is_digits(whole) && is_digits(fraction)
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
    fn prices_of_the_schema_are_valid() {
        for price in ["price: '1'", "price: '0.25'"] {
            assert_eq!(check(&format!("requirements: [], {price}")), [""; 0]);
        }
        for adjustment in ["-0.5", "+.5", "-100%", "-99.5%", "+250%"] {
            let spec = format!("requirements: [], priceAdjustment: '{adjustment}'");
            assert_eq!(check(&spec), [""; 0], "{adjustment}");
        }
    }

    #[test]
    fn requirements_prices_and_capacity_are_checked() {
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
            ("requirements: [], price: cheap", "spec.price"),
            ("requirements: [], price: '.5'", "spec.price"),
            ("requirements: [], price: '-1'", "spec.price"),
            (
                "requirements: [], priceAdjustment: 10%",
                "spec.priceAdjustment",
            ),
            (
                "requirements: [], priceAdjustment: -101%",
                "spec.priceAdjustment",
            ),
            (
                "requirements: [], priceAdjustment: +1.%",
                "spec.priceAdjustment",
            ),
            (
                "requirements: [], price: '1', priceAdjustment: +10%",
                "spec.priceAdjustment",
            ),
        ] {
            let problems = check(spec);
            assert_eq!(problems.len(), 1, "{spec}: {problems:?}");
            assert!(problems[0].starts_with(field), "{problems:?}");
        }
    }
}
