//! Knowledge about a node's label, and its consequences for node selector expressions.

use std::borrow::Cow;

use model::{
    requirement::Requirement,
    selector::{NodeSelectorRequirement, Operator},
};

/// Knowledge about one label of a node.
#[derive(Clone, Debug)]
pub(crate) enum Label<'a> {
    Absent,
    Is(&'a str),
    /// One of the allowed values; absent is possible, too, unless `always_present`.
    Among {
        allowed: Cow<'a, Requirement>,
        always_present: bool,
    },
}

impl<'a> Label<'a> {
    /// A label that the instance type specifies.
    pub(crate) fn of_known(known: &'a Requirement) -> Self {
        Self::Among {
            allowed: Cow::Borrowed(known),
            always_present: true,
        }
    }

    /// Whether the expression holds for every possible value of the label.
    pub(crate) fn guarantees(&self, wanted: &NodeSelectorRequirement) -> bool {
        match self {
            Self::Absent => is_satisfied_by_absence(wanted.operator),
            Self::Is(value) => admits(wanted, value),
            Self::Among {
                allowed,
                always_present,
            } => {
                if !always_present && !is_satisfied_by_absence(wanted.operator) {
                    return false;
                }
                if allowed.complement {
                    open_guarantees(allowed, wanted)
                } else {
                    !allowed.values.is_empty()
                        && allowed.values.iter().all(|value| admits(wanted, value))
                        || allowed.values.is_empty() && is_satisfied_by_absence(wanted.operator)
                }
            }
        }
    }

    /// Whether the expression holds for some possible value of the label.
    pub(crate) fn permits(&self, wanted: &NodeSelectorRequirement) -> bool {
        match self {
            Self::Absent => is_satisfied_by_absence(wanted.operator),
            Self::Is(value) => admits(wanted, value),
            Self::Among {
                allowed,
                always_present,
            } => {
                if is_satisfied_by_absence(wanted.operator)
                    && (!always_present || !allowed.complement && allowed.values.is_empty())
                {
                    return true;
                }
                overlap(allowed, &Requirement::from(wanted))
            }
        }
    }
}

fn is_satisfied_by_absence(operator: Operator) -> bool {
    matches!(operator, Operator::NotIn | Operator::DoesNotExist)
}

/// Kubernetes' semantics of an expression for a present label.
fn admits(wanted: &NodeSelectorRequirement, value: &str) -> bool {
    let compare = |holds: fn(i64, i64) -> bool| {
        let bound = wanted.values.first().and_then(|bound| bound.parse().ok());
        matches!((value.parse(), bound), (Ok(value), Some(bound)) if holds(value, bound))
    };
    match wanted.operator {
        Operator::In => wanted.values.iter().any(|wanted| wanted == value),
        Operator::NotIn => wanted.values.iter().all(|unwanted| unwanted != value),
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::Gt => compare(|value, bound| value > bound),
        Operator::Lt => compare(|value, bound| value < bound),
        Operator::Gte => compare(|value, bound| value >= bound),
        Operator::Lte => compare(|value, bound| value <= bound),
    }
}

/// `guarantees` for a label with any value except some, within bounds.
fn open_guarantees(allowed: &Requirement, wanted: &NodeSelectorRequirement) -> bool {
    let bound = || {
        wanted
            .values
            .first()
            .and_then(|bound| bound.parse::<i64>().ok())
    };
    let at_least = |least: Option<i64>| {
        allowed
            .gte
            .zip(least)
            .is_some_and(|(gte, least)| gte >= least)
    };
    let at_most = |most: Option<i64>| allowed.lte.zip(most).is_some_and(|(lte, most)| lte <= most);
    match wanted.operator {
        Operator::Exists => true,
        Operator::NotIn => wanted.values.iter().all(|unwanted| !allowed.has(unwanted)),
        Operator::In | Operator::DoesNotExist => false,
        Operator::Gt => at_least(bound().and_then(|bound| bound.checked_add(1))),
        Operator::Gte => at_least(bound()),
        Operator::Lt => at_most(bound().and_then(|bound| bound.checked_sub(1))),
        Operator::Lte => at_most(bound()),
    }
}

/// Whether two requirements on one label have a common value, without computing their intersection.
pub(crate) fn overlap(a: &Requirement, b: &Requirement) -> bool {
    match (a.complement, b.complement) {
        (false, false) if a.values.len() <= b.values.len() => {
            a.values.iter().any(|value| b.has(value))
        }
        (false, true) => a.values.iter().any(|value| b.has(value)),
        (_, false) => b.values.iter().any(|value| a.has(value)),
        (true, true) => {
            let (gte, lte) = (a.gte.max(b.gte), least(a.lte, b.lte));
            gte.zip(lte).is_none_or(|(gte, lte)| gte <= lte)
        }
    }
}

/// Whether `outer` allows every value that `inner` allows.
pub(crate) fn is_within(inner: &Requirement, outer: &Requirement) -> bool {
    if !inner.complement {
        return inner.values.iter().all(|value| outer.has(value));
    }
    outer.complement
        && outer.values.iter().all(|excluded| !inner.has(excluded))
        && outer
            .gte
            .is_none_or(|least| inner.gte.is_some_and(|gte| gte >= least))
        && outer
            .lte
            .is_none_or(|most| inner.lte.is_some_and(|lte| lte <= most))
}

fn least(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(operator: Operator, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement {
            key: "team".into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
            min_values: None,
        }
    }

    #[test]
    fn label_excluding_a_value_guarantees_not_in() {
        let label = Label::Among {
            allowed: Cow::Owned(Requirement::from(&wants(Operator::NotIn, &["web"]))),
            always_present: true,
        };
        let not_in = |values: &[&str]| label.guarantees(&wants(Operator::NotIn, values));
        assert!(not_in(&["web"]));
        assert!(!not_in(&["db"]));
        assert!(!not_in(&["web", "db"]));
        assert!(!label.guarantees(&wants(Operator::In, &["db"])));
        assert!(label.guarantees(&wants(Operator::Exists, &[])));
        assert!(!label.guarantees(&wants(Operator::DoesNotExist, &[])));
    }

    fn among(operator: Operator, values: &[&str], always_present: bool) -> Label<'static> {
        Label::Among {
            allowed: Cow::Owned(Requirement::from(&wants(operator, values))),
            always_present,
        }
    }

    #[test]
    fn values_compare_with_bounds_as_numbers() {
        let holds =
            |operator, value: &'static str| Label::Is(value).guarantees(&wants(operator, &["9"]));
        let of = |operator| ["8", "9", "10"].map(|value| holds(operator, value));
        assert_eq!(of(Operator::Gt), [false, false, true]);
        assert_eq!(of(Operator::Gte), [false, true, true]);
        assert_eq!(of(Operator::Lt), [true, false, false]);
        assert_eq!(of(Operator::Lte), [true, true, false]);
        assert!(!holds(Operator::Gt, "many"));
    }

    #[test]
    fn bounds_guarantee_wider_bounds() {
        let of = |label: Label<'_>, operator| {
            ["8", "9", "10"].map(|bound| label.guarantees(&wants(operator, &[bound])))
        };
        let from_nine = || among(Operator::Gte, &["9"], true);
        assert_eq!(of(from_nine(), Operator::Gte), [true, true, false]);
        assert_eq!(of(from_nine(), Operator::Gt), [true, false, false]);
        assert_eq!(of(from_nine(), Operator::Lte), [false, false, false]);
        let up_to_nine = || among(Operator::Lte, &["9"], true);
        assert_eq!(of(up_to_nine(), Operator::Lte), [false, true, true]);
        assert_eq!(of(up_to_nine(), Operator::Lt), [false, false, true]);
        assert_eq!(of(up_to_nine(), Operator::Gte), [false, false, false]);
    }

    #[test]
    fn optional_label_guarantees_only_what_absence_satisfies() {
        let may_be_missing = among(Operator::In, &["web"], false);
        assert!(!may_be_missing.guarantees(&wants(Operator::In, &["web"])));
        assert!(!may_be_missing.guarantees(&wants(Operator::Exists, &[])));
        assert!(may_be_missing.guarantees(&wants(Operator::NotIn, &["db"])));
        assert!(!may_be_missing.guarantees(&wants(Operator::NotIn, &["web"])));
        let none = among(Operator::In, &[], true);
        assert!(none.guarantees(&wants(Operator::DoesNotExist, &[])));
        assert!(!none.guarantees(&wants(Operator::In, &["web"])));
    }

    #[test]
    fn label_permits_its_possible_values() {
        let there = |surely| among(Operator::In, &["web", "db"], surely);
        assert!(there(true).permits(&wants(Operator::In, &["db"])));
        assert!(!there(true).permits(&wants(Operator::In, &["other"])));
        assert!(!there(true).permits(&wants(Operator::DoesNotExist, &[])));
        assert!(!there(true).permits(&wants(Operator::NotIn, &["web", "db"])));
        assert!(there(false).permits(&wants(Operator::NotIn, &["web", "db"])));
        assert!(!there(false).permits(&wants(Operator::In, &["other"])));
        let none = among(Operator::In, &[], true);
        assert!(none.permits(&wants(Operator::NotIn, &["web"])));
        assert!(!none.permits(&wants(Operator::In, &["web"])));
    }

    #[test]
    fn ranges_with_a_common_bound_overlap() {
        let range = |operator, bound| Requirement::from(&wants(operator, &[bound]));
        let both = |gte, lte| {
            let (from, to) = (range(Operator::Gte, gte), range(Operator::Lte, lte));
            let within = |range: &Requirement| {
                overlap(range, &Requirement::from(&wants(Operator::Exists, &[])))
            };
            assert!(within(&from) && within(&to));
            assert_eq!(overlap(&from, &to), overlap(&to, &from));
            overlap(&from, &to)
        };
        assert!(both("9", "9"));
        assert!(both("8", "9"));
        assert!(!both("10", "9"));
        // The narrower of two upper bounds counts.
        let (narrow, wide) = (range(Operator::Lte, "5"), range(Operator::Lte, "50"));
        let mut from_nine_to_fifty = range(Operator::Gte, "9");
        from_nine_to_fifty.lte = wide.lte;
        assert!(!overlap(&from_nine_to_fifty, &narrow));
        assert!(overlap(&from_nine_to_fifty, &wide));
    }

    #[test]
    fn range_is_within_wider_range() {
        let of = |operator, values: &[&str]| Requirement::from(&wants(operator, values));
        let is = |inner: &Requirement, operator, values: &[&str]| {
            is_within(inner, &of(operator, values))
        };
        let from_nine = of(Operator::Gte, &["9"]);
        assert!(is(&from_nine, Operator::Gte, &["8"]));
        assert!(is(&from_nine, Operator::Gte, &["9"]));
        assert!(!is(&from_nine, Operator::Gte, &["10"]));
        assert!(!is(&from_nine, Operator::Lte, &["20"]));
        let up_to_nine = of(Operator::Lte, &["9"]);
        assert!(is(&up_to_nine, Operator::Lte, &["9"]));
        assert!(!is(&up_to_nine, Operator::Lte, &["8"]));
        assert!(is(
            &of(Operator::NotIn, &["a", "b"]),
            Operator::NotIn,
            &["a"]
        ));
        assert!(!is(
            &of(Operator::NotIn, &["a"]),
            Operator::NotIn,
            &["a", "b"]
        ));
        assert!(!is(&of(Operator::NotIn, &["a"]), Operator::In, &["b"]));
        assert!(is(&of(Operator::In, &["b"]), Operator::NotIn, &["a"]));
    }
}
