//! What a node's label may be, and what that means for a node selector expression.

use std::borrow::Cow;

use model::{
    requirement::Requirement,
    selector::{NodeSelectorRequirement, Operator},
};

/// What is known of one label of a node.
#[derive(Clone, Debug)]
pub(crate) enum Label<'a> {
    Absent,
    Is(&'a str),
    /// One of the values that are allowed; with `surely_there` false it may also be missing.
    Among {
        allowed: Cow<'a, Requirement>,
        surely_there: bool,
    },
}

impl<'a> Label<'a> {
    /// What a type says of it.
    pub(crate) fn of_known(known: &'a Requirement) -> Self {
        Self::Among {
            allowed: Cow::Borrowed(known),
            surely_there: true,
        }
    }

    /// Whether the expression holds, whatever the label turns out to be.
    pub(crate) fn guarantees(&self, wanted: &NodeSelectorRequirement) -> bool {
        match self {
            Self::Absent => is_satisfied_by_absence(wanted.operator),
            Self::Is(value) => admits(wanted, value),
            Self::Among {
                allowed,
                surely_there,
            } => {
                if !surely_there && !is_satisfied_by_absence(wanted.operator) {
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

    /// Whether the expression holds for something the label may turn out to be.
    pub(crate) fn permits(&self, wanted: &NodeSelectorRequirement) -> bool {
        match self {
            Self::Absent => is_satisfied_by_absence(wanted.operator),
            Self::Is(value) => admits(wanted, value),
            Self::Among {
                allowed,
                surely_there,
            } => {
                if is_satisfied_by_absence(wanted.operator)
                    && (!surely_there || !allowed.complement && allowed.values.is_empty())
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

/// Kubernetes' own reading of one expression for a label that is there.
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

/// For a label that may have any value but some, within bounds.
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

/// Whether two requirements on one label have a value in common; without building their intersection.
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

/// Whether everything `inner` allows is allowed by `outer`.
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
    fn a_label_of_any_value_but_one_guarantees_that_it_is_not_that_one() {
        let label = Label::Among {
            allowed: Cow::Owned(Requirement::from(&wants(Operator::NotIn, &["web"]))),
            surely_there: true,
        };
        let not_in = |values: &[&str]| label.guarantees(&wants(Operator::NotIn, values));
        assert!(not_in(&["web"]));
        assert!(!not_in(&["db"]));
        assert!(!not_in(&["web", "db"]));
        assert!(!label.guarantees(&wants(Operator::In, &["db"])));
        assert!(label.guarantees(&wants(Operator::Exists, &[])));
        assert!(!label.guarantees(&wants(Operator::DoesNotExist, &[])));
    }

    fn among(operator: Operator, values: &[&str], surely_there: bool) -> Label<'static> {
        Label::Among {
            allowed: Cow::Owned(Requirement::from(&wants(operator, values))),
            surely_there,
        }
    }

    #[test]
    fn a_value_is_compared_with_a_bound_as_a_number() {
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
    fn bounds_guarantee_what_they_lie_within() {
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
    fn what_may_be_missing_guarantees_only_what_holds_without_it() {
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
    fn a_label_permits_what_it_may_turn_out_to_be() {
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
    fn two_ranges_overlap_where_one_ends_where_the_other_begins() {
        let range = |operator, bound| Requirement::from(&wants(operator, &[bound]));
        let both = |gte, lte| {
            let (from, to) = (range(Operator::Gte, gte), range(Operator::Lte, lte));
            let within =
                |one: &Requirement| overlap(one, &Requirement::from(&wants(Operator::Exists, &[])));
            assert!(within(&from) && within(&to));
            assert_eq!(overlap(&from, &to), overlap(&to, &from));
            overlap(&from, &to)
        };
        assert!(both("9", "9"));
        assert!(both("8", "9"));
        assert!(!both("10", "9"));
        // The narrower of two ends counts.
        let (narrow, wide) = (range(Operator::Lte, "5"), range(Operator::Lte, "50"));
        let mut from_nine_to_fifty = range(Operator::Gte, "9");
        from_nine_to_fifty.lte = wide.lte;
        assert!(!overlap(&from_nine_to_fifty, &narrow));
        assert!(overlap(&from_nine_to_fifty, &wide));
    }

    #[test]
    fn a_range_is_within_one_that_begins_no_later_and_ends_no_earlier() {
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
