use model::{
    requirement::{Requirement, Requirements},
    selector::Operator,
};
use proptest::prelude::*;

use super::*;

const VALUES: [&str; 6] = ["a", "b", "1", "2", "3", "10"];

fn requirement(key: &'static str) -> impl Strategy<Value = Requirement> {
    let operators = prop::sample::select(vec![
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
        Operator::Gt,
        Operator::Lt,
        Operator::Gte,
        Operator::Lte,
    ]);
    let values = prop::sample::subsequence(VALUES.to_vec(), 1..=3);
    (operators, values, 0_i64..12).prop_map(move |(operator, values, bound)| {
        let values: Vec<String> = match operator {
            Operator::In | Operator::NotIn => values.into_iter().map(str::to_owned).collect(),
            Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
                vec![bound.to_string()]
            }
            Operator::Exists | Operator::DoesNotExist => Vec::new(),
        };
        Requirement::new(key, operator, values)
    })
}

fn requirements() -> impl Strategy<Value = Requirements> {
    let any = prop_oneof![
        requirement("zone"),
        requirement("arch"),
        requirement("team")
    ];
    let all = prop::collection::vec(any, 0..4);
    all.prop_map(|all| {
        let mut set = Requirements::default();
        for requirement in all {
            set.add(requirement);
        }
        set
    })
}

fn algebra() -> Algebra {
    Algebra::new(["zone"])
}

proptest! {
    #[test]
    fn intersection_allows_common_values(a in requirement("k"), b in requirement("k")) {
        let mut algebra = algebra();
        let (a_id, b_id) = (algebra.requirement(&a).1, algebra.requirement(&b).1);
        let both = algebra.intersection(a_id, b_id);
        prop_assert_eq!(both, algebra.intersection(b_id, a_id));
        let both = algebra.req(both);
        for value in VALUES {
            let symbol = algebra.symbol(value);
            prop_assert_eq!(algebra.has(&both, symbol), a.has(value) && b.has(value));
        }
    }

    #[test]
    fn interned_requirements_equal_the_models(a in requirement("k"), b in requirement("k")) {
        let mut algebra = algebra();
        let (a_id, b_id) = (algebra.requirement(&a).1, algebra.requirement(&b).1);
        let both = algebra.intersection(a_id, b_id);
        prop_assert_eq!(both, algebra.requirement(&a.intersection(&b)).1);
    }

    #[test]
    fn merge_is_commutative_and_associative(a in requirements(), b in requirements(), c in requirements()) {
        let mut algebra = algebra();
        let [a, b, c] = [a, b, c].map(|all| algebra.set_of(all.0.values()));
        let left = algebra.merge(a, b);
        let left = algebra.merge(left, c);
        let right = algebra.merge(b, c);
        let right = algebra.merge(a, right);
        prop_assert_eq!(left, right);
        prop_assert_eq!(algebra.merge(left, a), left);
    }

    #[test]
    fn missing_labels_are_accepted_on_new_nodes_if_well_known(
        known in requirements(), wanted in requirements(),
    ) {
        let mut algebra = algebra();
        let [known, wanted] = [known, wanted].map(|all| algebra.set_of(all.0.values()));
        let strict = algebra.narrow(known, wanted, Undefined::Refused);
        let lenient = algebra.narrow(known, wanted, Undefined::WellKnown);
        if strict.is_some() {
            prop_assert_eq!(strict, lenient);
        } else if lenient.is_some() {
            let zone = algebra.symbol("zone");
            prop_assert!(algebra.get(known, zone).is_none() && algebra.get(wanted, zone).is_some());
        }
    }
}

#[test]
fn excluding_requirement_does_not_need_the_label() {
    let mut algebra = algebra();
    let absent = Requirement::new("team", Operator::NotIn, ["a".to_owned()]);
    let wanted = algebra.set_of([&absent]);
    let narrowed = algebra.narrow(Algebra::EMPTY, wanted, Undefined::Refused);
    assert_eq!(narrowed, Some(wanted));
    let present = algebra.set_of([&Requirement::new("team", Operator::Exists, [])]);
    assert_eq!(
        algebra.narrow(Algebra::EMPTY, present, Undefined::WellKnown),
        None
    );
}
