use std::collections::BTreeSet;

use model::spelling::nearest_key;

use super::Problem;
use crate::karpenter::Operator;
use crate::names::{capacity_type, label};
use crate::syntax::{LABEL_VALUE, QUALIFIED_NAME, is_label_value, is_qualified_name};

/// Problems of a requirement of a NodePool, or of a pod's node selector or required node affinity
/// (docs/spec/scheduling.md#requirement-validation, docs/spec/scheduling.md#pod-validation). `field` is its path.
pub fn requirement(
    field: &str,
    key: &str,
    operator: &Operator,
    values: &[String],
    min_values: Option<i32>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut problem = |part: &str, value: &str, allowed: String| {
        problems.push(Problem::new(format!("{field}.{part}"), value, allowed));
    };
    let key = label::normalized(key);
    if label::is_restricted(key) {
        problem("key", key, restricted(key));
    }
    if !is_qualified_name(key) {
        problem("key", key, QUALIFIED_NAME.to_owned());
    }
    for value in values.iter().filter(|value| !is_label_value(value)) {
        problem("values", value, LABEL_VALUE.to_owned());
    }
    let least = usize::try_from(min_values.unwrap_or(0)).unwrap_or(0);
    match operator {
        Operator::In => {
            if values.is_empty() {
                problem(
                    "values",
                    "",
                    "at least one value with operator In".to_owned(),
                );
            } else if values.len() < least {
                problem(
                    "values",
                    &values.join(","),
                    format!("at least as many values as minValues, which is {least}"),
                );
            }
            if let Some(known) = closed_values(key) {
                let valid = values
                    .iter()
                    .filter(|value| known.contains(&value.as_str()))
                    .collect::<BTreeSet<_>>();
                if valid.len() < least.max(1) && !values.is_empty() {
                    problem(
                        "values",
                        &values.join(","),
                        format!("at least {} of {}", least.max(1), known.join(", ")),
                    );
                }
            }
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            let bound = match values {
                [bound] => bound.parse::<i64>().ok().filter(|bound| *bound >= 0),
                _ => None,
            };
            if bound.is_none() {
                problem(
                    "values",
                    &values.join(","),
                    format!("exactly one integer that is not negative with operator {operator}"),
                );
            }
        }
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {}
        Operator::Other(text) => problem(
            "operator",
            text,
            format!("one of {}", Operator::ALLOWED.join(", ")),
        ),
    }
    problems
}

pub(super) fn restricted(key: &str) -> String {
    if key == label::HOSTNAME {
        return "another label: every node has a different host name".to_owned();
    }
    let known = label::WELL_KNOWN
        .iter()
        .chain(label::WELL_KNOWN_IN_AWS_DOMAIN);
    let meant = match nearest_key(key, known.copied()) {
        Some(meant) => format!(" (did you mean {meant}?)"),
        None => String::new(),
    };
    format!(
        "a label outside the domains {}, or a well-known one{meant}",
        label::RESTRICTED_DOMAINS.join(" and ")
    )
}

/// All values of a label with a fixed set of values. Unknown values next to known ones are accepted.
fn closed_values(key: &str) -> Option<&'static [&'static str]> {
    match key {
        label::CAPACITY_TYPE => Some(capacity_type::ALL),
        label::INSTANCE_TENANCY => Some(&["default", "dedicated"]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, operator: &str, values: &[&str], min_values: Option<i32>) -> Vec<String> {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        requirement("r", key, &Operator::from(operator), &values, min_values)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn ordinary_requirements_pass() {
        assert!(
            check(
                "karpenter.k8s.aws/instance-category",
                "In",
                &["c", "m", "r"],
                Some(2)
            )
            .is_empty()
        );
        assert!(check("karpenter.k8s.aws/instance-generation", "Gt", &["5"], None).is_empty());
        assert!(check("example.com/team", "Exists", &[], None).is_empty());
        assert!(check("example.com/team", "NotIn", &[], None).is_empty());
        assert!(check("beta.kubernetes.io/arch", "In", &["amd64"], None).is_empty());
        assert!(check("karpenter.k8s.aws/instance-hypervisor", "In", &[""], None).is_empty());
    }

    #[test]
    fn unknown_operator_lists_known_ones() {
        assert_eq!(
            check("team", "Equals", &["a"], None),
            [
                r#"r.operator: "Equals" is not allowed: expected one of Gte, Lte, In, NotIn, Exists, DoesNotExist, Gt, Lt"#
            ]
        );
    }

    #[test]
    fn restricted_keys_are_refused() {
        assert!(
            check("karpenter.sh/whatever", "Exists", &[], None)[0].contains("outside the domains")
        );
        assert!(
            check("kubernetes.io/hostname", "In", &["a"], None)[0].contains("different host name")
        );
        let meant = "(did you mean karpenter.k8s.aws/instance-family?)";
        for key in [
            "karpenter.k8s.aws/instance-famly",
            "karpenter.sh/instance-family",
        ] {
            assert!(check(key, "Exists", &[], None)[0].ends_with(meant), "{key}");
        }
    }

    #[test]
    fn in_requires_at_least_min_values() {
        assert!(check("team", "In", &[], None)[0].contains("at least one value"));
        assert!(check("team", "In", &["a"], Some(2))[0].contains("minValues, which is 2"));
    }

    #[test]
    fn bounds_are_one_non_negative_integer() {
        for values in [&[][..], &["1", "2"], &["-1"], &["x"], &["1.5"]] {
            let problems = check("cpu", "Gte", values, None).concat();
            assert!(
                problems.contains("exactly one integer that is not negative with operator Gte"),
                "{values:?}"
            );
        }
    }

    #[test]
    fn unknown_capacity_types_matter_only_without_known_ones() {
        assert!(check("karpenter.sh/capacity-type", "In", &["spot", "free"], None).is_empty());
        assert_eq!(
            check("karpenter.sh/capacity-type", "In", &["free"], None).len(),
            1
        );
        assert_eq!(
            check(
                "karpenter.sh/capacity-type",
                "In",
                &["spot", "free"],
                Some(2)
            )
            .len(),
            1
        );
        assert!(check("karpenter.sh/capacity-type", "NotIn", &["free"], None).is_empty());
        assert_eq!(
            check("karpenter.k8s.aws/instance-tenancy", "In", &["host"], None).len(),
            1
        );
    }

    #[test]
    fn keys_and_values_have_label_syntax() {
        assert!(check("bad key", "Exists", &[], None)[0].starts_with("r.key"));
        assert!(check("team", "In", &["bad value"], None)[0].starts_with("r.values"));
    }
}
