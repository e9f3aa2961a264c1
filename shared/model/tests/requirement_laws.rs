//! The laws of the requirement algebra (docs/spec/scheduling.md#requirements), checked against every value of a small
//! universe.

use model::{requirement::Requirement, selector::Operator};
use proptest::{prelude::*, sample::subsequence};

const KEY: &str = "example.com/key";
const WORDS: [&str; 3] = ["a", "b", "c"];
const NUMBERS: std::ops::Range<i64> = 0..6;

/// Words, and numbers somewhat beyond those used in requirements.
fn universe() -> Vec<String> {
    let numbers = (NUMBERS.start - 2..NUMBERS.end + 2).map(|n| n.to_string());
    WORDS
        .map(str::to_owned)
        .into_iter()
        .chain(numbers)
        .collect()
}

fn requirement(operator: Operator, values: impl IntoIterator<Item = String>) -> Requirement {
    Requirement::new(KEY, operator, values)
}

fn bound(operator: Operator, n: i64) -> Requirement {
    requirement(operator, [n.to_string()])
}

fn values() -> impl Strategy<Value = Vec<String>> {
    let all = universe();
    let most = all.len();
    subsequence(all, 0..most)
}

/// One entry as users write it.
fn entry() -> impl Strategy<Value = Requirement> {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, Lte, NotIn};
    let any = prop_oneof![
        4 => values().prop_map(|values| requirement(In, values)),
        4 => values().prop_map(|values| requirement(NotIn, values)),
        1 => Just(requirement(Exists, [])),
        1 => Just(requirement(DoesNotExist, [])),
        4 => (prop::sample::select(vec![Gt, Lt, Gte, Lte]), NUMBERS)
            .prop_map(|(operator, n)| bound(operator, n)),
    ];
    (any, prop::option::weighted(0.2, 1_u32..4))
        .prop_map(|(any, min_values)| Requirement { min_values, ..any })
}

/// The intersection of one to three entries for a label.
fn any_requirement() -> impl Strategy<Value = Requirement> {
    let more = prop::collection::vec(entry(), 0..3);
    (entry(), more).prop_map(|(first, more)| more.iter().fold(first, |a, b| a.intersection(b)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn intersection_allows_values_both_allow(a in any_requirement(), b in any_requirement()) {
        let both = a.intersection(&b);
        for value in universe() {
            prop_assert_eq!(both.has(&value), a.has(&value) && b.has(&value), "{}", value);
        }
    }

    #[test]
    fn intersection_is_commutative(a in any_requirement(), b in any_requirement()) {
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersects(&b), b.intersects(&a));
    }

    #[test]
    fn intersection_is_associative(
        a in any_requirement(), b in any_requirement(), c in any_requirement(),
    ) {
        prop_assert_eq!(
            a.intersection(&b).intersection(&c),
            a.intersection(&b.intersection(&c))
        );
    }

    #[test]
    fn intersection_is_idempotent(a in any_requirement(), b in any_requirement()) {
        prop_assert_eq!(a.intersection(&a), a.clone());
        let both = a.intersection(&b);
        prop_assert_eq!(both.intersection(&b), both);
    }

    /// Two complements count as compatible even if their bounds leave only excluded numbers, so the converse holds
    /// where one of the two is a set.
    #[test]
    fn requirements_with_common_value_intersect(a in any_requirement(), b in any_requirement()) {
        let shared = universe().iter().any(|value| a.has(value) && b.has(value));
        if shared || !(a.complement && b.complement) {
            prop_assert_eq!(a.intersects(&b), shared);
        }
    }

    #[test]
    fn exists_is_identity_and_does_not_exist_is_zero(a in any_requirement()) {
        let none = Requirement {
            min_values: a.min_values,
            ..requirement(Operator::DoesNotExist, [])
        };
        prop_assert_eq!(a.intersection(&requirement(Operator::Exists, [])), a.clone());
        prop_assert_eq!(a.intersection(&requirement(Operator::DoesNotExist, [])), none);
    }

    #[test]
    fn not_in_is_the_complement_of_in(one in values(), other in values()) {
        let among = requirement(Operator::In, one.clone());
        let not_among = requirement(Operator::NotIn, one.clone());
        for value in universe() {
            prop_assert_ne!(among.has(&value), not_among.has(&value));
        }
        prop_assert!(!among.intersects(&not_among));
        let rest = one.iter().filter(|value| !other.contains(value)).cloned();
        prop_assert_eq!(
            among.intersection(&requirement(Operator::NotIn, other.clone())),
            requirement(Operator::In, rest)
        );
    }

    #[test]
    fn bounds_match_numbers_only(n in NUMBERS) {
        prop_assert_eq!(bound(Operator::Gt, n), bound(Operator::Gte, n + 1));
        prop_assert_eq!(bound(Operator::Lt, n), bound(Operator::Lte, n - 1));
        prop_assert!(!bound(Operator::Gt, n).intersects(&bound(Operator::Lt, n + 1)));
        for value in universe() {
            let number = value.parse::<i64>().ok();
            prop_assert_eq!(bound(Operator::Gt, n).has(&value), number.is_some_and(|v| v > n));
            prop_assert_eq!(bound(Operator::Lt, n).has(&value), number.is_some_and(|v| v < n));
        }
    }
}

#[test]
fn empty_lists_are_exists_and_does_not_exist() {
    assert_eq!(
        requirement(Operator::NotIn, []),
        requirement(Operator::Exists, [])
    );
    assert_eq!(
        requirement(Operator::In, []),
        requirement(Operator::DoesNotExist, [])
    );
}
