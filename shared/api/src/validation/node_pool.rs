use std::collections::BTreeSet;

use model::{NanosPerHour, Surcharge, caps::Caps};

use super::requirement::restricted;
use super::{Problem, requirement};
use crate::karpenter::{NodePool, Taint, TaintEffect};
use crate::names::label;
use crate::syntax::{LABEL_VALUE, QUALIFIED_NAME, is_label_value, is_qualified_name};

/// Problems of a NodePool. While there are any, its condition ValidationSucceeded is False and nothing is launched for
/// it (docs/spec/scheduling.md#node-pool).
pub fn node_pool(pool: &NodePool) -> Vec<Problem> {
    let mut problems = labels(pool);
    problems.extend(taints(pool));
    problems.extend(requirements(pool));
    problems.extend(caps(pool));
    problems
}

/// Checks the annotations for caps and for the node price. An invalid one prevents launches, rather than being ignored.
fn caps(pool: &NodePool) -> impl Iterator<Item = Problem> {
    let is_price = |text: &str| NanosPerHour::from_dollars(text).is_some();
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let price =
        (!written(pool, Caps::ANNOTATION, is_price)).then_some((Caps::ANNOTATION, Caps::DOLLARS));
    let evictions = (!written(pool, Caps::EVICTIONS_ANNOTATION, is_number))
        .then_some((Caps::EVICTIONS_ANNOTATION, "a number of pods"));
    let node_price = (!written(pool, Surcharge::ANNOTATION, is_price))
        .then_some((Surcharge::ANNOTATION, "dollars per hour, such as \"0.02\""));
    let wrong = price.into_iter().chain(evictions).chain(node_price);
    wrong.map(|(key, expected)| {
        let text = pool.metadata.annotations.get(key).cloned();
        let field = format!("metadata.annotations[{key}]");
        Problem::new(field, text.unwrap_or_default(), expected)
    })
}

/// Whether an annotation is valid or absent.
fn written(pool: &NodePool, key: &str, reads: impl Fn(&str) -> bool) -> bool {
    let text = pool.metadata.annotations.get(key);
    text.is_none_or(|text| reads(text))
}

const OTHER_THAN_NODE_POOL: &str = "another label: this one is set to the NodePool's name";

fn labels(pool: &NodePool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in pool.spec.template.labels() {
        let field = format!("spec.template.metadata.labels[{key}]");
        if key == label::NODE_POOL {
            problems.push(Problem::new(&field, key, OTHER_THAN_NODE_POOL));
        }
        if !is_qualified_name(key) {
            problems.push(Problem::new(&field, key, QUALIFIED_NAME));
        }
        if label::is_restricted(key) {
            problems.push(Problem::new(&field, key, restricted(key)));
        }
        if !is_label_value(value) {
            problems.push(Problem::new(&field, value, LABEL_VALUE));
        }
    }
    problems
}

fn taints(pool: &NodePool) -> Vec<Problem> {
    let spec = &pool.spec.template.spec;
    let named = |name: &'static str, taints: &'_ Option<Vec<Taint>>| -> Vec<(String, Taint)> {
        let taints = taints.iter().flatten().enumerate();
        taints
            .map(|(index, taint)| (format!("spec.template.spec.{name}[{index}]"), taint.clone()))
            .collect()
    };
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (field, taint) in named("taints", &spec.taints)
        .into_iter()
        .chain(named("startupTaints", &spec.startup_taints))
    {
        if !is_qualified_name(&taint.key) {
            problems.push(Problem::new(
                format!("{field}.key"),
                &taint.key,
                QUALIFIED_NAME,
            ));
        }
        let value = taint.value.unwrap_or_default();
        if !value.is_empty() && !is_qualified_name(&value) {
            problems.push(Problem::new(
                format!("{field}.value"),
                value,
                QUALIFIED_NAME,
            ));
        }
        if let TaintEffect::Other(text) = &taint.effect
            && !text.is_empty()
        {
            let allowed = format!("one of {}", TaintEffect::ALLOWED.join(", "));
            problems.push(Problem::new(format!("{field}.effect"), text, allowed));
        }
        let text = format!("{}:{}", taint.key, taint.effect);
        if !seen.insert((taint.key, taint.effect)) {
            problems.push(Problem::new(
                field,
                text,
                "each key and effect only once in taints and startupTaints together",
            ));
        }
    }
    problems
}

fn requirements(pool: &NodePool) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, entry) in pool.spec.template.spec.requirements.iter().enumerate() {
        let field = format!("spec.template.spec.requirements[{index}]");
        problems.extend(requirement(
            &field,
            &entry.key,
            &entry.operator,
            &entry.values,
            entry.min_values,
        ));
        if label::normalized(&entry.key) == label::NODE_POOL {
            problems.push(Problem::new(
                format!("{field}.key"),
                &entry.key,
                OTHER_THAN_NODE_POOL,
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Problems of a NodePool whose template has these parts.
    fn check(metadata: &str, spec: &str) -> Vec<String> {
        let manifest = format!(
            "{{metadata: {{name: default}}, spec: {{template: {{metadata: {metadata}, spec: {{\
             nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, {spec}}}}}}}}}"
        );
        node_pool(&serde_saphyr::from_str(&manifest).unwrap())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn valid_node_pool_has_no_problems() {
        let problems = check(
            "{labels: {team: a, karpenter.sh/capacity-type: spot, node.kubernetes.io/anything: b}}",
            "requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}], \
             taints: [{key: a, effect: NoSchedule}], startupTaints: [{key: a, effect: NoExecute}]",
        );
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn invalid_node_price_is_a_problem() {
        let problems = |price: &str| {
            let manifest = format!(
                "{{metadata: {{name: default, annotations: {{whittle.sh/node-price: \"{price}\"}}}}, spec: {{template: {{spec: {{\
                 nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: []}}}}}}}}"
            );
            let problems = node_pool(&serde_saphyr::from_str(&manifest).unwrap());
            problems.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(problems("0.02"), [""; 0]);
        for price in ["-1", "2 cents", "", "$0.02"] {
            let problems = problems(price);
            assert_eq!(problems.len(), 1, "{price}");
            assert!(
                problems[0].contains("whittle.sh/node-price"),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn labels_are_checked() {
        let long = "k".repeat(64);
        for labels in [
            "{karpenter.sh/nodepool: a}",
            "{kubernetes.io/hostname: a}",
            "{karpenter.sh/custom: a}",
            "{team: a b}",
            "{a b: c}",
            &format!("{{{long}: a}}"),
        ] {
            let problems = check(&format!("{{labels: {labels}}}"), "requirements: []");
            assert_eq!(problems.len(), 1, "{labels}: {problems:?}");
            assert!(
                problems[0].starts_with("spec.template.metadata.labels["),
                "{problems:?}"
            );
        }
    }

    #[test]
    fn taints_are_checked() {
        for taints in [
            "taints: [{key: a b, effect: NoSchedule}]",
            "taints: [{key: a, value: a b, effect: NoSchedule}]",
            "startupTaints: [{key: a, effect: Sometimes}]",
        ] {
            assert_eq!(
                check("{}", &format!("requirements: [], {taints}")).len(),
                1,
                "{taints}"
            );
        }
        assert!(
            check(
                "{}",
                "requirements: [], taints: [{key: a, value: '', effect: ''}]"
            )
            .is_empty()
        );
    }

    #[test]
    fn taint_may_occur_once_in_both_lists() {
        assert_eq!(
            check(
                "{}",
                "requirements: [], taints: [{key: a, value: x, effect: NoSchedule}], \
                 startupTaints: [{key: a, value: y, effect: NoSchedule}]"
            ),
            [
                r#"spec.template.spec.startupTaints[0]: "a:NoSchedule" is not allowed: expected each key and effect only once in taints and startupTaints together"#
            ]
        );
    }

    #[test]
    fn requirements_are_checked_by_position() {
        assert_eq!(
            check(
                "{}",
                "requirements: [{key: team, operator: Exists}, {key: team, operator: Foo}, \
                 {key: karpenter.sh/nodepool, operator: Exists}]"
            ),
            [
                r#"spec.template.spec.requirements[1].operator: "Foo" is not allowed: expected one of Gte, Lte, In, NotIn, Exists, DoesNotExist, Gt, Lt"#,
                r#"spec.template.spec.requirements[2].key: "karpenter.sh/nodepool" is not allowed: expected another label: this one is set to the NodePool's name"#,
            ]
        );
    }
}
